"""A run's folder: whose it is, and what is written into it, never through a link or over somebody else's files."""

import contextlib
import fcntl
import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.utilities.rank_zero import rank_zero_only
from omegaconf import OmegaConf

from impatient import files
from impatient.checks import ConfigError

log = logging.getLogger("impatient")

# What a run writes, and would write over; the first of them before all others.
OURS = (
    *("overrides.json", "config.yaml", "partition.json", "metrics.csv", "clients.csv", "participation.csv"),
    *("summary.json", "checkpoints", ".hydra"),
)


def is_main() -> bool:
    """Whether this is the one process, or the first of several ranks: the one that writes and speaks."""
    return getattr(rank_zero_only, "rank", 0) == 0


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder is this run's alone while the block lasts, or until the process dies.

    Raises ConfigError where another process has it, or where links in it lead elsewhere. On file systems without locks
    nothing is promised.
    """
    path = folder / ".lock"
    links = [name for name in ("train.log", ".hydra") if (folder / name).is_symlink()]
    if links:
        raise ConfigError(f"hydra.run.dir={folder}: {links[0]} is a link, which would be written through; remove it")
    with contextlib.ExitStack() as held:
        try:
            file = held.enter_context(open(path, "ab+", buffering=0, opener=no_link))
            _lock(file, folder)
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        except OSError as error:
            raise ConfigError(
                f"hydra.run.dir={folder}: cannot be written ({error.strerror}); make room or name another folder"
            ) from error
        held.callback(path.unlink, missing_ok=True)
        yield


def _lock(file: Any, folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        raise ConfigError(
            f"hydra.run.dir={folder}: {file.read().decode() or 'another process'} is writing a run there; wait for it "
            "or stop it, or name another folder"
        ) from error
    except OSError as error:
        log.warning("%s cannot be locked (%s): see to it that no two runs share it", folder, error.strerror)


def no_link(path: str, flags: int) -> int:
    """An opener for `open` that raises OSError for a link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def begin(folder: Path, cfg: Mapping[str, Any], hydras: Mapping[str, Any]) -> None:
    """Write what was asked for, before anything else; also Hydra's own record, by file name.

    Hydra itself would write that before the folder is known to be this run's.
    """
    files.write(folder / OURS[0], json.dumps(hydras["overrides.yaml"]))
    files.write(folder / OURS[1], OmegaConf.to_yaml(OmegaConf.create(dict(cfg))))
    (folder / ".hydra").mkdir(exist_ok=True)
    for name, node in hydras.items():
        files.write(folder / ".hydra" / name, OmegaConf.to_yaml(node))


def summary_of(folder: Path, done: int) -> dict[str, Any] | None:
    """The summary of a run that finished with `done` rounds, where there is one."""
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        return summary if summary["round"] + 1 == done and "train/objective" in summary else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_new() -> bool:
    """Whether the running job's folder is named by the time."""
    return "${now:" in str(OmegaConf.to_container(HydraConfig.get().run))


def forget(folder: Path) -> None:
    """Remove the folder if nothing was written into it."""
    with contextlib.suppress(OSError):
        folder.rmdir()
