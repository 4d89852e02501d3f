"""kind=curves: a row of axes for each metric, a column for each panel, a line and a band for each setting."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from impatient.checks import ConfigError
from impatient.plots import names, style
from impatient.plots.bands import AXES, band
from impatient.plots.comparison import Comparison

FEW = 15  # evaluations, up to which each has a marker


def draw(made: Comparison, x: str = "round", logx: bool = False, logy: bool = False) -> tuple[Figure, list[str]]:
    """The figure and notes on lines that are not in it. Raises ConfigError where there is none.

    A line is the mean over seeds, the band one standard deviation (ddof = 1) to either side. The axis begins at 0, a
    line where its setting was first evaluated.
    """
    bands, notes = _bands(made, x)
    if not bands:
        raise ConfigError(*(notes or [f"{made.data}: nothing to draw"]))
    panels, rows, columns = made.panels, len(made.metrics), len(made.panels)
    key = style.legend(made.groups)
    # Some 70 characters of legend for one panel, 50 for each of several.
    entries = key.rows({label for _, label, _ in bands}, 68 if columns == 1 else 20 + 50 * columns)
    size = (1.0 + 2.9 * columns if columns > 1 else 4.6, 2.0 * rows + 0.5 + 0.17 * len(entries))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey="row", squeeze=False)
    for (metric, label, panel), one in bands.items():
        # Markers stand apart between labels, so that lines that lie on each other still show.
        apart = (0.12 * list(key.looks).index(label) / len(key.looks), 0.12) if len(one) > FEW else None
        look = {"label": label, "markevery": apart, **key.looks[label]}
        limits = (0, 1) if _accuracy(metric) else style.FREE
        style.draw_band(axes[made.metrics.index(metric), panels.index(panel)], one, look, x != "round", limits)
    for row, metric in zip(axes, made.metrics, strict=True):
        row[0].set_ylabel(style.typeset(names.name(metric)))
        for ax in row:
            ax.grid(True)
            if x in ("round", "update"):
                ax.xaxis.set_major_locator(style.whole_numbers())
            if logx:
                ax.set_xscale("log", nonpositive="mask")
            else:  # every run begins at 0, wherever it was first evaluated
                ax.update_datalim([(0, 0)], updatey=False)
            if logy and not _accuracy(metric):
                ax.set_yscale("log", nonpositive="mask")
    if logy and (low := sorted({metric for (metric, _, _), one in bands.items() if (one["mean"] <= 0).any()})):
        notes.append(f"logy=true: {', '.join(low)} has values <= 0, which a log axis cannot show")
    if logx and any((one.index <= 0).any() for one in bands.values()):
        notes.append("logx=true: the point at 0 cannot be shown")
    for top, bottom, value in zip(axes[0], axes[-1], panels, strict=True):
        bottom.set_xlabel(AXES[x])
        if made.panel:
            top.set_title(style.title(made.panel, value))
    style.draw_legend(figure, entries)
    return figure, notes


def _accuracy(metric: str) -> bool:
    return "acc" in metric.split("/")


def _bands(made: Comparison, x: str) -> tuple[dict[tuple[str, str, Any], pd.DataFrame], list[str]]:
    """By metric, label and panel; and notes on those that there are not."""
    bands: dict[tuple[str, str, Any], pd.DataFrame] = {}
    notes: list[str] = []
    for metric in made.metrics:
        for g in made.having(metric):
            try:
                one = band(g.runs, metric, x)
            except ConfigError as error:
                notes += error.faults
                continue
            if one["mean"].notna().any():
                bands[metric, g.label, g.panel] = one
            else:
                notes.append(f"{g.label}: {metric} has no finite value that all its runs share; no line")
    return bands, list(dict.fromkeys(notes))
