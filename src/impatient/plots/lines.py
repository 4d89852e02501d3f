"""kind=curves: a row of axes for each metric, a column for each panel, a line and a band for each setting."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from impatient.checks import ConfigError
from impatient.plots import style
from impatient.plots.curves import AXES, Band, band
from impatient.plots.sheets import Sheet, having


def draw(sheet: Sheet, x: str = "round", logx: bool = False, logy: bool = False) -> tuple[Figure, list[str]]:
    """The figure and notes on lines that are not in it. Raises ConfigError where there is none.

    A line is the mean over seeds, the band one standard deviation (ddof = 1) to either side.
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
    ncols = _legend_columns(sheet.labels, columns)
    height = 2.0 * rows + 0.5 + 0.17 * -(-len(sheet.labels) // ncols)
    figure = Figure(figsize=(1.0 + 2.9 * columns if columns > 1 else 4.6, height), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey="row", squeeze=False)
    handles: dict[str, Any] = {}
    for (metric, label, column), made in bands.items():
        ax = axes[sheet.metrics.index(metric), column]
        handles.setdefault(label, _line(ax, made, label, sheet.labels.index(label), len(sheet.labels), metric))
    for row, metric in enumerate(sheet.metrics):
        axes[row, 0].set_ylabel(style.name(metric))
        for ax in axes[row]:
            ax.grid(True)
            if x in ("round", "update"):
                ax.xaxis.set_major_locator(MaxNLocator(integer=True))
            if logx:
                ax.set_xscale("log", nonpositive="mask")
            if logy and "acc" not in metric.split("/"):
                ax.set_yscale("log", nonpositive="mask")
    if logx or logy:
        notes += _not_in_logs(bands, logx, logy)
    for column, value in enumerate(panels):
        axes[-1, column].set_xlabel(AXES[x])
        if sheet.panel:
            axes[0, column].set_title(style.title(sheet.panel, value))
    shown = [label for label in sheet.labels if label in handles]
    figure.legend(
        [handles[label] for label in shown],
        shown,
        loc="outside lower center",
        ncols=ncols,
        handlelength=3.2,
        columnspacing=1.4,
    )
    return figure, notes


def _line(ax: Axes, made: Band, label: str, index: int, total: int, metric: str) -> Any:
    look = style.line(index)
    steps: Any = "steps-post" if made.step else "default"
    # Markers stand apart between labels, so that lines that lie on each other still show.
    (line,) = ax.plot(
        made.x, made.mean, label=label, drawstyle=steps, markevery=(0.12 * index / max(total, 1), 0.12), **look
    )
    if made.seeds > 1:
        low, high = made.mean - made.std, made.mean + made.std
        if "acc" in metric.split("/"):
            low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
        step: Any = "post" if made.step else None
        ax.fill_between(made.x, low, high, step=step, color=look["color"], alpha=0.18, linewidth=0)
    return line


def _legend_columns(labels: list[str], panels: int) -> int:
    """As many as the width holds: some 70 characters for one panel, 50 for each of several."""
    room = 68 if panels == 1 else 20 + 50 * panels
    return max(1, min(len(labels), room // (max(map(len, labels)) + 9)))


def _not_in_logs(bands: dict[tuple[str, str, int], Band], logx: bool, logy: bool) -> list[str]:
    notes = []
    if logy and (low := sorted({metric for (metric, _, _), b in bands.items() if (b.mean <= 0).any()})):
        notes.append(f"logy=true: {', '.join(low)} has values <= 0, which a log axis cannot show")
    if logx and any((b.x <= 0).any() for b in bands.values()):
        notes.append("logx=true: the point at 0 cannot be shown")
    return notes
