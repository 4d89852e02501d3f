"""One federated run: compose → validate → instantiate → fit → report.

python src/train.py algo=mifa data=cifar10 availability.pmin=0.2
"""

import contextlib
import hashlib
import json
import logging
import os
import shutil
import sys
import time
import traceback
import warnings
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

os.environ.setdefault("IMPATIENT_ROOT", str(Path(__file__).resolve().parents[1]))

import hydra
import lightning as L
import torch
import wandb
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from lightning.pytorch.utilities.exceptions import SIGTERMException
from omegaconf import DictConfig, OmegaConf

import build
import door
import resume
import sweep
from faults import Config
from impatient import allocator, tables
from impatient.checks import ConfigError
from impatient.data.partition import base as partition
from impatient.lit.checkpoint import AtomicCheckpointIO, Checkpoint, StoppedError, check_disk, read_header
from impatient.lit.progress import RoundProgress
from impatient.lit.round_module import FederatedRound
from impatient.memory import memory_bytes
from impatient.plots.groups import setting
from impatient.round import BadUpdateError

log = logging.getLogger("impatient")


def group_of(cfg: Config) -> str:
    """The W&B group: seeds of one setting are drawn together, as they are by src/plot.py."""
    core = json.dumps(setting(cfg), sort_keys=True, default=str)
    digest = hashlib.blake2b(core.encode(), digest_size=3).hexdigest()
    return f"{cfg['choices']['data']}-{cfg['choices']['algo']}-{digest}"


def _with_group(cfg: Config, node: Config) -> Config:
    return {**node, "group": node.get("group") or group_of(cfg)}


def make_trainer(cfg: Config, job: int | None) -> L.Trainer:
    """Lightning's Trainer with our logger, checkpoints and progress. Raises ConfigError for arguments it refuses."""
    faults: list[str] = []
    loggers = [
        build.make(f"logger.{name}", _with_group(cfg, node) if name == "wandb" else node, faults)
        for name, node in (cfg.get("logger") or {}).items()
        if node is not None
    ]
    callbacks = [
        build.make(f"callbacks.{name}", node, faults)
        for name, node in (cfg.get("callbacks") or {}).items()
        if node is not None
    ]
    for callback in callbacks:
        if isinstance(callback, RoundProgress) and job is not None:
            callback.label = f"#{job}  "
    # Last, so that whatever the others keep of a round is there before the checkpoint that counts it.
    callbacks.sort(key=lambda callback: isinstance(callback, Checkpoint))
    trainer = build.make(
        "trainer", cfg["trainer"], faults, logger=loggers, callbacks=callbacks, plugins=[AtomicCheckpointIO()]
    )
    if trainer is None:
        faults[-1] += "; trainer=cpu runs anywhere"
    if faults:
        raise ConfigError(*faults)
    return trainer


def run(cfg: Config, overrides: list[str], job: int | None = None) -> float:
    """Train. Returns the final test accuracy, or the objective for a task without classes.

    job: its number in a sweep, where the lines of several may mix: no tables, and the number before each line.
    """
    parts = build.validate(cfg)
    torch.set_num_threads(cfg["threads"])
    allocator.keep_freed_memory()
    ckpt = resume.checkpoint_of(cfg)
    header = read_header(ckpt) if ckpt else None
    trainer = make_trainer(cfg, job)
    dm = build.datamodule(cfg, parts)
    module = build.round_module(cfg, parts, dm)
    size = memory_bytes(parts.aggregator.slots, dm.num_clients, module.model, parts.memory)
    log.info("per-client memory: %.1f MB (%s)", size / 1e6, parts.memory.dtype)

    folder, done = Path(cfg["paths"]["run_dir"]), 0
    if header is not None:
        module.check_identity(header["identity"])
        done = header["global_step"]
    # Nothing in the folder changes before the run is known to be possible.
    if done and done >= cfg["rounds"]:
        log.info("%d rounds are done already: nothing to do; raise `rounds` to go on", done)
        if summary := resume.summary_of(folder, done):
            return _metric(summary)
    elif resume.is_main():
        check_disk(folder / "checkpoints", size, module.model)
        resume.keep_what_was(folder, cfg, done)
        if job is None:
            tables.show_federation(dm.data, dm.clients, dm.availability)
        resume.write(folder / "overrides.json", json.dumps(overrides))
        resume.write(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(dict(cfg))))
        partition.save(folder / "partition.json", dm.clients.indices)
    for logger in trainer.loggers:
        logger.log_hyperparams({**cfg, "knowledge": sorted(parts.aggregator.knowledge)})

    started = time.perf_counter()
    trainer.fit(module, datamodule=dm, ckpt_path=ckpt)
    if not module.row:
        raise RuntimeError("no round was run and none had been")
    summary = {
        **module.summary(),
        "wall_seconds": time.perf_counter() - started,
        "versions": {"impatient": "0.1.0", "torch": torch.__version__, "lightning": L.__version__},
    }
    if trainer.is_global_zero:
        _finish(folder, summary, module, job)
    return _metric(summary)


def _metric(summary: dict[str, Any]) -> float:
    return float(summary.get("test/acc", summary["train/objective"]))


def _finish(folder: Path, summary: dict[str, Any], module: FederatedRound, job: int | None) -> None:
    resume.write(folder / "summary.json", json.dumps(summary, indent=2))
    if wandb.run is not None:
        wandb.run.summary.update({k: v for k, v in summary.items() if k.startswith("hash/")})
    if module.participation.count.sum() == 0:
        log.warning("nobody ever took part: the model is as it was initialised")
    if job is None:
        tables.show_summary(summary, folder)
    else:
        print(f"#{job}  done in {summary['wall_seconds']:.3g} s: {folder}\n", end="", flush=True)


def _stopped(folder: Path) -> None:
    """Exit status 130; but a job beside others returns, and starts no other, so that these can save as well."""
    if parent_process() is None:
        sys.exit(130)
    sweep.stopped = True
    _forget(folder)


def _is_new(run: Any) -> bool:
    """Whether the run's folder is named by the time."""
    return "${now:" in OmegaConf.to_container(run)["dir"]  # type: ignore[call-overload, index]


def _forget(folder: Path) -> None:
    """Remove a folder in which nothing but Hydra's own notes was written."""
    if (
        folder != Path.cwd()
        and not folder.is_symlink()
        and {path.name for path in folder.iterdir()} <= {".hydra", "train.log"}
    ):
        shutil.rmtree(folder)


@hydra.main(version_base="1.3", config_path="../configs", config_name="train")
def main(cfg: DictConfig) -> float | None:
    """Compose, run, and turn a user's mistake into one message and exit status 1."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", ".*treespec")  # Lightning 2.6 asks torch 2.14 in an old way
    single = HydraConfig.get().mode == RunMode.RUN
    folder = Path(HydraConfig.get().runtime.output_dir)
    if not resume.is_main():
        log.setLevel(logging.WARNING)  # one voice
    failed = True
    if sweep.stopped:
        _stopped(folder)
        return None
    try:
        plain = door.plain(cfg)
        if single and plain["ckpt_path"] == "last" and _is_new(HydraConfig.get().run):
            raise ConfigError("ckpt_path=last: a new folder holds no checkpoint; add hydra.run.dir=<the run's folder>")
        if Path(plain["paths"]["run_dir"]) != folder:
            raise ConfigError(f"paths.run_dir={plain['paths']['run_dir']}: is hydra.run.dir; set that")
        if not single and (plain.get("trainer") or {}).get("devices") != 1:
            raise ConfigError("trainer: several ranks would each run the whole sweep; start one command a run")
        plain["choices"] = {k: v for k, v in HydraConfig.get().runtime.choices.items() if not k.startswith("hydra/")}
        job = None if single else HydraConfig.get().job.num
        with resume.claimed(folder) if resume.is_main() else contextlib.nullcontext():
            metric = run(plain, list(HydraConfig.get().overrides.task), job)
        failed = False
        return metric
    except (ConfigError, BadUpdateError, OSError) as error:  # the user's or the machine's: no traceback helps
        if isinstance(error, ConfigError):
            door.show_faults(error)
        else:
            log.error("%s", error)
        if not single:
            _note(folder)
            raise door.JobError(f"{folder}: {error}") from error
        if isinstance(error, ConfigError) and _is_new(HydraConfig.get().run):
            _forget(folder)  # one that was named may have been there before, with somebody's notes in it
        sys.exit(1)
    except SIGTERMException:
        sys.exit(143)
    except (StoppedError, KeyboardInterrupt):
        _stopped(folder)
        return None
    except SystemExit as error:  # Lightning's, after a Ctrl-C that it saw itself
        if isinstance(error.__context__, KeyboardInterrupt):
            _stopped(folder)
            return None
        raise
    except Exception as error:
        _note(folder)
        if isinstance(error, torch.distributed.DistError) or "gloo" in str(error):
            log.error("a rank lost another one, and ends; resume with ckpt_path=last")
            sys.exit(1)
        raise
    finally:
        wandb.finish(exit_code=int(failed))


def _note(folder: Path) -> None:
    """The traceback of what ended this job, in its own train.log."""
    with contextlib.suppress(OSError), (folder / "train.log").open("a") as file:
        traceback.print_exc(file=file)


if __name__ == "__main__":
    sys.argv = resume.with_saved_overrides(sys.argv)
    door.enter(main)
