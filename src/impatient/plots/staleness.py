"""kind=staleness: how long devices stay away: the running tau_bar, the largest tau, and the distribution of tau."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from impatient.checks import ConfigError
from impatient.plots import clients, style
from impatient.plots.bands import mean_std
from impatient.plots.comparison import Comparison
from impatient.plots.groups import Group

MEAN, MAX = "staleness/tau_mean", "staleness/tau_max"


def tau(available: np.ndarray) -> np.ndarray:
    """bool [T, N] → int [T, N]: rounds since a device was last available, 0 if it is now.

    tau(t, i) = 0 where available, else tau(t-1, i) + 1, with tau(-1, i) = 0 (Gu et al., NeurIPS 2021).
    """
    rounds = np.arange(len(available))[:, None]
    return rounds - np.maximum.accumulate(np.where(available, rounds, -1), axis=0)


def shares(available: np.ndarray) -> np.ndarray:
    """P(tau = k) over all devices and rounds, k = 0 … tau_max."""
    return np.bincount(tau(available).ravel()) / available.size


def draw(made: Comparison) -> tuple[Figure, list[str]]:
    """The figure and notes; runs that share availability, clients and seed are counted once.

    tau_bar so far is the mean over rounds of each round's mean tau. Without participation.csv there is no distribution.
    Raises ConfigError where no run has the staleness columns.
    """
    groups = [g for g in made.groups if all({MEAN, MAX} <= set(run.table) for run in g.runs)]
    if not groups:
        raise ConfigError(f"{made.data}: no run has the columns {MEAN}, {MAX}")
    histograms = {g.label: share for g in groups if (share := _histogram(g)) is not None}
    notes = [f"{g.label}: no whole participation.csv, so no distribution (callbacks.record)" for g in groups
             if g.label not in histograms]  # fmt: skip
    count = 2 + bool(histograms)
    key = style.legend(groups)
    rows = key.rows(list(key.looks), 40 * count)
    figure = Figure(figsize=(2.7 * count, 2.7 + 0.17 * len(rows)), layout="constrained")
    axes = figure.subplots(1, count)
    for g in groups:
        look = {**key.looks[g.label], "marker": ""}
        style.draw_band(axes[0], _band(g, MEAN), look)
        style.draw_band(axes[1], _band(g, MAX), look)
        if (share := histograms.get(g.label)) is not None:
            axes[2].plot(np.flatnonzero(share), share[share > 0], **look)
    for ax, text in zip(axes, (r"$\bar\tau$ so far", r"largest $\tau$ in the round"), strict=False):
        ax.set_xlabel("communication round")
        ax.set_ylabel(text)
    if histograms:
        axes[2].set(xlabel=r"$\tau$, rounds away", ylabel="share of devices and rounds", yscale="log")
    for ax in axes:
        ax.grid(True)
        ax.xaxis.set_major_locator(style.whole_numbers())
    style.draw_legend(figure, rows, marker="")
    return figure, notes


def _band(g: Group, column: str) -> pd.DataFrame:
    """Over the seeds, as far as all go; of tau_mean the mean of all rounds so far."""
    end = min(len(run.table) for run in g.runs)
    lines = np.array([run.table[column].to_numpy()[:end] for run in g.runs])
    if column == MEAN:
        lines = lines.cumsum(axis=1) / np.arange(1, end + 1)
    mean, std = mean_std(lines)
    return pd.DataFrame({"mean": mean, "std": std}, index=g.runs[0].table.index[:end])


def _histogram(g: Group) -> np.ndarray | None:
    """Mean of P(tau = k) over the seeds whose masks are there from round 0 on, without a hole."""
    known = [masks for run in g.runs if (masks := clients.masks(run.folder, run.config.get("num_clients"))) is not None]
    each = [shares(masks.available) for masks in known if np.array_equal(masks.rounds, np.arange(len(masks.rounds)))]
    longest = max(map(len, each), default=0)
    return np.mean([np.pad(e, (0, longest - len(e))) for e in each], axis=0) if each else None
