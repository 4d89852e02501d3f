"""Checkpoints that survive a kill at any moment."""

import contextlib
import logging
import math
import os
import pickle
import shutil
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import nn

from impatient.checks import ConfigError, check, integer, one_of
from impatient.files import whole

log = logging.getLogger(__name__)


class StoppedError(SystemExit):
    """The user pressed Ctrl-C, and the round that was under way is done and saved."""


class SaveError(OSError):
    """A checkpoint could not be written; what was there is untouched."""


def read_header(path: str | Path) -> dict[str, Any]:
    """What a checkpoint says of its run: global_step and identity. Raises ConfigError for a file that is none."""
    try:
        saved = torch.load(path, weights_only=True, mmap=True)
        header = {"global_step": saved["global_step"], "identity": saved["impatient"]["identity"]}
        if type(header["global_step"]) is not int or header["global_step"] < 0 or type(header["identity"]) is not dict:
            raise ValueError("its number of rounds or its identity is none")
        return header
    except Exception as error:  # torch meets a broken file with almost any of them
        why = f"{str(error) or type(error).__name__}".splitlines()[0][:100]
        if isinstance(error, pickle.UnpicklingError):
            why = "it has more in it than tensors and plain values, which is never executed"
        raise ConfigError(f"ckpt_path={path}: is no whole checkpoint of a run ({why}); name another one") from error


def newest(folder: Path) -> Path | None:
    """The whole checkpoint with the most rounds, last.ckpt where there is a draw; what is not whole is named.

    Raises ConfigError where there are checkpoints and none is whole.
    """
    rounds: dict[Path, int] = {}
    faults: list[str] = []
    for path in sorted(folder.glob("*.ckpt"), key=lambda path: path.name != "last.ckpt"):
        try:
            rounds[path] = read_header(path)["global_step"]
        except ConfigError as error:
            faults += error.faults
    if faults and not rounds:
        raise ConfigError(*faults)
    best = max(rounds, key=lambda path: rounds[path], default=None)
    for fault in faults:
        log.warning("%s; going on from %s, %d rounds", fault, best, rounds[best] if best else 0)
    return best


def check_same_run(was: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise ConfigError where rule, number of clients, partition or model are not those of a checkpoint."""
    check(
        *(
            f"ckpt_path: the checkpoint's {key} is {was.get(key)}, this run's is {value}; resume with the same {key}"
            for key, value in now.items()
            if was.get(key) != value
        )
    )


def check_disk(folder: str | Path, memory_size: int, model: nn.Module) -> None:
    """Raise ConfigError where the checkpoints of a run will not fit the disk of `folder`, which need not exist yet.

    At most three lie there at once: last, best, and the one being written. Each holds the memory, the model, up to two
    moments of the server optimizer and the rule's float64 vectors [P], of which two are allowed for.
    """
    params = sum(p.numel() for p in model.parameters())
    each = memory_size + params * (3 * 4 + 2 * 8)
    path = Path(folder).absolute()
    files = {stat.st_ino: stat.st_size for stat in (file.stat() for file in path.glob("*.ckpt"))}
    free = shutil.disk_usage(next(p for p in (path, *path.parents) if p.exists())).free
    if 3 * each > free + sum(files.values()):
        raise ConfigError(
            f"hydra.run.dir: the disk of {path} has {free / 1e9:.3g} GB free, and checkpoints take up to "
            f"{3 * each / 1e9:.3g} GB (last, best and the next one, {each / 1e9:.3g} GB each); make room, or set "
            "hydra.run.dir to another disk"
        )


class AtomicCheckpointIO(TorchCheckpointIO):
    """Streams into a temporary file beside the target, fsyncs, renames: a reader sees the old file or the new one."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Write `checkpoint` to `path`, or leave what was there."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with whole(target) as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError) as error:
            # torch's writer reports a write that failed as a RuntimeError about positions.
            cause = error if isinstance(error, OSError) else error.__context__
            if not isinstance(cause, OSError):
                raise
            kept = "the one saved before is whole" if target.exists() else "none was saved before"
            raise SaveError(
                f"cannot save {target}: {cause.strerror or cause}; {kept}. Make room on that disk, then resume with "
                "ckpt_path=last"
            ) from error


class Checkpoint(Callback):
    """last.ckpt every `save_every` rounds, at the end, on SIGTERM and Ctrl-C; best.ckpt is a copy of one of them.

    best: the saved round with the highest `monitor` (mode max) or the lowest (min), among those evaluated.
    """

    def __init__(self, folder: str, save_every: int = 10, monitor: str = "test/acc", mode: str = "max") -> None:
        check(
            integer("save_every", save_every, 1),
            one_of("mode", mode, ("max", "min")),
            None if isinstance(monitor, str) else f"monitor={monitor}: must be the name of a metric",
        )
        self.folder, self.save_every, self.monitor = Path(folder), save_every, monitor
        self.sign = 1 if mode == "max" else -1
        self.best: float | None = None
        self.best_round = -1
        self.stop = self.told = False
        self.previous: Any = None

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Make the copy that a kill between the save of the best round and its copy left out."""
        last = self.folder / "last.ckpt"
        if self.best_round < 0 or not trainer.is_global_zero or not last.exists():
            return
        with contextlib.suppress(ConfigError):  # torn: the run goes on from another one
            if read_header(last)["global_step"] == self.best_round + 1:
                _copy(last, self.folder / "best.ckpt")

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """From now on the first Ctrl-C ends the run after the round under way; a second one at once."""
        if threading.current_thread() is threading.main_thread():
            self.previous = signal.signal(signal.SIGINT, self._on_sigint)

    def _on_sigint(self, number: int, frame: Any) -> None:
        self.stop = True
        signal.signal(signal.SIGINT, self.previous)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Give Ctrl-C back."""
        if self.previous is not None:
            signal.signal(signal.SIGINT, self.previous)
            self.previous = None

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, *args: Any) -> None:
        """Save when it is time."""
        done = trainer.global_step
        stop = self.stop
        if trainer.world_size > 1:  # Ctrl-C reaches the ranks in different rounds: they must stop in the same one
            stop = trainer.strategy.reduce_boolean_decision(stop, all=False)
        if stop or done % self.save_every == 0 or done == trainer.max_steps:
            self._save(trainer, pl_module)
        if stop and done < trainer.max_steps:
            log.warning("stopped after round %d: saved; resume with ckpt_path=last", done - 1)
            raise StoppedError

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Say so where there is no best."""
        if self.best is None and trainer.is_global_zero:
            log.warning("no best.ckpt: %s was never finite when a checkpoint was saved", self.monitor)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Lightning raises SIGTERMException between two rounds: save there. Nothing is saved from inside a round."""
        if isinstance(exception, SIGTERMException):
            self._save(trainer, pl_module)
            log.warning("SIGTERM after round %d: saved; resume with ckpt_path=last", trainer.global_step - 1)

    def _save(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        row: dict[str, float] = getattr(pl_module, "row", {})
        value = row.get(self.monitor, math.nan)
        better = math.isfinite(value) and (self.best is None or self.sign * (value - self.best) > 0)
        if better:
            self.best, self.best_round = value, trainer.global_step - 1
        last = self.folder / "last.ckpt"
        for logger in trainer.loggers:
            logger.save()  # the rows first: a checkpoint is never ahead of them
        started = time.perf_counter()
        trainer.save_checkpoint(last, weights_only=False)
        if not self.told and trainer.is_global_zero:
            cost = last.stat().st_size / 1e6, time.perf_counter() - started
            log.info("checkpoint: %.3g MB in %.2g s, every %d rounds (save_every)", *cost, self.save_every)
            self.told = True
        if better and trainer.is_global_zero:
            _copy(last, self.folder / "best.ckpt")

    def state_dict(self) -> dict[str, Any]:
        """The best so far."""
        return {"best": self.best, "best_round": self.best_round}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on comparing with it."""
        self.best, self.best_round = state_dict["best"], state_dict["best_round"]


def _copy(source: Path, target: Path) -> None:
    """A hard link where the file system has them (a checkpoint is replaced, never changed), else a copy."""
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    try:
        os.link(source, part)
        part.replace(target)
        part.unlink(missing_ok=True)  # nothing is replaced where both are one file already
    except OSError:
        with source.open("rb") as original, whole(target) as copy:
            shutil.copyfileobj(original, copy)
