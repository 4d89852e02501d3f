"""Run folders found, and each one's config.yaml and metrics.csv read; whatever is wrong with one becomes a note."""

import csv
import difflib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml  # type: ignore[import-untyped]

from impatient.checks import ConfigError

AGAIN = "wait if the run has just begun, else run it again in this folder"


@dataclass(frozen=True, eq=False)
class Run:
    """One run: its folder, config.yaml as plain dicts, metrics.csv as float64 by round.

    table: NaN is an empty cell, which was not evaluated; inf is a cell that holds no finite number.
    finished: summary.json is there and metrics.csv has all of config.rounds.
    """

    folder: Path
    config: dict[str, Any]
    table: pd.DataFrame = field(repr=False)
    finished: bool = True
    _evaluated: dict[str, pd.Series] = field(default_factory=dict, init=False, repr=False)

    @property
    def last(self) -> int:
        """The last round that was written."""
        return int(self.table.index[-1])

    def evaluated(self, name: str) -> pd.Series:
        """The cells of a column that are not empty, by round; none of them where there is no such column."""
        if name not in self._evaluated:
            self._evaluated[name] = self.table[name].dropna() if name in self.table else pd.Series(dtype=float)
        return self._evaluated[name]

    def config_value(self, key: str) -> Any:
        """The config's value under a dotted key; None where there is none."""
        node: Any = self.config
        for part in key.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        return node


def read_all(folders: Sequence[str], unfinished: str) -> tuple[list[Run], list[str]]:
    """The runs at or below `folders` that can be drawn, and notes on all others; unfinished: draw or drop those.

    Raises ConfigError where there is none.
    """
    found, notes = find(folders)
    runs = []
    for folder in found:
        run, why = read(folder)
        notes += why
        if run is not None and (run.finished or unfinished == "draw"):
            runs.append(run)
        elif run is not None:
            notes.append(f"{folder}: left out (unfinished=drop)")
    if not runs:
        raise ConfigError(*notes)
    return runs, notes


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
        elif folder.exists() and not folder.is_dir():
            notes.append(f"{folder}: is a file; give the folder it lies in: {folder.parent}")
        elif not folder.exists():
            beside = [p.name for p in folder.parent.iterdir() if p.is_dir()] if folder.parent.is_dir() else []
            meant = [
                f"; did you mean {folder.parent / near}?" for near in difflib.get_close_matches(folder.name, beside, 1)
            ]
            notes.append(f"{folder}: there is no such folder{''.join(meant)}")
        elif not (below := _below(folder)):
            notes.append(f"{folder}: holds no run; give a run's folder, or a folder of runs")
        else:
            for run in below:
                found.setdefault(run.resolve(), run)
    if not found:
        raise ConfigError(*(notes or ["runs: give at least one folder: python src/plot.py logs/multiruns/<folder>"]))
    return list(found.values()), notes


def _below(folder: Path) -> list[Path]:
    runs = []
    for at, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if {"metrics.csv", "config.yaml", "train.log"} & set(files):
            runs.append(Path(at))
            below.clear()
    return runs


def read(folder: Path, ended: bool = True) -> tuple[Run | None, list[str]]:
    """The run in `folder` and notes, each a line that names the folder; None where nothing can be drawn.

    `ended=False` is for a run that is still at its end: a summary.json that is not there yet is no fault.
    """
    file = folder / "metrics.csv"
    try:
        table, torn = _table(file.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return None, [f"{folder}: no metrics.csv: the run never began, or is not of this program; left out"]
    except OSError as error:
        return None, [f"{folder}: metrics.csv cannot be read ({error.strerror}); left out"]
    except ValueError as why:
        return None, [f"{file}: {why}; left out"]
    config, fault = _config(folder)
    done, planned = int(table.index[-1]) + 1, config.get("rounds")
    short = isinstance(planned, int) and done < planned
    finished = not short and (not ended or (folder / "summary.json").is_file())
    what = f"{done} of {planned} rounds" if short else f"{done} rounds, but no summary.json"
    unmoved = "update" in table and table["update"].iloc[-1] == 0
    notes = {
        f"{file}: has {torn} torn or odd line{'s' * (torn > 1)}, left out; ckpt_path=last writes the rounds after the "
        "last checkpoint again": torn > 0,
        f"{folder}: {fault}; drawn under its folder's name": fault != "",
        f"{folder}: unfinished: {what}": not finished,
        f"{folder}: no update in {done} rounds: the model is as it was initialised": unmoved,
    }
    return Run(folder, config, table, finished), [note for note, true in notes.items() if true]


def _table(text: str) -> tuple[pd.DataFrame, int]:
    """The table of a Run, of whole rows with ascending rounds; how many lines are torn or odd. Raises ValueError."""
    if not text.strip():
        raise ValueError(f"is empty; {AGAIN}")
    lines = text.splitlines(keepends=True)
    try:
        head, *body = list(csv.reader(line for line in lines if line.endswith("\n"))) or [[]]
    except csv.Error as error:
        raise ValueError(f"is no table ({error}); {AGAIN}") from None
    if not head:
        raise ValueError(f"its first line is torn; {AGAIN}")
    if "round" not in head:
        raise ValueError("has no column `round`, so it is not a run's; give other folders")
    rows, last = [], -1
    for row in body:
        if len(row) == len(head) and (cell := row[head.index("round")]).isdecimal() and int(cell) > last:
            rows.append(row)
            last = int(cell)
    torn = len(lines) - 1 - len(rows)
    if not rows:
        raise ValueError(
            f"has {f'no whole row, {torn} torn or odd' if torn else 'no row yet, its header alone'}; {AGAIN}"
        )
    cells = np.array(rows, dtype=object)
    values = pd.to_numeric(cells.ravel(), errors="coerce").astype(float).reshape(cells.shape)
    values = np.where(cells == "", math.nan, np.where(np.isfinite(values), values, math.inf))
    table = pd.DataFrame(values, columns=head)
    table = table.loc[:, ~table.columns.duplicated()]
    return table.set_index(table["round"].astype(int).to_numpy()), torn


def _config(folder: Path) -> tuple[dict[str, Any], str]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        config = yaml.load((folder / "config.yaml").read_text(encoding="utf-8"), Loader=loader)
    except FileNotFoundError:
        return {}, "no config.yaml"
    except (OSError, ValueError, yaml.YAMLError) as error:
        return {}, f"config.yaml cannot be read ({str(error).splitlines()[0]})"
    return (config, "") if isinstance(config, dict) else ({}, "config.yaml is not a config")
