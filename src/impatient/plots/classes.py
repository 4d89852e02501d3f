"""kind=classes: final test accuracy of each class, beside how often the devices that hold it are there."""

import json

import numpy as np
from matplotlib.figure import Figure

from impatient.checks import ConfigError
from impatient.plots import looks, records, style
from impatient.plots.curves import mean_std, value_at
from impatient.plots.groups import Group
from impatient.plots.sheets import Sheet, evaluated, reaching

PREFIX = "test/acc/"


def class_availability(table: records.ClientTable) -> np.ndarray:
    """Float [C]: mean p_i over the samples of each class, Σ_i n_ic·p_i / Σ_i n_ic; NaN for a class nobody holds."""
    held = table.labels.sum(0).astype(float)
    return (table.probability @ table.labels) / np.where(held > 0, held, np.nan)


def draw(sheet: Sheet, at: int | None = None) -> tuple[Figure, list[str]]:
    """The figure and notes. Classes stand in the order of their availability, the rarest first, where it is known.

    Accuracies are those last evaluated at or before round `at`, by default the last round that every run has: mean and
    std over seeds. Raises ConfigError where there are no per-class accuracies, or no run gets as far.
    """
    groups = [g for g in sheet.groups if any(c.startswith(PREFIX) for c in g.runs[0].columns)]
    if not groups:
        raise ConfigError(f"{sheet.data}: no run has test/acc/<class> columns; this task has no classes")
    names = [c.removeprefix(PREFIX) for c in groups[0].runs[0].columns if c.startswith(PREFIX)]
    groups, at, notes = reaching(groups, at, f"the figure of {sheet.data}")
    notes += [
        note.replace(PREFIX + names[0], f"{PREFIX}<class>") for note in evaluated(groups, [PREFIX + names[0]], at)
    ]
    panels = list(dict.fromkeys(g.panel for g in groups))
    look = looks.looks(groups, points=True)
    width = max(3.0, 0.32 * len(names) + 0.6) if len(panels) > 1 else max(4.2, 0.36 * len(names) + 0.6)
    rows = looks.grid(look, list(look.of), int(16 * width * len(panels)))
    figure = Figure(figsize=(width * len(panels) + 0.5, 3.7 + 0.17 * len(rows)), layout="constrained")
    axes = figure.subplots(2, len(panels), squeeze=False, sharey="row", sharex="col", height_ratios=(3, 1))
    for column, panel in enumerate(panels):
        some = [g for g in groups if g.panel == panel]
        there = _availability(some, names)
        if there is None:
            notes.append(f"{sheet.data}: no clients.csv with probabilities and classes; classes stand in their own "
                         "order (callbacks.record writes it)")  # fmt: skip
        elif len({json.dumps(g.setting.get("availability"), sort_keys=True, default=str) for g in some}) > 1:
            notes.append(f"{sheet.data}: settings that differ in their availability share a panel, whose bars are the "
                         "mean over them; panels=<key> parts them")  # fmt: skip
        order = np.argsort(there, kind="stable") if there is not None else np.arange(len(names))
        top, bottom = axes[:, column]
        for i, g in enumerate(some):
            mean, std = _accuracies(g, names, at)
            x = np.arange(len(names)) + 0.7 * ((i + 0.5) / len(some) - 0.5)
            centre, spread = mean[order], np.nan_to_num(std[order])
            bars = np.array([np.minimum(spread, centre), np.minimum(spread, 1 - centre)])
            top.errorbar(x, centre, bars, elinewidth=0.8, capsize=0, **look.of[g.label] | {"linestyle": ""})
        top.grid(True, axis="y")
        for edge in np.arange(len(names) - 1) + 0.5:
            top.axvline(edge, color="#dddddd", linewidth=0.4)
        if there is not None:
            bottom.bar(np.arange(len(names)), there[order], color="#999999", width=0.7)
        bottom.set_xticks(
            np.arange(len(names)), [style.typeset(names[i]) for i in order], rotation=90 if len(names) > 12 else 0
        )
        bottom.set_xlabel("class, rarest first" if there is not None else "class")
        bottom.set_ylim(0, 1)
        if sheet.panel:
            top.set_title(style.title(sheet.panel, panel))
    axes[0, 0].set_ylabel(f"test accuracy after round {at}")
    axes[1, 0].set_ylabel("availability")
    looks.legend(figure, rows, points=True)
    return figure, list(dict.fromkeys(notes))


def _accuracies(g: Group, names: list[str], at: int) -> tuple[np.ndarray, np.ndarray]:
    missing = [np.nan] * len(names)
    values = [[value_at(run, PREFIX + name, at) for name in names] if PREFIX + names[0] in run.columns else missing
              for run in g.runs]  # fmt: skip
    return mean_std(np.array(values))


def _availability(groups: list[Group], names: list[str]) -> np.ndarray | None:
    """Mean over the runs that know it; None where none does."""
    tables = [records.clients(run.folder) for g in groups for run in g.runs]
    each = [class_availability(t) for t in tables if t is not None and t.classes == names]
    known = [one for one in each if np.isfinite(one).all()]
    return np.mean(known, axis=0) if known else None
