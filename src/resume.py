"""Going on with a run: its checkpoint, its own overrides, and what is set differently now."""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightning.pytorch.utilities.rank_zero import rank_zero_only
from omegaconf import OmegaConf

from faults import Config
from impatient.checks import ConfigError
from impatient.lit.checkpoint import read_header

log = logging.getLogger("impatient")

# What a run writes, and would write over; the first of them before all others.
OURS = (
    *("overrides.json", "config.yaml", "partition.json", "metrics.csv", "clients.csv", "participation.csv"),
    *("summary.json", "checkpoints"),
)


def is_main() -> bool:
    """Whether this is the one process, or the first of several ranks: the one that writes and speaks."""
    return getattr(rank_zero_only, "rank", 0) == 0


def with_saved_overrides(argv: list[str]) -> list[str]:
    """For `hydra.run.dir=… ckpt_path=last`: the overrides that the folder's run was started with, then one's own."""
    given = dict(arg.split("=", 1) for arg in argv[1:] if "=" in arg)
    if given.get("hydra.run.dir") == "":
        sys.exit("hydra.run.dir=: names no folder; give one, or leave it out")
    saved = Path(given.get("hydra.run.dir", "")) / "overrides.json"
    if given.get("ckpt_path") != "last" or "hydra.run.dir" not in given or not saved.is_file():
        return argv
    own = {key.lstrip("+~") for key in given}
    try:
        before = [arg for arg in json.loads(saved.read_text()) if arg.split("=", 1)[0].lstrip("+~") not in own]
    except (OSError, ValueError, AttributeError) as error:
        sys.exit(f"{saved}: cannot be read ({error}); write [] into it and give all overrides again")
    return [argv[0], *before, *argv[1:]]


def checkpoint_of(cfg: Config) -> str | None:
    """The checkpoint to resume from, or None.

    Raises ConfigError for a folder with another run in it, a missing or broken file, and a run whose file is lost.
    """
    run = Path(cfg["paths"]["run_dir"])
    asked, last = cfg["ckpt_path"], run / "checkpoints" / "last.ckpt"
    there = [name for name in OURS if (run / name).exists()] if is_main() else []
    if there and asked in (None, "last") and OURS[0] not in there:
        raise ConfigError(
            f"hydra.run.dir={run}: has a {there[0]} and no {OURS[0]}, so it is no run's; name another folder, or, if "
            f"it is one, write [] into {OURS[0]}"
        )
    if asked is None:
        if there:
            raise ConfigError(
                f"hydra.run.dir={run}: holds a run already; resume it with ckpt_path=last, or name another"
            )
        return None
    if asked == "last":
        asked = newest(last.parent)
        if asked is None:
            lost = _rounds_in(run / "metrics.csv")
            if is_main() and lost >= cfg["save_every"]:
                raise ConfigError(f"ckpt_path=last: {run} has {lost} rounds and no last.ckpt; name another checkpoint")
            log.info("no checkpoint in %s yet: starting at round 0", last.parent)
            return None
    if not Path(asked).is_file():
        raise ConfigError(f"ckpt_path={asked}: there is no such file; name a checkpoint, or `last`")
    return str(asked)


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


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder is this run's alone while the block lasts, or until the process dies.

    Raises ConfigError where another process has it. On file systems without locks nothing is promised.
    """
    path = folder / ".lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise ConfigError(
                f"hydra.run.dir={folder}: {file.read() or 'another process'} is writing a run there; wait for it or "
                "stop it, or name another folder"
            ) from error
        except OSError as error:
            log.warning("%s cannot be locked (%s): see to it that no two runs share it", folder, error.strerror)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def write(path: Path, text: str) -> None:
    """The whole text or what was there before, whenever the power goes."""
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def summary_of(folder: Path, done: int) -> dict[str, Any] | None:
    """The summary of a run that finished with `done` rounds, where there is one."""
    try:
        summary = json.loads((folder / "summary.json").read_text())
        return summary if summary["round"] + 1 == done else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _rounds_in(path: Path) -> int:
    return max(0, len(path.read_text().splitlines()) - 1) if path.exists() else 0


def keep_what_was(folder: Path, cfg: Config, done: int) -> None:
    """Say where a resumed run goes on and what is set differently now; the old config stays under another name."""
    if done == 0:
        return
    log.info("resuming at round %d", done)
    old = folder / "config.yaml"
    if not old.exists():
        return
    was, now = (_flat(OmegaConf.to_container(c)) for c in (OmegaConf.load(old), OmegaConf.create(dict(cfg))))
    skip = ("paths.", "ckpt_path", "callbacks.", "logger.", "rounds", "trainer.")
    keys = [key for key in {**was, **now} if was.get(key) != now.get(key) and not key.startswith(skip)]
    if keys:
        kept = folder / f"config.before_round_{done}.yaml"
        shutil.copyfile(old, kept)
        changes = ", ".join(f"{key}: {was.get(key)} → {now.get(key)}" for key in keys)
        log.warning("from round %d on %s (before: %s)", done, changes, kept.name)


def _flat(node: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(node, dict):
        return {path: node}
    return {k: v for key, child in node.items() for k, v in _flat(child, f"{path}.{key}".lstrip(".")).items()}
