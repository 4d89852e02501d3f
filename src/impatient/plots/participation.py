"""kind=participation: who was there and who took part, devices × rounds, one map a setting."""

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from impatient.checks import ConfigError
from impatient.plots import clients, style
from impatient.plots.clients import Clients, Masks
from impatient.plots.comparison import Comparison

STATES = {"not there": "#ffffff", "there, did not train": "#9ecae1", "trained": "#08306b"}
MOST = 12


def order(masks: Masks, table: Clients | None) -> np.ndarray:
    """Devices, the most available first: by p_i where clients.csv has it, else by the share of rounds in the map."""
    known = table is not None and np.isfinite(table.probability).all()
    p = table.probability if known and table is not None else masks.available.mean(0)
    return np.argsort(-p, kind="stable")


def draw(made: Comparison) -> tuple[Figure, list[str]]:
    """The figure and notes. Of several seeds the first that has participation.csv is shown.

    Raises ConfigError where no run has it.
    """
    shown, notes = [], []
    for g in made.groups:
        for run in g.runs:
            if (masks := clients.masks(run.folder, run.config.get("num_clients"))) is not None:
                shown.append((made.where(g), run, masks))
                break
        else:
            notes.append(f"{made.where(g)}: no participation.csv in {g.runs[0].folder}: not recorded")
    if not shown:
        raise ConfigError(f"{made.data}: no run has a participation.csv; callbacks.record writes it")
    if len(shown) > MOST:
        notes.append(f"{len(shown)} settings, the first {MOST} are drawn; give fewer folders for the others")
        shown = shown[:MOST]
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(3.5 * columns + 0.4, 2.1 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for i, (ax, (label, run, masks)) in enumerate(zip(axes.flat, shown, strict=False)):
        states = (masks.available.astype(int) + masks.reported).T  # [N, T]: as numbered in STATES
        cells = states[order(masks, clients.read(run.folder))]
        extent = (masks.rounds[0] - 0.5, masks.rounds[-1] + 0.5, len(cells) - 0.5, -0.5)
        ax.imshow(cells, cmap=ListedColormap(list(STATES.values())), vmin=0, vmax=2, aspect="auto", extent=extent,
                  interpolation="auto", interpolation_stage="rgba")  # fmt: skip
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(style.whole_numbers())
        ax.set_title(style.typeset(f"{label}, seed {run.config.get('seed')}"))
        if i % columns == 0:
            ax.set_ylabel("device, most available first")
        if i + columns >= len(shown):
            ax.set_xlabel("communication round")
    for ax in axes.flat[len(shown) :]:
        ax.remove()
    handles = [Patch(facecolor=c, edgecolor="#555555", linewidth=0.5, label=name) for name, c in STATES.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure, notes
