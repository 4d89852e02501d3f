"""What one figure compares: the runs of one data set in labelled groups; and the notes that its reader needs."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from impatient.checks import ConfigError
from impatient.plots import names
from impatient.plots.groups import Group, as_text, data_set, flat, group, label
from impatient.plots.runs import Run

NAMED = 5  # settings, up to which a note names each


@dataclass(frozen=True)
class Comparison:
    """One data set: labelled groups in legend order, the metrics to draw, the key whose values are the panels."""

    data: str
    groups: list[Group]
    metrics: list[str]
    panel: str | None = None

    @property
    def panels(self) -> list[Any]:
        """The values of the panels' key, in order."""
        return list(dict.fromkeys(g.panel for g in self.groups))

    def where(self, g: Group) -> str:
        """The group in words, for notes."""
        return f"{g.label} at {names.name(self.panel)} = {names.value(self.panel, g.panel)}" if self.panel else g.label

    def having(self, metric: str) -> list[Group]:
        """The groups with those of their runs that were evaluated for `metric` at least once; without the others."""
        kept = [replace(g, runs=[run for run in g.runs if len(run.evaluated(metric))]) for g in self.groups]
        return [g for g in kept if g.runs]


def comparisons(
    runs: Sequence[Run],
    metrics: Sequence[str] | None = None,
    panels: str | None = "auto",
    only: Sequence[str] = (),
) -> tuple[list[Comparison], list[str]]:
    """One comparison for each data set, and notes. `only`: the config keys that make a setting; by default all that do.

    Raises ConfigError where no run has any of the metrics, or a metric is in none (the nearest name is given) and
    nothing else is asked for.
    """
    there = list(dict.fromkeys(column for run in runs for column in run.table))
    faults = [_unknown(name, there) for name in metrics or () if name not in there]
    if metrics is not None and len(faults) == len(metrics):
        raise ConfigError(*(faults or ["metrics=[]: name at least one, or leave it at null"]))
    notes, made = list(faults), []
    by_data: dict[str, list[Run]] = {}
    for run in runs:
        by_data.setdefault(data_set(run), []).append(run)
    if len(by_data) > 1:
        notes.append(f"several data sets, each drawn by itself: {', '.join(by_data)}")
    for data, some in by_data.items():
        found, doubles = group(some, only)
        notes += doubles
        columns = {column for run in some for column in run.table}
        usual = ["train/loss", "test/acc"]
        if "test/acc" not in columns and "train/objective" in columns:  # a task without classes
            usual = ["train/objective"]
        chosen = [name for name in dict.fromkeys(usual if metrics is None else metrics) if name in columns]
        flats = [flat(g.setting) for g in found]
        key = panels
        if panels == "auto":
            values = {as_text(f.get("availability.pmin")) for f in flats}
            key = "availability.pmin" if len(values) > 1 else None
        elif panels and not any(panels in f for f in flats):
            notes.append(f"panels={panels}: no config of {data} has this key; one panel")
            key = None
        if chosen:
            made.append(Comparison(data, label(found, key), chosen, key))
        else:
            notes.append(f"{data}: no run has a column {', '.join(metrics or ['train/loss', 'train/objective'])}")
    if not made:
        raise ConfigError(*notes)
    return made, notes


def _unknown(metric: str, there: Sequence[str]) -> str:
    near = difflib.get_close_matches(metric, there, 1, 0.4)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(there)}"
    return f"metrics: {metric}: no run has this column; {hint}"


def reaching(
    groups: Sequence[Group], metrics: Sequence[str], at: int | None, what: str
) -> tuple[list[Group], int, list[str]]:
    """The groups without the runs that end before round `at`, that round, and notes. None: the last that all have.

    The notes are on runs left out, and on metrics last evaluated before `at`, or not yet. Raises ConfigError where no
    run gets as far.
    """
    runs = [run for g in groups for run in g.runs]
    first, last = min(run.last for run in runs), max(run.last for run in runs)
    notes = []
    if at is None:
        at = first
        if last > first:
            notes.append(f"{what} is of round {first}, the last one that every run has; the longest goes to {last}")
    if at > last:
        raise ConfigError(
            f"at={at}: the longest run goes to round {last}, so {what} cannot be made; give at={last} or less"
        )
    if late := [str(run.folder) for run in runs if run.last < at]:
        named = ", ".join(late[:3]) + (" …" if len(late) > 3 else "")
        notes.append(f"at={at}: {len(late)} of {len(runs)} runs do not get there and are left out of {what}: {named}")
    kept = [replace(g, runs=[run for run in g.runs if run.last >= at]) for g in groups]
    kept = [g for g in kept if g.runs]
    seen: dict[tuple[int, ...], list[str]] = {}
    for metric in metrics:
        values = [run.evaluated(metric) for g in kept for run in g.runs]
        found = {max(each.loc[:at].index, default=-1) for each in values if len(each)} - {at}
        seen.setdefault(tuple(sorted(found)), []).append(metric)
    for lasts, some in seen.items():
        said = ", ".join(some)
        if earlier := [r for r in lasts if r >= 0]:
            span = " to ".join(map(str, sorted({earlier[0], earlier[-1]})))
            notes.append(f"{said}: not evaluated in round {at}; the value is of round {span}")
        if -1 in lasts:
            notes.append(f"{said}: first evaluated after round {at}, so no value there; give a larger at=…")
    return kept, at, notes


def beginning(made: Comparison) -> str:
    """Where the curves begin, if that is not round 0 everywhere; else ""."""
    said: dict[str, list[str]] = {}
    for metric in made.metrics:
        firsts = {made.where(g): max(run.evaluated(metric).index[0] for run in g.runs) for g in made.having(metric)}
        early, late = min(firsts.values(), default=0), max(firsts.values(), default=0)
        if late > early:
            lasts = [text for text, first in firsts.items() if first == late]
            text = f"begin in round {early} to {late}, last for {_some(lasts, len(firsts))}"
        else:
            text = f"begin in round {late}"
        if late:
            said.setdefault(text, []).append(metric)
    if not said:
        return ""
    texts = "; ".join(f"{', '.join(some)} {text}" for text, some in said.items())
    return f"{made.data}: curves of {texts}: the first evaluation (eval_every=1 evaluates from round 0 on)"


def _some(settings: Sequence[str], of: int) -> str:
    return "; ".join(settings) if len(settings) <= NAMED else f"{len(settings)} of {of} settings"


def remarks(made: Comparison) -> list[str]:
    """What the reader of the figure should know: seeds, lengths, gaps, runs without a metric."""
    notes = []
    if single := [made.where(g) for g in made.groups if len(g.runs) == 1]:
        notes.append(f"{made.data}: one seed only, so no band: {_some(single, len(made.groups))}")
    for g in made.groups:
        shortest, longest = min(g.runs, key=lambda run: run.last), max(run.last for run in g.runs)
        if longest > (end := shortest.last):
            notes.append(
                f"{made.where(g)}: runs of {end + 1} to {longest + 1} rounds, drawn as far as all go: to round {end}, "
                f"where {shortest.folder} ends (unfinished=drop leaves unfinished runs out)"
            )
        for metric in made.metrics:
            for run in g.runs:
                values = run.evaluated(metric)
                bad = values[np.isinf(values)]
                if metric not in run.table:
                    notes.append(f"{run.folder}: has no column {metric}; left out there")
                elif not len(values):
                    notes.append(f"{run.folder}: {metric} was never evaluated; left out there")
                elif len(bad):
                    notes.append(f"{run.folder}: {metric} is not finite in {len(bad)} rows, first in round "
                                 f"{bad.index[0]}: a gap")  # fmt: skip
    return notes
