"""One federated run: compose → validate → instantiate → fit → report.

python src/train.py algo=mifa data=cifar10 availability.pmin=0.2
"""

import contextlib
import hashlib
import json
import logging
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hydra
import lightning as L
import torch
import wandb
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from lightning.pytorch.loggers.logger import Logger
from omegaconf import DictConfig, OmegaConf

import build
import composed
import door
import endings
import resume
import rundir
import sweep
from faults import Config
from impatient import allocator, files, tables
from impatient.checks import ConfigError
from impatient.data.partition import base as partition
from impatient.lit.checkpoint import AtomicCheckpointIO, Checkpoint, check_disk, check_same_run, read_header
from impatient.lit.progress import RoundProgress
from impatient.lit.round_module import FederatedRound
from impatient.memory import memory_bytes
from impatient.plots.groups import setting
from instances import make

log = logging.getLogger("impatient")


def group_of(cfg: Config) -> str:
    """The W&B group: seeds of one setting are drawn together, as they are by src/plot.py."""
    core = json.dumps(setting(cfg), sort_keys=True, default=str)
    digest = hashlib.blake2b(core.encode(), digest_size=3).hexdigest()
    return f"{cfg['choices']['data']}-{cfg['choices']['algo']}-{digest}"


def _with_group(cfg: Config, node: Config) -> Config:
    return {**node, "group": node.get("group") or group_of(cfg)}


def make_trainer(cfg: Config, job: int | None) -> Any:
    """Lightning's Trainer with our logger, checkpoints and progress. Raises ConfigError for arguments it refuses."""
    faults: list[str] = []
    made = [
        make(path, _with_group(cfg, node) if path == "logger.wandb" else node, faults)
        for path, node in build.around(cfg)
    ]
    loggers = [one for one in made if isinstance(one, Logger)]
    callbacks = [one for one in made if isinstance(one, L.Callback)]
    for callback in callbacks:
        if isinstance(callback, RoundProgress) and job is not None:
            callback.label = f"#{job}  "
    # Last, so that whatever the others keep of a round is there before the checkpoint that counts it.
    callbacks.sort(key=lambda callback: isinstance(callback, Checkpoint))
    trainer = build.trainer(cfg, faults, logger=loggers, callbacks=callbacks, plugins=[AtomicCheckpointIO()])
    if faults:
        raise ConfigError(*faults)
    return trainer


def run(cfg: Config, hydras: Mapping[str, Any], job: int | None = None) -> float:
    """Train. Returns the final test accuracy, or the objective for a task without classes.

    hydras: what Hydra keeps of a run, by file name.
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
    folder, done = Path(cfg["paths"]["run_dir"]), 0
    if header is not None:
        try:
            check_same_run(header["identity"], module.identity)
        except ConfigError as error:
            changes = resume.changed(folder, cfg)
            raise ConfigError(
                *error.faults, *([f"set differently from that run: {changes}"] if changes else [])
            ) from error
        done = header["global_step"]
    # Nothing in the folder changes before the run is known to be possible.
    if done >= cfg["rounds"]:
        if rundir.is_main():
            changes = resume.changed(folder, cfg)
            but = f", with other settings ({changes})" if changes else ""
            _say(job, f"{done} rounds are done already{but}: nothing to do; raise `rounds` to go on ({folder})")
        if summary := rundir.summary_of(folder, done):
            return _metric(summary)
    elif rundir.is_main():
        check_disk(folder / "checkpoints", size, module.model)
        resume.keep_what_was(folder, cfg, done)
        log.info("per-client memory: %.1f MB (%s)", size / 1e6, parts.memory.dtype)
        if job is None:
            tables.show_federation(dm.data, dm.clients, dm.availability)
        rundir.begin(folder, cfg, hydras)
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
    files.write(folder / "summary.json", json.dumps(summary, indent=2))
    if wandb.run is not None:
        wandb.run.summary.update({k: v for k, v in summary.items() if k.startswith("hash/")})
    if job is None:
        tables.show_summary(summary, folder)
    else:
        _say(job, f"done in {summary['wall_seconds']:.3g} s: {folder}")


def _say(job: int | None, text: str) -> None:
    """A line in one piece, with the job's number in a sweep, where the lines of several may mix."""
    print(f"{'' if job is None else f'#{job}  '}{text}\n", end="", flush=True)


def _plain(cfg: DictConfig, single: bool) -> dict[str, Any]:
    """The config in plain dicts. Raises ConfigError with everything that is wrong where a value cannot be resolved."""
    try:
        return composed.plain(cfg)
    except ConfigError as error:
        found = composed.all_faults(composed.typed(), "train", judge=build.value_faults) if single else []
        raise ConfigError(*(found or error.faults)) from error


@hydra.main(version_base="1.3", config_path="../configs", config_name="train")
def main(cfg: DictConfig) -> float | None:
    """Compose, run, and turn a user's mistake into one message and exit status 1."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", ".*treespec")  # Lightning 2.6 asks torch 2.14 in an old way
    single = HydraConfig.get().mode == RunMode.RUN
    job = None if single else HydraConfig.get().job.num
    folder = Path(HydraConfig.get().runtime.output_dir)
    choices = {k: v for k, v in HydraConfig.get().runtime.choices.items() if not k.startswith("hydra/")}
    if not rundir.is_main():
        log.setLevel(logging.WARNING)  # one voice
    rule = [f"algo={choices.get('algo')}", *(arg for arg in composed.typed() if arg.lstrip("+~").startswith("algo."))]
    with endings.told(folder, job, rule):
        if sweep.stopped:
            raise KeyboardInterrupt
        plain = _plain(cfg, single)
        if single and plain["ckpt_path"] == "last" and rundir.is_new():
            raise ConfigError("ckpt_path=last: a new folder holds no checkpoint; add hydra.run.dir=<the run's folder>")
        if Path(plain["paths"]["run_dir"]) != folder:
            raise ConfigError(f"paths.run_dir={plain['paths']['run_dir']}: is hydra.run.dir; set that")
        if not single and (plain.get("trainer") or {}).get("devices") != 1:
            raise ConfigError("trainer: several ranks would each run the whole sweep; start one command a run")
        plain["choices"] = choices
        hydras = {
            "config.yaml": cfg,
            "hydra.yaml": OmegaConf.create({"hydra": HydraConfig.get()}),
            "overrides.yaml": composed.typed(),
        }
        with rundir.claimed(folder) if rundir.is_main() else contextlib.nullcontext():
            return run(plain, hydras, job)
    return None  # stopped


if __name__ == "__main__":
    sys.argv = resume.with_saved_overrides(sys.argv)
    door.enter(sweep.reported(main), build.value_faults)
