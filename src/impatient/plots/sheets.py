"""Which runs are drawn together, and which metrics of them: one sheet a data set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from impatient.checks import ConfigError
from impatient.plots import groups as grouping
from impatient.plots.groups import Group
from impatient.plots.runs import Run, known_metric


@dataclass(frozen=True)
class Sheet:
    """One data set: labelled groups in legend order, the metrics to draw, the key whose values are the panels."""

    data: str
    groups: list[Group]
    metrics: list[str]
    panel: str | None = None

    @property
    def panels(self) -> list[Any]:
        """The values of the panels' key, in order."""
        return list(dict.fromkeys(g.panel for g in self.groups))

    @property
    def labels(self) -> list[str]:
        """Each label once, in the order of the legend."""
        return list(dict.fromkeys(g.label for g in self.groups))


def sheets(
    runs: Sequence[Run],
    metrics: Sequence[str] | None = None,
    panels: str | None = "auto",
    only: Sequence[str] = (),
) -> tuple[list[Sheet], list[str]]:
    """One sheet for each data set, and notes. `only`: the config keys that make a setting; by default all that do.

    Raises ConfigError where no run has any of the metrics, or a metric is in none (the nearest name is given) and
    nothing else is asked for.
    """
    faults = [fault for name in metrics or () if (fault := known_metric(name, runs))]
    if metrics is not None and len(faults) == len(metrics):
        raise ConfigError(*(faults or ["metrics=[]: name at least one, or leave it at null"]))
    notes, made = list(faults), []
    by_data: dict[str, list[Run]] = {}
    for run in runs:
        by_data.setdefault(grouping.data_set(run), []).append(run)
    if len(by_data) > 1:
        notes.append(f"several data sets, each drawn by itself: {', '.join(by_data)}")
    for data, some in by_data.items():
        found, doubles = grouping.group(some, only)
        notes += doubles
        columns = {column for run in some for column in run.columns}
        chosen = [m for m in metrics if m in columns] if metrics is not None else _usual(columns)
        key = grouping.panel_key(found, panels)
        if panels not in ("auto", None) and not any(panels in grouping.flat(g.setting) for g in found):
            notes.append(f"panels={panels}: no config of {data} has this key; one panel")
            key = None
        if chosen:
            made.append(Sheet(data, grouping.label(found, key), chosen, key))
        else:
            notes.append(f"{data}: no run has a column {', '.join(metrics or ['train/loss', 'train/objective'])}")
    if not made:
        raise ConfigError(*notes)
    return made, notes


def _usual(columns: set[str]) -> list[str]:
    """Loss and accuracy; for a task without classes the objective, or the loss where there is no other."""
    if "test/acc" not in columns and "train/objective" in columns:
        return ["train/objective"]
    return [name for name in ("train/loss", "test/acc") if name in columns]


def having(sheet: Sheet, metric: str) -> list[Group]:
    """The groups with those of their runs that were evaluated for `metric` at least once; without the others."""
    kept = []
    for g in sheet.groups:
        some = [run for run in g.runs if metric in run.columns and run.given(metric).any()]
        if some:
            kept.append(replace(g, runs=some))
    return kept


def where(sheet: Sheet, g: Group) -> str:
    """The group in words, for notes."""
    return f"{g.label} at {sheet.panel} = {g.panel}" if sheet.panel else g.label


def remarks(sheet: Sheet) -> list[str]:
    """What the reader of the figure should know: seeds, lengths, gaps, runs without a metric."""
    notes = []
    if single := [where(sheet, g) for g in sheet.groups if len(g.runs) == 1]:
        notes.append(f"{sheet.data}: one seed only, so no band: {'; '.join(single)}")
    for g in sheet.groups:
        lengths = [int(run.column("round")[-1]) + 1 for run in g.runs]
        if len(set(lengths)) > 1:
            shortest = g.runs[int(np.argmin(lengths))].folder
            notes.append(
                f"{where(sheet, g)}: runs of {min(lengths)} to {max(lengths)} rounds, drawn as far as all go: to round "
                f"{min(lengths) - 1}, where {shortest} ends (unfinished=drop leaves unfinished runs out)"
            )
        for metric in sheet.metrics:
            for run in g.runs:
                if metric not in run.columns:
                    notes.append(f"{run.folder}: has no column {metric}; left out there")
                elif not (given := run.given(metric)).any():
                    notes.append(f"{run.folder}: {metric} was never evaluated; left out there")
                elif bad := int((~np.isfinite(run.column(metric)[given])).sum()):
                    first = int(run.column("round")[given & ~np.isfinite(run.column(metric))][0])
                    notes.append(f"{run.folder}: {metric} is not finite in {bad} rows, first in round {first}: a gap")
    return notes
