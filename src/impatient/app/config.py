"""The settings of a run: composed by Hydra, resolved, and typed by pydantic."""

import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

import hydra
from hydra.conf import HydraConf
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from impatient.checks import ConfigError, known

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = ROOT / "configs"
os.environ.setdefault("IMPATIENT_ROOT", str(ROOT))  # configs/paths

GROUPS = ("experiment", "sweep", "debug")  # which only set the values of others


def _has_target(node: dict[str, Any]) -> dict[str, Any]:
    if "_target_" not in node:
        raise ValueError("has no _target_, so no choice of the group is left; give one")
    return node


def _shares_clients(strategy: Any) -> Any:
    if str(strategy).split("_")[0] not in ("auto", "ddp"):
        raise ValueError("clients are shared over ranks by ddp only; use trainer=ddp")
    return strategy


Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Node = Annotated[dict[str, Any], AfterValidator(_has_target)]
"""One object: `_target_`, its class by dotted name, and the arguments by name."""
Flag = bool | None


class _Typed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Seeds(_Typed):
    """One seed for each purpose."""

    partition: Seed
    availability: Seed
    batches: Seed
    model: Seed
    cohort: Seed


class TrainerSettings(_Typed):
    """What of Lightning's Trainer is the user's to set, and what makes a round one; the rest has no meaning here."""

    target: str = Field(alias="_target_")
    max_steps: Any = None  # `rounds`: Settings.of
    max_epochs: Literal[-1] = Field(description="rounds are counted by `rounds`")
    use_distributed_sampler: Literal[False] = Field(description="clients are shared over ranks by their ids")
    num_sanity_val_steps: Literal[0] = Field(description="evaluation is part of the round")
    enable_checkpointing: Literal[False] = Field(description="checkpoints are written by callbacks.checkpoint")
    # Lightning itself says what is wrong with these
    accelerator: Any = "auto"
    devices: Any = 1
    num_nodes: Any = 1
    precision: Any = None
    default_root_dir: Any = None
    strategy: Annotated[Any, AfterValidator(_shares_clients)] = "auto"
    profiler: Literal["simple", "advanced", "pytorch"] | None = None
    deterministic: Literal[True, False, "warn"] | None = None
    enable_progress_bar: Flag = None
    enable_model_summary: Flag = None
    benchmark: Flag = None
    inference_mode: Flag = None
    detect_anomaly: Flag = None


class Paths(_Typed):
    """Where things lie."""

    root: str
    data_dir: str
    log_dir: str
    run_dir: str


class Settings(_Typed):
    """A run in full. What a node's arguments may be, its class says when it is made (`build.make`)."""

    num_clients: Count
    rounds: Count
    eval_every: Count
    save_every: Count
    threads: Annotated[int, Field(ge=1, le=1024)]
    seed: Seed
    seeds: Seeds
    weights: Literal["equal", "samples"]
    on_bad_update: Literal["fail", "skip"]
    ckpt_path: str | None
    data: Node
    partition: Node
    availability: Node
    algo: Node
    client: Node
    server: Node
    engine: Node
    memory: Node
    model: Node
    trainer: TrainerSettings
    callbacks: dict[str, Node | None] | None = None
    logger: dict[str, Node | None] | None = None
    paths: Paths
    choices: dict[str, Any] = {}  # of each config group, by name
    overrides: list[str] = Field(default=[], exclude=True)  # as they were typed

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """The settings in a resolved config. Raises ConfigError with every value that cannot be."""
        faults = []
        try:
            made = cls.model_validate(dict(plain))
        except ValidationError as error:
            faults = [_fault(one) for one in error.errors()]
        trainer = plain.get("trainer")
        if isinstance(trainer, Mapping) and trainer.get("max_steps") != plain.get("rounds"):
            faults.append(f"trainer.max_steps={trainer.get('max_steps')}: rounds are counted by `rounds`; set that")
        faults += _folder_faults(plain)
        if faults:
            raise ConfigError(*dict.fromkeys(faults))
        return made

    @classmethod
    def unchecked(cls, plain: Mapping[str, Any]) -> Self:
        """The same where `of` finds faults, to look for others; what is at fault must not be used."""
        trainer = plain.get("trainer")
        typed = TrainerSettings.model_construct(**trainer) if isinstance(trainer, Mapping) else trainer
        return cls.model_construct(**{**plain, "trainer": typed})

    def plain(self) -> dict[str, Any]:
        """In dicts and lists, as they were given."""
        return self.model_dump(by_alias=True, exclude_unset=True)


def _fault(error: Any) -> str:
    """pydantic's finding as `key=value: reason`."""
    key, kind, value = ".".join(map(str, error["loc"])), error["type"], error["input"]
    *above, last = error["loc"]
    model: Any = Settings if not above else Settings.model_fields[above[0]].annotation
    fields: dict[str, Any] = getattr(model, "model_fields", {})
    if kind == "missing":
        return f"{key}: is missing; give {key}=…"
    if kind == "extra_forbidden" and above:
        near = "; did you mean".join(["", *str(known(key, last, fields)).split("; did you mean")[1:]])
        return f"{key}={value}: has no meaning here; leave it out{near}"
    if kind == "extra_forbidden":
        return str(known(key, last, fields))
    if kind in ("dict_type", "model_type"):
        return f"{key}={value}: must be a group of settings"
    reason = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    why = fields[last].description if last in fields else None
    return f"{key}{'' if isinstance(value, dict) else f'={value}'}: {reason}{f'; {why}' if why else ''}"


def _folder_faults(plain: Mapping[str, Any]) -> list[str]:
    """Callbacks and loggers write into the run's folder only: in any other, another run may write the same files."""
    run = Path(str((plain.get("paths") or {}).get("run_dir"))).absolute()
    faults = []
    for group in ("callbacks", "logger"):
        for name, node in (plain.get(group) or {}).items():
            folder = node.get("folder") if isinstance(node, Mapping) else None
            home = run / "checkpoints" if (group, name) == ("callbacks", "checkpoint") else run
            if folder is not None and Path(os.path.abspath(str(folder))) != home:
                faults.append(f"{group}.{name}.folder={folder}: must be {home}; set hydra.run.dir to another folder")
    return faults


def plain(cfg: DictConfig) -> dict[str, Any]:
    """Dicts and lists, all interpolations resolved. Raises ConfigError where one cannot be, or a value is missing."""
    try:
        resolved = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise ConfigError(f"{error.full_key}: is missing; give {error.full_key}=…") from error
    except OmegaConfBaseException as error:
        raise ConfigError(f"{error.full_key}: {str(error.msg or error).splitlines()[0]}; give a value") from error
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items() if key not in GROUPS}


def of_job(cfg: DictConfig, number: int = 0, folder: str | None = None) -> dict[str, Any]:
    """The plain config of a job that is composed, Hydra's own node included, and not begun. Raises as `plain` does.

    folder: the run's; without it that of the job in its sweep.
    """
    cfg = copy.deepcopy(cfg)
    with open_dict(cfg):
        cfg.hydra.job.id, cfg.hydra.job.num = str(number), number
        cfg.hydra.runtime.output_dir = os.path.abspath(folder or Path(cfg.hydra.sweep.dir, str(cfg.hydra.sweep.subdir)))
    HydraConfig.instance().set_config(cfg)  # what ${hydra:…} refers to
    choices = choices_of(cfg.hydra.runtime.choices)
    with open_dict(cfg):
        del cfg["hydra"]
    return {**plain(cfg), "choices": choices}


def choices_of(choices: Mapping[str, Any]) -> dict[str, Any]:
    """What was chosen of each config group, without Hydra's own."""
    return {key: value for key, value in choices.items() if not key.startswith("hydra/")}


def typed(job: HydraConf) -> list[str]:
    """A job's overrides. Iterating over Hydra's list would resolve their references, in the wrong config."""
    return cast(list[str], OmegaConf.to_container(cast(Any, job.overrides.task)))


def composed(name: str, overrides: list[str]) -> DictConfig:
    """The config of a command line, Hydra's own node included. Raises what Hydra raises."""
    if GlobalHydra.instance().is_initialized():
        return hydra.compose(name, overrides, return_hydra_config=True)
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return hydra.compose(name, overrides, return_hydra_config=True)


def compose(*overrides: str) -> Settings:
    """The settings of `python src/train.py <overrides>`, for a notebook. Raises ConfigError for values that cannot be.

    >>> compose("algo=mifa", "rounds=20", "logger=csv").rounds
    20
    """
    cfg = composed("train", list(overrides))
    return Settings.of({**of_job(cfg, folder=str(cfg.hydra.run.dir)), "overrides": list(overrides)})
