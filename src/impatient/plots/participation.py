"""kind=participation: who was there and who took part, devices × rounds, one map a setting."""

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from impatient.checks import ConfigError
from impatient.plots import records, style
from impatient.plots.runs import Run
from impatient.plots.sheets import Sheet, where

STATES = {"not there": "#ffffff", "there, did not train": "#9ecae1", "trained": "#08306b"}
MOST = 12


def states(masks: records.Masks) -> np.ndarray:
    """int [N, T]: 0 not there, 1 there but did not train, 2 trained and reported."""
    return (masks.available.astype(int) + masks.reported).T


def order(masks: records.Masks, table: records.ClientTable | None) -> np.ndarray:
    """Devices, the most available first: by p_i where clients.csv has it, else by the share of rounds in the map."""
    known = table is not None and np.isfinite(table.probability).all() and len(table.probability)
    p = table.probability if known and table is not None else masks.available.mean(0)
    return np.argsort(-p, kind="stable")


def draw(sheet: Sheet) -> tuple[Figure, list[str]]:
    """The figure and notes. Of several seeds the first that has participation.csv is shown.

    Raises ConfigError where no run has it.
    """
    shown, notes = [], []
    for g in sheet.groups:
        for run in g.runs:
            if (masks := masks_of(run)) is not None:
                shown.append((where(sheet, g), run, masks))
                break
        else:
            notes.append(f"{where(sheet, g)}: no participation.csv in {g.runs[0].folder}: not recorded")
    if not shown:
        raise ConfigError(f"{sheet.data}: no run has a participation.csv; callbacks.record writes it")
    if len(shown) > MOST:
        notes.append(f"{len(shown)} settings, the first {MOST} are drawn; give fewer folders for the others")
        shown = shown[:MOST]
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(3.5 * columns + 0.4, 2.1 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    colours = ListedColormap(list(STATES.values()))
    for ax, (label, run, masks) in zip(axes.flat, shown, strict=False):
        cells = states(masks)[order(masks, records.clients(run.folder))]
        left, right = masks.rounds[0] - 0.5, masks.rounds[-1] + 0.5
        ax.imshow(cells, cmap=colours, vmin=0, vmax=2, aspect="auto", interpolation="auto", interpolation_stage="rgba",
                  extent=(left, right, len(cells) - 0.5, -0.5))  # fmt: skip
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(style.whole_numbers())
        ax.set_title(style.typeset(f"{label}, seed {run.config.get('seed')}"))
    for ax in axes.flat[len(shown) :]:
        ax.remove()
    for ax in axes[:, 0]:
        ax.set_ylabel("device, most available first")
    for ax in axes.flat[max(0, len(shown) - columns) : len(shown)]:
        ax.set_xlabel("communication round")
    handles = [Patch(facecolor=c, edgecolor="#555555", linewidth=0.5, label=name) for name, c in STATES.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure, notes


def masks_of(run: Run) -> records.Masks | None:
    """The run's participation.csv; None where there is none or N is not known."""
    n = run.config.get("num_clients")
    return records.masks(run.folder, n) if isinstance(n, int) else None
