"""What a command line composes, and everything that is wrong with one that composes nothing."""

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from impatient.checks import ConfigError
from overrides import compose_of, jobs_of, sift, with_known_keys

Judge = Callable[[dict[str, Any]], list[str]]


def plain(cfg: DictConfig) -> dict[str, Any]:
    """Dicts and lists, all interpolations resolved, without the groups that only set others' values.

    Raises ConfigError where one cannot be resolved, or a value is missing.
    """
    try:
        resolved = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise ConfigError(f"{error.full_key}: is missing; give {error.full_key}=…") from error
    except OmegaConfBaseException as error:
        raise ConfigError(f"{error.full_key}: {str(error.msg or error).splitlines()[0]}; give a value") from error
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items() if key not in ("experiment", "sweep", "debug")}


def typed() -> list[str]:
    """The running job's overrides. Iterating over Hydra's list would resolve their references, in the wrong config."""
    return cast(list[str], OmegaConf.to_container(HydraConfig.get().overrides.task))


def of_job(cfg: DictConfig, number: int = 0) -> dict[str, Any]:
    """The plain config of a job that is composed, Hydra's own node included, and not begun. Raises as `plain` does."""
    cfg = copy.deepcopy(cfg)
    with open_dict(cfg):
        cfg.hydra.job.id, cfg.hydra.job.num = str(number), number
        cfg.hydra.runtime.output_dir = os.path.abspath(Path(cfg.hydra.sweep.dir, str(cfg.hydra.sweep.subdir)))
    HydraConfig.instance().set_config(cfg)  # what ${hydra:…} refers to
    with open_dict(cfg):
        del cfg["hydra"]
    return plain(cfg)


def all_faults(overrides: list[str], config_name: str, multirun: bool = True, judge: Judge | None = None) -> list[str]:
    """Every override at fault, and what `judge` says of the values of the others; each with the way out.

    Empty where Hydra's own message must do. Combinations are for those to judge who have a whole config. Hydra runs
    nothing any more after it.
    """
    GlobalHydra.instance().clear()
    faults, groups, keys = sift(overrides)
    if _why_not([], config_name):  # no fault of the command line
        return faults
    good = _tried(groups, [], config_name, faults)
    unknown, keys = with_known_keys(keys, good, config_name)
    faults += unknown
    good = _tried(keys, good, config_name, faults)
    jobs = jobs_of(good, config_name)
    if not multirun and compose_of(config_name, *jobs[0]).hydra.mode != RunMode.MULTIRUN:
        for one in good:
            if one.is_sweep_override() and one.input_line in overrides:  # a misspelt choice is told of already
                or_list = "" if one in groups else ", or write a list in brackets"
                faults.append(f"{one.input_line}: has several values; add -m to run each{or_list}")
    if judge is not None:
        faults += dict.fromkeys(fault for job in jobs for fault in _judged(job, config_name, judge))
    return faults


def _judged(job: list[str], config_name: str, judge: Judge) -> list[str]:
    try:
        return judge(of_job(compose_of(config_name, *job)))
    except ConfigError as error:
        return error.faults
    except (HydraException, OmegaConfBaseException) as error:
        return [_said(error)]


def _tried(new: list[Override], good: list[Override], config_name: str, faults: list[str]) -> list[Override]:
    """The good ones, and of the new ones those that compose with them; why the others do not is added to the faults."""
    if _why_not([*good, *new], config_name) is None:
        return [*good, *new]
    good = list(good)
    for one in new:
        why = _why_not([*good, one], config_name)
        if why is None:
            good.append(one)
        elif one.is_add() and "already" in why:
            faults.append(f"{one.input_line}: is there already; leave the + out")
        else:
            faults.append(why if why.startswith(f"{one.key_or_group}:") else f"{one.input_line}: {why}")
    return good


def _why_not(overrides: list[Override], config_name: str) -> str | None:
    """Why they compose nothing; None if they do."""
    try:
        of_job(compose_of(config_name, *jobs_of(overrides, config_name)[0]))
    except ConfigError as error:
        return str(error)
    except (HydraException, OmegaConfBaseException) as error:
        return _said(error)
    return None


def _said(error: Exception) -> str:
    """Hydra's message in one line."""
    cause = str(error.__cause__).splitlines()[0] if isinstance(error.__cause__, OmegaConfBaseException) else ""
    return " ".join(f"{str(error).partition('Config search path')[0]} {cause}".split())
