"""Random command lines over all config groups and keys: number n is always the same line, so a failure can be typed."""

from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from omegaconf import OmegaConf

from impatient.rng import stream

CONFIGS = Path(__file__).parents[2] / "configs"
GROUPS = {
    folder.name: sorted(p.stem for p in folder.glob("*.yaml"))
    for folder in sorted(CONFIGS.iterdir())
    if folder.is_dir() and folder.name not in ("hydra", "paths", "study", "sweep")
}
GOOD = [
    "0",
    "1",
    "2",
    "3",
    "10",
    "0.5",
    "0.1",
    "1.0",
    "1e-3",
    "true",
    "false",
    "null",
    "zero",
    "none",
    "samples",
    "cpu",
]
GOOD += ["float64", "bfloat16", "loop", "round", "inverse_sqrt", "skip", "wrap", "min", "offline", "[0.1,0.9]"]
ODD = ["null", "[]", "{}", "''", "nan", "inf", "-inf", "1e400", "1" + "0" * 30, "-1" + "0" * 30, "-1", "1e-320", "-0.0"]
ODD += ["True", "ümläut", "'two words'", "'a=b'", "[1,2,3]", "[[1]]", "{a: 1}", "{_target_: os.getcwd}", "???", "'???'"]
ODD += [
    "${seed}",
    "${nowhere}",
    "${oc.env:NO_SUCH}",
    "${oc.env:PATH}",
    "${.lr}",
    "${..}",
    "${model}",
    "${",
    "0x1f",
    "1_000",
]
ODD += [
    "[nan]",
    "[null]",
    "['a']",
    "'1'",
    "1j",
    "last",
    "/nonexistent/file.json",
    "/dev/null",
    "/",
    ".",
    "\\x00",
    "a,b",
]


def keys() -> dict[str, str]:
    """Every key of every yaml, and of Lightning's Trainer, with a value that it has somewhere."""
    found: dict[str, str] = {}
    for path in [CONFIGS / "train.yaml", *(p for g in GROUPS for p in (CONFIGS / g).glob("*.yaml"))]:
        node = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
        assert isinstance(node, dict)
        node.pop("defaults", None)
        is_global = path.name == "train.yaml" or "@package _global_" in path.read_text()
        _flatten(node, "" if is_global else path.parent.name, found)
    found |= {f"trainer.{name}": "1" for name in L.Trainer.__init__.__annotations__ if name != "return"}
    return {k: v for k, v in found.items() if not k.startswith(("hydra", "experiment", "sweep", "paths"))}


def _flatten(node: Any, path: str, into: dict[str, str]) -> None:
    if path:
        into[path] = "null" if node is None else str(node).replace("'", "").lower() if node != "???" else "x"
    if isinstance(node, dict):
        for key, child in node.items():
            _flatten(child, f"{path}.{key}".lstrip("."), into)


KEYS = keys()


def line(number: int, base: tuple[str, ...] = ()) -> list[str]:
    """The overrides of one command line: `base`, some groups, some keys; half of the lines have one of these only."""
    rng = stream(0, "command line", number)
    pick = lambda items: items[int(rng.integers(len(items)))]  # noqa: E731
    many = 1 if rng.random() < 0.5 else int(rng.integers(2, 7))
    made: list[str] = []
    for _ in range(many):
        if rng.random() < 0.3:
            made.append(_group(rng, pick))
        else:
            made.append(_key(rng, pick))
    return [*base, *made]


def _group(rng: np.random.Generator, pick: Any) -> str:
    group = pick(list(GROUPS))
    dice = rng.random()
    if dice < 0.8:
        return f"{group}={pick(GROUPS[group])}"
    value = pick(["null", "nope", "[]", "''", "1", f"[{pick(GROUPS[group])}]", "{a: 1}", "nan", "true", "${seed}"])
    return f"{pick(['', '', '+', '++', '~'])}{group}={value}" if dice < 0.95 else f"~{group}"


def _key(rng: np.random.Generator, pick: Any) -> str:
    key = pick(list(KEYS))
    if rng.random() < 0.07:
        at = int(rng.integers(len(key)))
        key = key[:at] + pick(["", "x", ".", "ü", key[at] * 2]) + key[at + 1 :]  # misspelt
    dice = rng.random()
    value = KEYS.get(key, "1") if dice < 0.25 else pick(GOOD) if dice < 0.55 else pick(ODD)
    dice = rng.random()
    if dice < 0.05:
        return f"~{key}"
    return f"{'++' if dice < 0.7 else '+' if dice < 0.8 else ''}{key}={value}"
