"""kind=curves: a row of axes for each metric, a column for each panel, a line and a band for each setting."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from impatient.checks import ConfigError
from impatient.plots import looks, style
from impatient.plots.curves import AXES, Band, band
from impatient.plots.sheets import Sheet, having

FEW = 15  # evaluations, up to which each has a marker


def draw(sheet: Sheet, x: str = "round", logx: bool = False, logy: bool = False) -> tuple[Figure, list[str]]:
    """The figure and notes on lines that are not in it. Raises ConfigError where there is none.

    A line is the mean over seeds, the band one standard deviation (ddof = 1) to either side. The axis begins at 0, a
    line where its setting was first evaluated.
    """
    panels, notes = sheet.panels, []
    bands: dict[tuple[str, str, int], Band] = {}
    for metric in sheet.metrics:
        for g in having(sheet, metric):
            try:
                made = band(g.runs, metric, x)
            except ConfigError as error:
                notes += [f for f in error.faults if f not in notes]
                continue
            if len(made.x) and np.isfinite(made.mean).any():
                bands[metric, g.label, panels.index(g.panel)] = made
            else:
                notes.append(f"{g.label}: {metric} has no finite value that all its runs share; no line")
    if not bands:
        raise ConfigError(*(notes or [f"{sheet.data}: nothing to draw"]))

    rows, columns = len(sheet.metrics), len(panels)
    look = looks.looks(sheet.groups)
    # Some 70 characters of legend for one panel, 50 for each of several.
    legend = looks.grid(look, {label for _, label, _ in bands}, 68 if columns == 1 else 20 + 50 * columns)
    height = 2.0 * rows + 0.5 + 0.17 * len(legend)
    figure = Figure(figsize=(1.0 + 2.9 * columns if columns > 1 else 4.6, height), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey="row", squeeze=False)
    for (metric, label, column), made in bands.items():
        # Markers stand apart between labels, so that lines that lie on each other still show.
        apart = (0.12 * list(look.of).index(label) / len(look.of), 0.12) if len(made.x) > FEW else None
        _line(axes[sheet.metrics.index(metric), column], made, label, metric, look.of[label], apart)
    for row, metric in enumerate(sheet.metrics):
        axes[row, 0].set_ylabel(style.name(metric))
        for ax in axes[row]:
            ax.grid(True)
            if x in ("round", "update"):
                ax.xaxis.set_major_locator(style.whole_numbers())
            if logx:
                ax.set_xscale("log", nonpositive="mask")
            else:  # every run begins at 0, wherever it was first evaluated
                ax.update_datalim([(0, 0)], updatey=False)
            if logy and "acc" not in metric.split("/"):
                ax.set_yscale("log", nonpositive="mask")
    if logx or logy:
        notes += _not_in_logs(bands, logx, logy)
    for column, value in enumerate(panels):
        axes[-1, column].set_xlabel(AXES[x])
        if sheet.panel:
            axes[0, column].set_title(style.title(sheet.panel, value))
    looks.legend(figure, legend)
    return figure, notes


def _line(ax: Axes, made: Band, label: str, metric: str, look: dict[str, Any], apart: Any) -> None:
    steps: Any = "steps-post" if made.step else "default"
    ax.plot(made.x, made.mean, label=label, drawstyle=steps, markevery=apart, **look)
    if made.seeds > 1:
        low, high = made.mean - made.std, made.mean + made.std
        if "acc" in metric.split("/"):
            low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
        step: Any = "post" if made.step else None
        ax.fill_between(made.x, low, high, step=step, color=look["color"], alpha=0.18, linewidth=0)


def _not_in_logs(bands: dict[tuple[str, str, int], Band], logx: bool, logy: bool) -> list[str]:
    notes = []
    if logy and (low := sorted({metric for (metric, _, _), b in bands.items() if (b.mean <= 0).any()})):
        notes.append(f"logy=true: {', '.join(low)} has values <= 0, which a log axis cannot show")
    if logx and any((b.x <= 0).any() for b in bands.values()):
        notes.append("logx=true: the point at 0 cannot be shown")
    return notes
