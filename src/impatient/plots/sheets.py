"""Which runs are drawn together, and which metrics of them: one sheet a data set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from impatient.checks import ConfigError
from impatient.plots import groups as grouping
from impatient.plots import names
from impatient.plots.groups import Group
from impatient.plots.runs import Run, known_metric

NAMED = 5  # settings, up to which a note names each


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
    return f"{g.label} at {names.name(sheet.panel)} = {names.value(sheet.panel, g.panel)}" if sheet.panel else g.label


def reaching(groups: Sequence[Group], at: int | None, what: str) -> tuple[list[Group], int, list[str]]:
    """The groups without the runs that end before round `at`, that round, and notes. None: the last that all have.

    Raises ConfigError where no run gets as far.
    """
    ends = {str(run.folder): int(run.column("round")[-1]) for g in groups for run in g.runs}
    first, last = min(ends.values()), max(ends.values())
    if at is None:
        short = f"{what} is of round {first}, the last one that every run has; the longest goes to {last}"
        return list(groups), first, [short] if last > first else []
    if at > last:
        raise ConfigError(
            f"at={at}: the longest run goes to round {last}, so {what} cannot be made; give at={last} or less"
        )
    notes = []
    if late := [folder for folder, end in ends.items() if end < at]:
        some = ", ".join(late[:3]) + (" …" if len(late) > 3 else "")
        notes.append(f"at={at}: {len(late)} of {len(ends)} runs do not get there and are left out of {what}: {some}")
    kept = [replace(g, runs=[run for run in g.runs if ends[str(run.folder)] >= at]) for g in groups]
    return [g for g in kept if g.runs], at, notes


def evaluated(groups: Sequence[Group], metrics: Sequence[str], at: int) -> list[str]:
    """Notes on metrics whose last evaluation up to round `at` is an earlier one, or of which there is none yet."""
    seen: dict[tuple[int, ...], list[str]] = {}
    for metric in metrics:
        runs = [run for g in groups for run in g.runs if metric in run.columns and run.given(metric).any()]
        rounds = [run.column("round")[run.given(metric)] for run in runs]
        last = {int(max((r for r in each if r <= at), default=-1)) for each in rounds} - {at}
        seen.setdefault(tuple(sorted(last)), []).append(metric)
    notes = []
    for lasts, some in seen.items():
        if earlier := [r for r in lasts if r >= 0]:
            notes.append(f"{', '.join(some)}: not evaluated in round {at}; the value is of round "
                         f"{' to '.join(map(str, sorted({earlier[0], earlier[-1]})))}")  # fmt: skip
        if -1 in lasts:
            notes.append(f"{', '.join(some)}: first evaluated after round {at}, so no value there; give a larger at=…")
    return notes


def beginning(sheet: Sheet) -> str:
    """Where the curves begin, if that is not round 0 everywhere; else ""."""
    said: dict[str, list[str]] = {}
    for metric in sheet.metrics:
        firsts = {where(sheet, g): max(int(run.column("round")[run.given(metric)][0]) for run in g.runs)
                  for g in having(sheet, metric)}  # fmt: skip
        early, late = min(firsts.values(), default=0), max(firsts.values(), default=0)
        if late > early:
            lasts = [text for text, first in firsts.items() if first == late]
            last = "; ".join(lasts) if len(lasts) <= NAMED else f"{len(lasts)} of {len(firsts)} settings"
            said.setdefault(f"begin in round {early} to {late}, last for {last}", []).append(metric)
        elif late:
            said.setdefault(f"begin in round {late}", []).append(metric)
    if not said:
        return ""
    texts = "; ".join(f"{', '.join(some)} {text}" for text, some in said.items())
    return f"{sheet.data}: curves of {texts}: the first evaluation (eval_every=1 evaluates from round 0 on)"


def remarks(sheet: Sheet) -> list[str]:
    """What the reader of the figure should know: seeds, lengths, gaps, runs without a metric."""
    notes = []
    if single := [where(sheet, g) for g in sheet.groups if len(g.runs) == 1]:
        some = "; ".join(single) if len(single) <= NAMED else f"{len(single)} of {len(sheet.groups)} settings"
        notes.append(f"{sheet.data}: one seed only, so no band: {some}")
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
