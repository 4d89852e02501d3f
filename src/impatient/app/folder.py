"""A run's folder: whose it is, what a run writes into it first, and how a run goes on from what lies there.

Nothing in it changes before the run is known to be possible.
"""

import contextlib
import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from impatient import files, records
from impatient.app.config import Settings, composed
from impatient.checks import ConfigError

log = logging.getLogger("impatient")

# What a run writes, and would write over; the first of them before all others.
OURS = (
    *("overrides.json", "config.yaml", "partition.json", "metrics.csv", "clients.csv", "participation.csv"),
    *("summary.json", "checkpoints", ".hydra"),
)


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder is this run's alone while the block lasts, or until the process dies.

    Raises ConfigError where another process has it, or where links in it lead elsewhere.
    """
    links = [name for name in ("train.log", ".hydra") if (folder / name).is_symlink()]
    if links:
        raise ConfigError(f"hydra.run.dir={folder}: {links[0]} is a link, which would be written through; remove it")
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(files.locked(folder / ".lock"))
        except BlockingIOError as error:
            why = f"{error} is writing a run there; wait for it or stop it, or name another folder"
            raise ConfigError(f"hydra.run.dir={folder}: {why}") from error
        except OSError as error:
            why = f"cannot be written ({error.strerror}); make room or name another folder"
            raise ConfigError(f"hydra.run.dir={folder}: {why}") from error
        yield


def begin(settings: Settings, hydras: Mapping[str, Any]) -> None:
    """Write what was asked for, before anything else; also Hydra's own record, by file name.

    Hydra itself would write that before the folder is known to be this run's.
    """
    folder = Path(settings.paths.run_dir)
    files.write(folder / OURS[0], json.dumps(settings.overrides))
    files.write(folder / OURS[1], OmegaConf.to_yaml(OmegaConf.create(settings.plain())))
    for name, node in hydras.items():
        (folder / ".hydra").mkdir(exist_ok=True)
        files.write(folder / ".hydra" / name, OmegaConf.to_yaml(node))


def with_saved_overrides(words: list[str]) -> list[str]:
    """For `hydra.run.dir=… ckpt_path=last`: the overrides that the folder's run was started with, then one's own."""
    for word in words:
        if found := re.fullmatch(r"""\+*(hydra\.(?:run|sweep)\.dir)=(["']?)(~.*)?\2""", word):
            tilde = "would be a folder of the name ~; write $HOME"
            sys.exit(f"{found[1]}={found[3] or ''}: {tilde if found[3] else 'names no folder; give one'}")
    folder, asked = (value_of(words, key) for key in ("hydra.run.dir", "ckpt_path"))
    if folder is None or asked != "last":
        return words
    saved = Path(folder) / OURS[0]
    own = {word.split("=", 1)[0].lstrip("+~") for word in words if "=" in word}
    if not saved.is_file():
        empty = not any((Path(folder) / name).exists() for name in OURS)
        if empty and own <= {"hydra.run.dir", "ckpt_path", "rounds"}:  # the defaults are not what was asked for
            sys.exit(f"hydra.run.dir={folder}: holds no run yet; name a run's folder, or give the whole command again")
        return words
    try:
        before = [word for word in records.overrides_of(saved) if word.split("=", 1)[0].lstrip("+~") not in own]
    except (OSError, ValueError, RecursionError) as error:
        sys.exit(f"{saved}: cannot be read ({error}); write [] into it and give all overrides again")
    return [*before, "hydra.mode=RUN", *words]  # one job of a sweep is a run


def value_of(words: list[str], key: str) -> str | None:
    """The text that a command line gives a key: without quotes and escapes, its references resolved; else None."""
    overrides = [word for word in words if "=" in word and not word.startswith("-")]
    given = [word for word in overrides if word.split("=")[0].lstrip("+") == key]
    try:
        value = OverridesParser.create().parse_override(given[-1]).value() if given else None
        if "${" in str(value):
            value = OmegaConf.select(composed("train", overrides), key)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError):  # Hydra will say so
        return None
    return value if isinstance(value, str) else None


def checkpoint_of(settings: Settings, main: bool = True) -> Path | None:
    """The checkpoint to resume from, or None. main: whether this process is the one that looks into the folder.

    Raises ConfigError for a folder with another run in it, a missing or broken file, and a run whose file is lost.
    """
    run, asked = Path(settings.paths.run_dir), settings.ckpt_path
    there = [name for name in OURS if (run / name).exists()] if main else []
    if there and asked in (None, "last") and OURS[0] not in there:
        raise ConfigError(
            f"hydra.run.dir={run}: has a {there[0]} and no {OURS[0]}, so it is no run's; name another folder, or, if "
            f"it is one, write [] into {OURS[0]}"
        )
    if asked is None and there:
        raise ConfigError(f"hydra.run.dir={run}: holds a run already; resume it with ckpt_path=last, or name another")
    if asked is None or asked == "last":
        return _last(run, settings.save_every, main) if asked else None
    if there and run.resolve() not in Path(asked).resolve().parents:
        raise ConfigError(
            f"ckpt_path={asked}: is another run's, and {run} has a {there[0]} already; name another folder"
        )
    if not Path(asked).is_file():
        raise ConfigError(f"ckpt_path={asked}: there is no such file; name a checkpoint, or `last`")
    return Path(asked)


def _last(run: Path, save_every: int, main: bool) -> Path | None:
    from impatient.lit.checkpoint import newest  # with torch, which a refused command need not wait for

    if found := newest(run / "checkpoints"):
        return found
    lost = records.rounds_in(run)
    # A round is written before it is saved: a run killed inside its first save has as many as it saves after.
    period = _was(run).get("save_every") if lost > save_every else lost
    if main and not (isinstance(period, int) and lost <= period):
        raise ConfigError(
            f"ckpt_path=last: {run} has {lost} rounds and no last.ckpt; name another checkpoint, or another folder to "
            "start again"
        )
    log.info("no checkpoint in %s yet: starting at round 0", run / "checkpoints")
    return None


def keep_what_was(settings: Settings, done: int) -> None:
    """Say where a resumed run goes on and what is set differently now; the old config stays under another name."""
    if done == 0:
        return
    log.info("resuming at round %d", done)
    if changes := changed(settings):
        folder = Path(settings.paths.run_dir)
        kept = folder / f"config.before_round_{done}.yaml"
        files.write(kept, (folder / "config.yaml").read_text(encoding="utf-8"))
        log.warning("from round %d on %s (before: %s)", done, changes, kept.name)


def changed(settings: Settings) -> str:
    """What is set differently from what the folder's run was started with."""
    was, now = _was(Path(settings.paths.run_dir)), records.flat(settings.plain())
    skip = ("paths.", "ckpt_path", "callbacks.", "logger.", "rounds", "trainer.")
    keys = [key for key in {**was, **now} if was and was.get(key) != now.get(key) and not key.startswith(skip)]
    return ", ".join(f"{key}: {was.get(key)} → {now.get(key)}" for key in keys)


def _was(folder: Path) -> dict[str, Any]:
    """What the folder's run was started with, by dotted name; empty where that is lost."""
    path = folder / "config.yaml"
    try:
        return records.flat(records.config_of(path)) if path.exists() else {}
    except ConfigError as error:
        raise ConfigError(*(f"{fault}; remove the file to go on without it" for fault in error.faults)) from error
