"""Going on with a run: its checkpoint, its own overrides, and what is set differently now."""

import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from arguments import value_of
from faults import Config
from impatient import files
from impatient.checks import ConfigError
from impatient.lit.checkpoint import read_header
from rundir import OURS, is_main

log = logging.getLogger("impatient")


def with_saved_overrides(argv: list[str]) -> list[str]:
    """For `hydra.run.dir=… ckpt_path=last`: the overrides that the folder's run was started with, then one's own."""
    for arg in argv[1:]:
        if found := re.fullmatch(r"""\+*(hydra\.(?:run|sweep)\.dir)=(["']?)(~.*)?\2""", arg):
            why = (
                "would be a folder of the name ~; write $HOME"
                if found[3]
                else "names no folder; give one, or leave it out"
            )
            sys.exit(f"{found[1]}={found[3] or ''}: {why}")
    folder, asked = (value_of(argv[1:], key) for key in ("hydra.run.dir", "ckpt_path"))
    if folder is None or asked != "last":
        return argv
    saved = Path(folder) / OURS[0]
    own = {arg.split("=", 1)[0].lstrip("+~") for arg in argv[1:] if "=" in arg}
    if not saved.is_file():
        empty = not any((Path(folder) / name).exists() for name in OURS)
        if empty and own <= {"hydra.run.dir", "ckpt_path", "rounds"}:  # the defaults are not what was asked for
            sys.exit(f"hydra.run.dir={folder}: holds no run yet; name a run's folder, or give the whole command again")
        return argv
    try:
        before = [arg for arg in _saved(saved) if arg.split("=", 1)[0].lstrip("+~") not in own]
    except (OSError, ValueError, RecursionError) as error:
        sys.exit(f"{saved}: cannot be read ({error}); write [] into it and give all overrides again")
    return [argv[0], *before, *argv[1:]]


def _saved(path: Path) -> list[str]:
    """What a run keeps is about itself: no flags, and nothing of Hydra's, which could name files and programs."""
    saved = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(saved, list) or not all(isinstance(arg, str) for arg in saved):
        raise ValueError("holds no list of overrides")
    for arg in saved:
        if arg.startswith("-") or re.match(r"[+~]*(hydra([./@=]|$)|paths\.run_dir\b)", arg):
            raise ValueError(f"no run keeps {arg}")
    return saved


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
            # A round is written before it is saved: a run killed inside its first save has as many as it saves after.
            period = _was(run).get("save_every") if lost > cfg["save_every"] else lost
            if is_main() and not (isinstance(period, int) and lost <= period):
                raise ConfigError(
                    f"ckpt_path=last: {run} has {lost} rounds and no last.ckpt; name another checkpoint, or another "
                    "folder to start again"
                )
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
    if changes := changed(folder, cfg):
        kept = folder / f"config.before_round_{done}.yaml"
        files.write(kept, (folder / "config.yaml").read_text(encoding="utf-8"))
        log.warning("from round %d on %s (before: %s)", done, changes, kept.name)


def changed(folder: Path, cfg: Config) -> str:
    """What is set differently from what the folder's run was started with."""
    was, now = _was(folder), _flat(OmegaConf.to_container(OmegaConf.create(dict(cfg))))
    skip = ("paths.", "ckpt_path", "callbacks.", "logger.", "rounds", "trainer.")
    keys = [key for key in {**was, **now} if was and was.get(key) != now.get(key) and not key.startswith(skip)]
    return ", ".join(f"{key}: {was.get(key)} → {now.get(key)}" for key in keys)


def _was(folder: Path) -> dict[str, Any]:
    """What the folder's run was started with, by dotted name; empty where that is lost."""
    path = folder / "config.yaml"
    try:
        return _flat(read_config(path)) if path.exists() else {}
    except ConfigError as error:
        raise ConfigError(*(f"{fault}; remove the file to go on without it" for fault in error.faults)) from error


def _flat(node: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(node, dict):
        return {path: node}
    return {k: v for key, child in node.items() for k, v in _flat(child, f"{path}.{key}".lstrip(".")).items()}
