"""kind=staleness: how long devices stay away: the running tau_bar, the largest tau, and the distribution of tau."""

import numpy as np
from matplotlib.figure import Figure

from impatient.checks import ConfigError
from impatient.plots import looks, style
from impatient.plots.curves import Band, mean_std
from impatient.plots.groups import Group
from impatient.plots.participation import masks_of
from impatient.plots.sheets import Sheet

MEAN, MAX = "staleness/tau_mean", "staleness/tau_max"


def tau(available: np.ndarray) -> np.ndarray:
    """bool [T, N] → int [T, N]: rounds since a device was last available, 0 if it is now.

    tau(t, i) = 0 where available, else tau(t-1, i) + 1, with tau(-1, i) = 0 (Gu et al., NeurIPS 2021).
    """
    rounds = np.arange(len(available))[:, None]
    return rounds - np.maximum.accumulate(np.where(available, rounds, -1), axis=0)


def running_mean(values: np.ndarray) -> np.ndarray:
    """[T] → mean of the first t + 1 entries: tau_bar so far, from the mean tau of each round."""
    return np.cumsum(values) / np.arange(1, len(values) + 1)


def shares(available: np.ndarray) -> np.ndarray:
    """P(tau = k) over all devices and rounds, k = 0 … tau_max."""
    return np.bincount(tau(available).ravel()) / available.size


def draw(sheet: Sheet) -> tuple[Figure, list[str]]:
    """The figure and notes; runs that share availability, clients and seed are counted once.

    Without participation.csv there is no distribution. Raises ConfigError where no run has the staleness columns.
    """
    groups = [g for g in sheet.groups if all(c in run.columns for run in g.runs for c in (MEAN, MAX))]
    if not groups:
        raise ConfigError(f"{sheet.data}: no run has the columns {MEAN}, {MAX}")
    histograms = {g.label: share for g in groups if (share := _histogram(g)) is not None}
    notes = [f"{g.label}: no whole participation.csv, so no distribution (callbacks.record)" for g in groups
             if g.label not in histograms]  # fmt: skip
    count = 2 + bool(histograms)
    look = looks.looks(groups)
    rows = [[(text, {**own, "marker": ""}) for text, own in row]
            for row in looks.grid(look, [g.label for g in groups], 40 * count)]  # fmt: skip
    figure = Figure(figsize=(2.7 * count, 2.7 + 0.17 * len(rows)), layout="constrained")
    axes = figure.subplots(1, count)
    for g in groups:
        own = {**look.of[g.label], "marker": ""}
        for ax, made in zip(axes, (_band(g, MEAN), _band(g, MAX)), strict=False):
            ax.plot(made.x, made.mean, label=g.label, **own)
            if made.seeds > 1:
                low, high = made.mean - made.std, made.mean + made.std
                ax.fill_between(made.x, low, high, color=own["color"], alpha=0.18, linewidth=0)
        if g.label in histograms:
            ks = np.flatnonzero(histograms[g.label])
            axes[2].plot(ks, histograms[g.label][ks], **own)
    for ax, text in zip(axes, (r"$\bar\tau$ so far", r"largest $\tau$ in the round"), strict=False):
        ax.set_xlabel("communication round")
        ax.set_ylabel(text)
    if histograms:
        axes[2].set_xlabel(r"$\tau$, rounds away")
        axes[2].set_ylabel("share of devices and rounds")
        axes[2].set_yscale("log")
    for ax in axes:
        ax.grid(True)
        ax.xaxis.set_major_locator(style.whole_numbers())
    looks.legend(figure, rows)
    return figure, notes


def _band(g: Group, column: str) -> Band:
    """Over the seeds, as far as all go."""
    end = min(len(run) for run in g.runs)
    values = [run.column(column)[:end] for run in g.runs]
    lines = np.array([running_mean(v) if column == MEAN else v for v in values])
    return Band(g.runs[0].column("round")[:end], *mean_std(lines), len(g.runs))


def _histogram(g: Group) -> np.ndarray | None:
    """Mean of P(tau = k) over the seeds whose masks are there from round 0 on, without a hole."""
    each = []
    for run in g.runs:
        masks = masks_of(run)
        if masks is not None and np.array_equal(masks.rounds, np.arange(len(masks.rounds))):
            each.append(shares(masks.available))
    if not each:
        return None
    longest = max(map(len, each))
    return np.mean([np.pad(e, (0, longest - len(e))) for e in each], axis=0)
