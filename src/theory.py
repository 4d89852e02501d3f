"""A claim about MIFA, checked by numbers: one study → one table, its findings, one picture.

python src/theory.py study=waiting
"""

import inspect
import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import hydra
import numpy as np
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig

from impatient import files
from impatient.app import cli, config
from impatient.checks import ConfigError, check, integer, number
from impatient.theory import report


def type_faults(node: Mapping[str, Any]) -> list[str]:
    """What the study misses, and values that are not of the type it names."""
    target = get_object(node["_target_"])
    hints = get_type_hints(target)
    names = set(inspect.signature(target).parameters) - {"seed"}
    faults = [f"study.{name}: is missing; configs/study has a value" for name in sorted(names - node.keys())]
    for key in sorted(names & node.keys()):
        faults += _not_a(f"study.{key}", node[key], hints[key])
    return faults


def _not_a(name: str, value: Any, hint: Any) -> list[str]:
    """Say that a value is not the number, word, list or group that the hint asks for; the same of what is in a list."""
    if isinstance(hint, UnionType):  # X | None
        return [] if value is None else _not_a(name, value, get_args(hint)[0])
    kind = get_origin(hint) or hint
    if kind in (int, float):
        fault = integer(name, value, -math.inf) if kind is int else number(name, value, -math.inf)
        return [fault] if fault else []
    if kind is str:
        return [] if isinstance(value, str) else [f"{name}={value}: must be a word"]
    if kind is Sequence:
        if not isinstance(value, list):
            return [f"{name}={value}: must be a list"]
        return [fault for item in value for fault in _not_a(name, item, get_args(hint)[0])]
    if kind is Mapping and not isinstance(value, dict):
        return [f"{name}={value}: must be a group of settings"]
    return []


def faults_in(cfg: Mapping[str, Any]) -> list[str]:
    """What is wrong with the settings, found before the study is made."""
    faults = type_faults(cfg["study"])
    seed = integer("seed", cfg.get("seed"), 0, 2**32 - 1)
    return [*faults, seed] if seed else faults


def outcome_of(cfg: dict[str, Any]) -> report.Outcome:
    """Run the study that a config describes. Raises ConfigError for whatever is wrong with it."""
    check(*faults_in(cfg))
    torch.set_num_threads(1)
    try:
        study = instantiate(cfg["study"], seed=cfg["seed"], _partial_=True, _convert_="all")
    except InstantiationException as error:
        cause = error.__cause__
        raise ConfigError(f"study: {cause if cause else error}") from error
    try:
        with report.style():
            outcome = study()
    except ConfigError as error:
        raise ConfigError(*(f"study.{_with_its_key(fault, cfg['study'])}" for fault in error.faults)) from error
    assert isinstance(outcome, report.Outcome)
    return outcome


def _with_its_key(fault: str, study: Mapping[str, Any]) -> str:
    """A fault of one of `pmins` speaks of pmin: the key is what can be typed."""
    name = re.split("[=: ]", fault)[0]
    return fault.replace(name, f"{name}s", 1) if name not in study and f"{name}s" in study else fault


def run(cfg: dict[str, Any], name: str, overrides: list[str]) -> None:
    """Run, write, print. Raises ConfigError for a user's mistake."""
    folder = Path(str(cfg["out"]))
    if why := files.unwritable(folder):
        raise ConfigError(f"out={folder}: {why}; name another")
    started = time.perf_counter()
    outcome = outcome_of(cfg)
    seconds = time.perf_counter() - started
    command = " ".join(["python src/theory.py", *(arg for arg in overrides if not arg.startswith("out="))])
    versions = f"impatient 0.1.0, torch {torch.__version__}, numpy {np.__version__}"
    report.write(outcome, folder, name, [f"`{command}`, seed {cfg['seed']}, {versions}; {seconds:.0f} s."])
    report.show(outcome, name)
    print(f"{seconds:.0f} s; written to {folder}")


@hydra.main(version_base="1.3", config_path="../configs", config_name="theory")
def main(cfg: DictConfig) -> None:
    """Run the study."""
    with cli.task():
        name = str(dict(HydraConfig.get().runtime.choices)["study"])
        run(config.plain(cfg), name, list(HydraConfig.get().overrides.task))


if __name__ == "__main__":
    cli.enter(main, sys.argv[1:])
