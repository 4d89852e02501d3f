"""Going on with a run: its checkpoint, its own overrides, and what is set differently now."""

import contextlib
import fcntl
import json
import logging
import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from lightning.pytorch.utilities.rank_zero import rank_zero_only
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

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
    if given.get("hydra.run.dir", "").lstrip("'\"").startswith("~"):
        sys.exit(f"hydra.run.dir={given['hydra.run.dir']}: would be a folder of the name ~; write $HOME")
    folder = Path(given.get("hydra.run.dir", ""))
    if "hydra.run.dir" in given and (links := _hydras_links(folder)):
        sys.exit(f"hydra.run.dir={folder}: {links[0]} is a link, which would be written through; remove it")
    saved = folder / "overrides.json"
    if given.get("ckpt_path") != "last" or "hydra.run.dir" not in given or not saved.is_file():
        return argv
    own = {key.lstrip("+~") for key in given}
    try:
        before = [arg for arg in _saved(saved) if arg.split("=", 1)[0].lstrip("+~") not in own]
    except (OSError, ValueError, RecursionError) as error:
        sys.exit(f"{saved}: cannot be read ({error}); write [] into it and give all overrides again")
    return [argv[0], *before, *argv[1:]]


def _saved(path: Path) -> list[str]:
    """What a run keeps is about itself: no flags, and nothing of Hydra's, which could name files and programs."""
    saved = json.loads(path.read_text())
    if not isinstance(saved, list) or not all(isinstance(arg, str) for arg in saved):
        raise ValueError("holds no list of overrides")
    for arg in saved:
        if arg.startswith("-") or re.match(r"[+~]*(hydra([./@=]|$)|paths\.run_dir\b)", arg):
            raise ValueError(f"no run keeps {arg}")
    return saved


def _hydras_links(folder: Path) -> list[Path]:
    """Links among what Hydra itself writes, before anything of ours runs."""
    there = (folder / "train.log", folder / ".hydra", *(folder / ".hydra").glob("*"))
    return [path for path in there if path.is_symlink()]


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
    elif there and run.resolve() not in Path(asked).resolve().parents:
        raise ConfigError(
            f"ckpt_path={asked}: is another run's, and {run} has a {there[0]} already; name another folder"
        )
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
    with contextlib.ExitStack() as held:
        try:
            file = held.enter_context(open(path, "ab+", buffering=0, opener=_no_link))
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


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def write(path: Path, text: str) -> None:
    """The whole text or what was there before, whenever the power goes."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)  # it may be a link
    with part.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def summary_of(folder: Path, done: int) -> dict[str, Any] | None:
    """The summary of a run that finished with `done` rounds, where there is one."""
    try:
        summary = json.loads((folder / "summary.json").read_text())
        return summary if summary["round"] + 1 == done and "train/objective" in summary else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _rounds_in(path: Path) -> int:
    return max(0, len(path.read_bytes().splitlines()) - 1) if path.exists() else 0


def read_config(path: Path) -> dict[str, Any]:
    """A run's config.yaml. Raises ConfigError for one that no run wrote.

    Runs write values. References (${…}) could ask for the environment's secrets, and aliases grow without bound.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise ValueError("has aliases")
        node = OmegaConf.to_container(OmegaConf.create(text))
    except (OSError, ValueError, RecursionError, yaml.YAMLError, OmegaConfBaseException) as error:
        why = " ".join(str(error).split())
        raise ConfigError(f"{path}: cannot be read ({why})") from error
    if not isinstance(node, dict):
        raise ConfigError(f"{path}: is not the config of a run")
    references = [f"{path}: {key}={value}: must be a value" for key, value in _flat(node).items() if "${" in str(value)]
    if references:
        raise ConfigError(*references)
    return {str(key): value for key, value in node.items()}


def keep_what_was(folder: Path, cfg: Config, done: int) -> None:
    """Say where a resumed run goes on and what is set differently now; the old config stays under another name."""
    if done == 0:
        return
    log.info("resuming at round %d", done)
    old = folder / "config.yaml"
    if not old.exists():
        return
    try:
        was, now = _flat(read_config(old)), _flat(OmegaConf.to_container(OmegaConf.create(dict(cfg))))
    except ConfigError as error:
        raise ConfigError(*(f"{fault}; remove the file to go on without it" for fault in error.faults)) from error
    skip = ("paths.", "ckpt_path", "callbacks.", "logger.", "rounds", "trainer.")
    keys = [key for key in {**was, **now} if was.get(key) != now.get(key) and not key.startswith(skip)]
    if keys:
        kept = folder / f"config.before_round_{done}.yaml"
        write(kept, old.read_text(encoding="utf-8"))
        changes = ", ".join(f"{key}: {was.get(key)} → {now.get(key)}" for key in keys)
        log.warning("from round %d on %s (before: %s)", done, changes, kept.name)


def _flat(node: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(node, dict):
        return {path: node}
    return {k: v for key, child in node.items() for k, v in _flat(child, f"{path}.{key}".lstrip(".")).items()}
