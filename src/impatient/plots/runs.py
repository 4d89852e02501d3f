"""What a run left in its folder, found and read; whatever is wrong with it becomes a note."""

import csv
import difflib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]

from impatient.checks import ConfigError

AGAIN = "wait if the run has just begun, else run it again in this folder"


@dataclass(frozen=True)
class Run:
    """One run: its folder, config.yaml as plain dicts, the header of metrics.csv and its whole rows as text.

    finished: summary.json is there and metrics.csv has all of config.rounds.
    """

    folder: Path
    config: dict[str, Any]
    columns: list[str]
    rows: list[list[str]] = field(repr=False)
    finished: bool = True

    def __len__(self) -> int:
        """Rounds that were written, T."""
        return len(self.rows)

    @property
    def seeds(self) -> str:
        """What tells one repetition of a setting from another."""
        return json.dumps([self.config.get("seed"), self.config.get("seeds")], sort_keys=True)

    def column(self, name: str) -> np.ndarray:
        """Float64 [T]: NaN where the cell is empty or says nan. Raises KeyError for a column that is not there."""
        if name not in self.columns:
            raise KeyError(name)
        at = self.columns.index(name)
        return np.array([_number(row[at]) for row in self.rows])

    def given(self, name: str) -> np.ndarray:
        """Bool [T]: where the cell is not empty."""
        at = self.columns.index(name)
        return np.array([bool(row[at]) for row in self.rows], dtype=bool)

    def config_value(self, key: str) -> Any:
        """The config's value under a dotted key; None where there is none."""
        node: Any = self.config
        for part in key.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        return node


def _number(cell: str) -> float:
    try:
        return float(cell) if cell else math.nan
    except ValueError:
        return math.nan


def find(folders: Sequence[str | os.PathLike[str]]) -> tuple[list[Path], list[str]]:
    """The run folders at or below `folders`, each once and in order, and notes on those that hold none.

    A run's folder holds metrics.csv, config.yaml or train.log; nothing is looked for below one.
    Raises ConfigError where there is no run at all.
    """
    found: dict[Path, Path] = {}
    notes = []
    for name in folders:
        folder = Path(name)
        if not str(name).strip():
            notes.append(f"'{name}': names no folder (an empty shell variable?)")
            continue
        if not folder.is_dir():
            isfile = f"is a file; give the folder it lies in: {folder.parent}"
            what = isfile if folder.exists() else f"there is no such folder{_near(folder)}"
            notes.append(f"{folder}: {what}")
            continue
        below = [Path(at) for at in _walk(folder)]
        if not below:
            notes.append(f"{folder}: holds no run; give a run's folder, or a folder of runs")
        for run in below:
            found.setdefault(run.resolve(), run)
    if not found:
        raise ConfigError(*(notes or ["runs: give at least one folder: python src/plot.py logs/multiruns/<folder>"]))
    return list(found.values()), notes


def _near(folder: Path) -> str:
    beside = [p.name for p in folder.parent.iterdir() if p.is_dir()] if folder.parent.is_dir() else []
    near = difflib.get_close_matches(folder.name, beside, 1)
    return f"; did you mean {folder.parent / near[0]}?" if near else ""


def _walk(folder: Path) -> list[str]:
    runs = []
    for at, below, files in os.walk(folder, followlinks=False):
        if {"metrics.csv", "config.yaml", "train.log"} & set(files):
            runs.append(at)
            below.clear()
        below[:] = sorted(name for name in below if not name.startswith("."))
    return runs


def read(folder: Path, ended: bool = True) -> tuple[Run | None, list[str]]:
    """The run in `folder` and notes, each a line that names the folder; None where nothing can be drawn.

    `ended=False` is for a run that is still at its end: a summary.json that is not there yet is no fault.
    """
    notes = []
    try:
        text = (folder / "metrics.csv").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None, [f"{folder}: no metrics.csv: the run never began, or is not of this program; left out"]
    except OSError as error:
        return None, [f"{folder}: metrics.csv cannot be read ({error.strerror}); left out"]
    file = folder / "metrics.csv"
    if not text.strip():
        return None, [f"{file}: is empty; {AGAIN}; left out"]
    try:
        columns, rows, torn = _parse(text)
    except csv.Error as error:
        return None, [f"{file}: is no table ({error}); {AGAIN}; left out"]
    if not columns:
        return None, [f"{file}: its first line is torn; {AGAIN}; left out"]
    if "round" not in columns:
        return None, [f"{file}: has no column `round`, so it is not a run's; give other folders; left out"]
    if not rows:
        why = f"no whole row, {torn} torn or odd" if torn else "no row yet, its header alone"
        return None, [f"{file}: has {why}; {AGAIN}; left out"]
    if torn:
        notes.append(f"{file}: has {torn} torn or odd line{'s' * (torn > 1)}, left out; ckpt_path=last writes the "
                     "rounds after the last checkpoint again")  # fmt: skip
    config, why = _config(folder)
    if why:
        notes.append(f"{folder}: {why}; drawn under its folder's name")
    planned = config.get("rounds")
    last = int(rows[-1][columns.index("round")]) + 1
    short = isinstance(planned, int) and last < planned
    finished = not short and (not ended or (folder / "summary.json").is_file())
    if not finished:
        done = f"{last} of {planned} rounds" if short else f"{last} rounds, but no summary.json"
        notes.append(f"{folder}: unfinished: {done}")
    if "update" in columns and rows[-1][columns.index("update")] == "0":
        notes.append(f"{folder}: no update in {last} rounds: the model is as it was initialised")
    return Run(folder, config, columns, rows, finished), notes


def _parse(text: str) -> tuple[list[str], list[list[str]], int]:
    """Header, whole rows with ascending rounds, and how many lines are torn or odd."""
    lines = text.splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    torn = len(lines) - len(whole)
    table = list(csv.reader(whole))
    if not table:
        return [], [], torn
    columns = table[0]
    if "round" not in columns:
        return columns, [], torn
    at, rows, last = columns.index("round"), [], -1
    for row in table[1:]:
        if len(row) == len(columns) and row[at].isdecimal() and int(row[at]) > last:
            rows.append(row)
            last = int(row[at])
        else:
            torn += 1
    return columns, rows, torn


def _config(folder: Path) -> tuple[dict[str, Any], str]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        config = yaml.load((folder / "config.yaml").read_text(encoding="utf-8"), Loader=loader)
    except FileNotFoundError:
        return {}, "no config.yaml"
    except (OSError, ValueError, yaml.YAMLError) as error:
        return {}, f"config.yaml cannot be read ({str(error).splitlines()[0]})"
    return (config, "") if isinstance(config, dict) else ({}, "config.yaml is not a config")


def known_metric(name: str, runs: Sequence[Run]) -> str | None:
    """Say that no run has the column `name`, and which is nearest; None if one has it."""
    columns = list(dict.fromkeys(column for run in runs for column in run.columns))
    if name in columns:
        return None
    near = difflib.get_close_matches(name, columns, 1, 0.4)
    return f"metrics: {name}: no run has this column; " + (
        f"did you mean {near[0]}?" if near else f"there are {', '.join(columns)}"
    )
