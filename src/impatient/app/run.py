"""Training and evaluation: what happens, in order; and how a run ends."""

import contextlib
import json
import logging
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, cast

import lightning as L
import torch
from hydra.conf import HydraConf
from hydra.types import RunMode
from lightning.pytorch.utilities.exceptions import SIGTERMException
from lightning.pytorch.utilities.rank_zero import rank_zero_only
from omegaconf import DictConfig, OmegaConf

import impatient
from impatient import allocator, files, records, tables
from impatient.app import build, cli, config, folder, sweep
from impatient.app.config import Settings
from impatient.checks import ConfigError
from impatient.data.partition import base as partition
from impatient.lit.checkpoint import StoppedError, check_disk, check_same_run, read_header
from impatient.lit.progress import RoundProgress
from impatient.memory import memory_bytes
from impatient.round import BadUpdateError

log = logging.getLogger("impatient")


class Run:
    """A run whose objects are made and whose data are loaded; nothing is written yet.

    data: the data module; module: the round, with the plain network as module.model; trainer: Lightning's; checkpoint,
    done: where it goes on, and the rounds done there; summary: what `fit` adds.
    """

    def __init__(self, settings: Settings, made: build.Parts | None = None) -> None:
        """Raises ConfigError for whatever is wrong, as it is found: values, the folder, the data, the model."""
        made = made or build.parts(settings)
        assert made.trainer is not None
        self.settings, self.trainer, self.home = settings, made.trainer, Path(settings.paths.run_dir)
        self.summary: dict[str, Any] = {}
        self.checkpoint = folder.checkpoint_of(settings, is_main())
        header: dict[str, Any] = read_header(self.checkpoint) if self.checkpoint else {"global_step": 0}
        self.done: int = header["global_step"]
        self.data = build.federation(settings, made)
        self.module = build.module(settings, made, self.data)
        device = self.trainer.strategy.root_device if made.memory.device == "auto" else torch.device(made.memory.device)
        self.memory = memory_bytes(made.algo.slots, settings.num_clients, self.module.model, made.memory, device)
        try:
            check_same_run(header.get("identity", self.module.identity), self.module.identity)
        except ConfigError as error:
            changes = folder.changed(settings)
            raise ConfigError(*error.faults, f"set differently from that run: {changes}" if changes else "") from error

    @property
    def result(self) -> float:
        """The final test accuracy, or the objective for a task without classes."""
        return float(self.summary.get("test/acc", self.summary["train/objective"]))


def fit(
    settings: Settings, made: build.Parts | None = None, hydras: Mapping[str, Any] | None = None, job: int | None = None
) -> Run:
    """Make a run and train it up to `rounds`, in its folder; a finished run is left as it is. Raises ConfigError.

    hydras: Hydra's own record, by file name. job: the number in a sweep, where the lines of several may mix: no tables,
    and the number before each line.
    """
    warnings.filterwarnings("ignore", ".*treespec")  # Lightning 2.6 asks torch 2.14 in an old way
    torch.set_num_threads(settings.threads)
    allocator.keep_freed_memory()
    home = Path(settings.paths.run_dir)
    home.mkdir(parents=True, exist_ok=True)
    with folder.claimed(home) if is_main() else contextlib.nullcontext():
        run = Run(settings, made)
        if run.done >= settings.rounds and is_main():
            changes = folder.changed(settings)
            but = f", with other settings ({changes})" if changes else ""
            say = f"{run.done} rounds are done already{but}: nothing to do; raise `rounds` to go on ({home})"
            tables.show_line(say, job)
        run.summary = (records.summary_of(home, run.done) or {}) if run.done >= settings.rounds else {}
        if not run.summary:
            _train(run, hydras or {}, job)
    return run


def _train(run: Run, hydras: Mapping[str, Any], job: int | None) -> None:
    settings = run.settings
    if is_main() and run.done < settings.rounds:
        check_disk(run.home / "checkpoints", run.memory, run.module.model)
        folder.keep_what_was(settings, run.done)
        log.info("per-client memory: %.1f MB (%s)", run.memory / 1e6, settings.memory["dtype"])
        if job is None:
            tables.show_federation(run.data.data, run.data.clients, run.data.availability)
        folder.begin(settings, hydras)
        partition.save(run.home / "partition.json", run.data.clients.indices)
    if isinstance(bar := run.trainer.progress_bar_callback, RoundProgress) and job is not None:
        bar.label = f"#{job}  "
    for logger in run.trainer.loggers:
        logger.log_hyperparams({**settings.plain(), "knowledge": sorted(run.module.aggregator.knowledge)})
    started = time.perf_counter()
    run.trainer.fit(run.module, datamodule=run.data, ckpt_path=run.checkpoint)
    if not run.module.row:
        raise RuntimeError("no round was run and none had been")
    seconds = time.perf_counter() - started
    versions = {"impatient": impatient.__version__, "torch": torch.__version__, "lightning": L.__version__}
    run.summary = {**run.module.summary(), "wall_seconds": seconds, "versions": versions}
    if not run.trainer.is_global_zero:
        return
    files.write(run.home / "summary.json", json.dumps(run.summary, indent=2))
    for logger in run.trainer.loggers:
        if end := getattr(logger, "end", None):
            end(run.summary)
    if job is None:
        tables.show_summary(run.summary, run.home)
    else:
        tables.show_line(f"done in {seconds:.3g} s: {run.home}", job)


def train(cfg: DictConfig) -> float | None:
    """What src/train.py does with the config that Hydra composed. Returns Run.result."""
    if not is_main():
        log.setLevel(logging.WARNING)  # one voice
    with cli.task() as hydra, ending(hydra):
        single, overrides, home = hydra.mode == RunMode.RUN, config.typed(hydra), Path(str(hydra.runtime.output_dir))
        if sweep.stopped:
            raise KeyboardInterrupt
        plain = {**config.plain(cfg), "choices": config.choices_of(hydra.runtime.choices), "overrides": overrides}
        if single and plain["ckpt_path"] == "last" and _is_new(hydra):
            raise ConfigError("ckpt_path=last: a new folder holds no checkpoint; add hydra.run.dir=<the run's folder>")
        if Path(plain["paths"]["run_dir"]) != home:
            raise ConfigError(f"paths.run_dir={plain['paths']['run_dir']}: is hydra.run.dir; set that")
        if not single and (plain.get("trainer") or {}).get("devices") != 1:
            raise ConfigError("trainer: several ranks would each run the whole sweep; start one command a run")
        settings, made = build.validated(plain)
        record = {"config.yaml": cfg, "hydra.yaml": OmegaConf.create({"hydra": hydra}), "overrides.yaml": overrides}
        return fit(settings, made, record, None if single else hydra.job.num).result
    return None  # stopped


def evaluate(cfg: DictConfig) -> None:
    """What src/eval.py does: print the metrics of the checkpoint that `run` or `ckpt_path` names."""
    warnings.filterwarnings("ignore", ".*treespec")
    warnings.filterwarnings("ignore", ".*callbacks used to create the checkpoint.*")
    with cli.task():
        if (cfg.run is None) == (cfg.ckpt_path is None):
            raise ConfigError("give a run's folder, or ckpt_path=<file>: python src/eval.py logs/runs/<folder>")
        checkpoint = Path(cfg.run) / "checkpoints" / "last.ckpt" if cfg.run else Path(str(cfg.ckpt_path))
        tables.show_metrics(str(checkpoint), metrics_of(checkpoint, cfg.data_dir))


def metrics_of(checkpoint: Path, data_dir: str | None = None) -> dict[str, float]:
    """The metrics of one checkpoint in its run's folder. data_dir: where the data lie now, if not where they lay then.

    Raises ConfigError for files that are not there, or that no run wrote.
    """
    home = checkpoint.parent.parent
    missing = [path for path in (home / "config.yaml", checkpoint) if not path.is_file()]
    if missing:
        raise ConfigError(*(f"{path}: there is no such file; name the folder of a run" for path in missing))
    read_header(checkpoint)
    was = records.config_of(home / "config.yaml")
    if not all(isinstance(was.get(key), dict) for key in ("data", "memory", "trainer")):
        raise ConfigError(f"{home / 'config.yaml'}: is not the config of a run")
    if data_dir is not None and "root" in was["data"]:
        was["data"]["root"] = data_dir
        if "cache_dir" in was["data"]:  # of the machine that trained
            was["data"]["cache_dir"] = None
    # No round is run, and this machine need not be the one that trained.
    here = {"accelerator": "auto", "devices": 1, "strategy": "auto", "max_steps": was.get("rounds")}
    was["trainer"] = {**was["trainer"], **here, "enable_progress_bar": False}
    was["availability"] = {"_target_": "impatient.availability.always.Always"}
    was["logger"] = was["callbacks"] = {}
    was["memory"]["device"] = "auto"
    settings, made = build.validated(was)
    torch.set_num_threads(settings.threads)
    data = build.federation(settings, made)
    module = build.module(settings, made, data)
    assert made.trainer is not None
    made.trainer.test(module, datamodule=data, ckpt_path=checkpoint, verbose=False)
    return module.evaluated


# How a run ends ------------------------------------------------------------------------------------------------------


def is_main() -> bool:
    """Whether this is the one process, or the first of several ranks: the one that writes and speaks."""
    return getattr(rank_zero_only, "rank", 0) == 0


@contextlib.contextmanager
def ending(hydra: HydraConf) -> Iterator[None]:
    """Around a run that Hydra started: one message, an exit status, its traceback in train.log, and W&B told as well.

    Raises SystemExit, in a sweep JobError, and a ConfigError or what nobody can explain as it was.
    """
    home, job = Path(str(hydra.runtime.output_dir)), None if hydra.mode == RunMode.RUN else hydra.job.num
    failed = True
    try:
        yield
        failed = False
    except SIGTERMException:
        sys.exit(143)
    except (StoppedError, KeyboardInterrupt, SystemExit) as error:
        asked = isinstance(error, StoppedError | KeyboardInterrupt)
        if not asked and not isinstance(error.__context__, KeyboardInterrupt):  # Lightning exits after a Ctrl-C
            raise
        if parent_process() is None:
            sys.exit(130)
        sweep.stopped = True  # a job beside others returns and starts no other, so that these can save as well
        with contextlib.suppress(OSError):
            home.rmdir()
    except Exception as error:
        text = _explained(error)
        if text is None:
            rule = [word for word in config.typed(hydra) if word.lstrip("+~").startswith(("algo=", "algo."))]
            check = " ".join(["python src/check.py", *rule])
            error.add_note(f"If the rule is your own: {check}\nsays in seconds which law of the plug-in API it breaks.")
        if text is None or job is not None:
            with (
                contextlib.suppress(OSError),
                open(home / "train.log", "a", encoding="utf-8", opener=files.no_link) as file,
            ):
                traceback.print_exc(file=file)
        if job is not None:  # said at once: the others may take days
            said = f"#{job}  failed: {'; '.join((text or f'{type(error).__name__}: {error}').splitlines())} ({home})"
            print(f"{said}\n", end="", file=sys.stderr, flush=True)
            raise cli.JobError(said) from error
        if isinstance(error, ConfigError) and _is_new(hydra):
            with contextlib.suppress(OSError):  # if nothing was written into it
                home.rmdir()
        if text is None or isinstance(error, ConfigError):
            raise
        with contextlib.suppress(OSError):  # a full disk takes no train.log either; the terminal comes first
            log.error("%s", text)
        sys.exit(1)
    finally:
        if wandb := sys.modules.get("wandb"):
            wandb.finish(exit_code=int(failed))


def _is_new(hydra: HydraConf) -> bool:
    """Whether the run's folder is one of its own, named by the time."""
    return "${now:" in str(OmegaConf.to_container(cast(Any, hydra.run)))


def _explained(error: Exception) -> str | None:
    """What to say of the user's or the machine's faults, for which no traceback helps; None for all others."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}; once that is mended, resume with ckpt_path=last"
    if isinstance(error, torch.distributed.DistError) or "gloo" in str(error):
        return "a rank lost another one, and ends; resume with ckpt_path=last"
    return str(error) if isinstance(error, ConfigError | BadUpdateError | OSError) else None
