"""kind=classes: final test accuracy of each class, beside how often the devices that hold it are there."""

import numpy as np
from matplotlib.figure import Figure

from impatient.checks import ConfigError
from impatient.plots import clients, style
from impatient.plots.bands import mean_std, value_at
from impatient.plots.comparison import Comparison, reaching
from impatient.plots.groups import Group, as_text

PREFIX = "test/acc/"


def class_availability(table: clients.Clients) -> np.ndarray:
    """Float [C]: mean p_i over the samples of each class, Σ_i n_ic·p_i / Σ_i n_ic; NaN for a class nobody holds."""
    held = table.labels.to_numpy().sum(0).astype(float)
    return (table.probability @ table.labels.to_numpy()) / np.where(held > 0, held, np.nan)


def draw(made: Comparison, at: int | None = None) -> tuple[Figure, list[str]]:
    """The figure and notes. Classes stand in the order of their availability, the rarest first, where it is known.

    Accuracies are those last evaluated at or before round `at`, by default the last round that every run has: mean and
    std over seeds. Raises ConfigError where there are no per-class accuracies, or no run gets as far.
    """
    groups = [g for g in made.groups if any(column.startswith(PREFIX) for column in g.runs[0].table)]
    if not groups:
        raise ConfigError(f"{made.data}: no run has test/acc/<class> columns; this task has no classes")
    names = [column.removeprefix(PREFIX) for column in groups[0].runs[0].table if column.startswith(PREFIX)]
    groups, at, notes = reaching(groups, [PREFIX + names[0]], at, f"the figure of {made.data}")
    notes = [note.replace(PREFIX + names[0], f"{PREFIX}<class>") for note in notes]
    panels = list(dict.fromkeys(g.panel for g in groups))
    several = len(panels) > 1
    key = style.legend(groups, points=True)
    width = max(3.0, 0.32 * len(names) + 0.6) if several else max(4.2, 0.36 * len(names) + 0.6)
    rows = key.rows(list(key.looks), int(16 * width * len(panels)))
    figure = Figure(figsize=(width * len(panels) + 0.5, 3.7 + 0.17 * len(rows)), layout="constrained")
    axes = figure.subplots(2, len(panels), squeeze=False, sharey="row", sharex="col", height_ratios=(3, 1))
    places = np.arange(len(names))
    for panel, top, bottom in zip(panels, *axes, strict=True):
        some = [g for g in groups if g.panel == panel]
        there = _availability(some, names)
        if there is None:
            notes.append(f"{made.data}: no clients.csv with probabilities and classes; classes stand in their own "
                         "order (callbacks.record writes it)")  # fmt: skip
        elif len({as_text(g.setting.get("availability")) for g in some}) > 1:
            notes.append(f"{made.data}: settings that differ in their availability share a panel, whose bars are the "
                         "mean over them; panels=<key> parts them")  # fmt: skip
        order = np.argsort(there, kind="stable") if there is not None else places
        for i, g in enumerate(some):
            values = [[value_at(run, PREFIX + names[c], at) for c in order] for run in g.runs]
            mean, std = mean_std(np.array(values))
            bars = np.minimum(np.nan_to_num(std), [mean, 1 - mean])  # within [0, 1]
            x = places + 0.7 * ((i + 0.5) / len(some) - 0.5)
            top.errorbar(x, mean, bars, elinewidth=0.8, capsize=0, **key.looks[g.label] | {"linestyle": ""})
        top.grid(True, axis="y")
        for edge in places[1:] - 0.5:
            top.axvline(edge, color="#dddddd", linewidth=0.4)
        if there is not None:
            bottom.bar(places, there[order], color="#999999", width=0.7)
        labels = [style.typeset(names[c]) for c in order]
        bottom.set_xticks(places, labels, rotation=90 if len(names) > 12 else 0)
        bottom.set_xlabel("class, rarest first" if there is not None else "class")
        bottom.set_ylim(0, 1)
        if made.panel:
            top.set_title(style.title(made.panel, panel))
    axes[0, 0].set_ylabel(f"test accuracy after round {at}")
    axes[1, 0].set_ylabel("availability")
    style.draw_legend(figure, rows, linestyle="")
    return figure, list(dict.fromkeys(notes))


def _availability(groups: list[Group], names: list[str]) -> np.ndarray | None:
    """Mean over the runs that know it; None where none does."""
    tables = [clients.read(run.folder) for g in groups for run in g.runs]
    each = [class_availability(t) for t in tables if t is not None and list(t.labels) == names]
    known = [one for one in each if np.isfinite(one).all()]
    return np.mean(known, axis=0) if known else None
