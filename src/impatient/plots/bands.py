"""Several runs of one setting as one curve: mean and standard deviation over seeds, over rounds or another x."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from impatient.checks import ConfigError
from impatient.plots import clients
from impatient.plots.runs import Run

AXES = {
    "round": "communication round",
    "update": "update",
    "samples": "samples trained on",
    "bytes": "bytes sent, up and down",
    "seconds": "seconds",
}


def band(runs: Sequence[Run], metric: str, x: str = "round") -> pd.DataFrame:
    """Mean and std of a metric over runs of one setting, by x, as far as all of them go.

    x=round: at the rounds in which any run was evaluated; one that was not holds its last value.
    Otherwise: each run is the step function that holds a value until the next evaluation (of several rows with equal x
    the last counts); the grid is the union of all x at which one of them changes, from where all have begun to where
    the first one ends, and the mean on it is exact.
    """
    lines = [pd.Series(run.table[metric].to_numpy(), axis(run, x)) for run in runs]
    given = [line.dropna() for line in lines]
    grid = np.unique(np.concatenate([line.index for line in given]))
    begin = max((line.index[0] if len(line) else math.inf) for line in given)
    end = min(line.index[-1] for line in lines)
    grid = grid[(grid >= begin) & (grid <= end)]
    if x != "round" and len(grid) and grid[-1] < end:
        grid = np.append(grid, end)  # the last value holds up to there
    mean, std = mean_std([line.to_numpy()[line.index.searchsorted(grid, side="right") - 1] for line in given])
    return pd.DataFrame({"mean": mean, "std": std}, index=grid)


def mean_std(values: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over the first axis; the std with ddof = 1, NaN for one seed. What is not finite makes a gap in both."""
    finite = np.where(np.isfinite(values), values, math.nan)
    return finite.mean(0), finite.std(0, ddof=1) if len(values) > 1 else np.full(finite.shape[1:], math.nan)


def value_at(run: Run, metric: str, round: int) -> float:
    """The metric as last evaluated at or before `round`; NaN where it was not."""
    return float(run.table[metric].asof(round)) if metric in run.table else math.nan


def axis(run: Run, x: str) -> np.ndarray:
    """x [T] of a run's rows, never falling.

    round, update   as written
    bytes, seconds  sums so far of comm/up_bytes + comm/down_bytes, of seconds
    samples         sum so far of the samples that reporting clients went through, once for each time they did

    Raises ConfigError where the run's folder does not tell it.
    """
    needed = {"bytes": ["comm/up_bytes", "comm/down_bytes"], "samples": ["active"]}.get(x, [x])
    if missing := [name for name in needed if name not in run.table]:
        raise ConfigError(f"x={x}: {run.folder} has no column {', '.join(missing)}")
    if x in ("round", "update"):
        return run.table[x].to_numpy()
    return np.cumsum(_samples(run) if x == "samples" else run.table[needed].sum(axis=1).to_numpy())


def _samples(run: Run) -> np.ndarray:
    """Samples gone through in each round, [T].

    Where clients differ in size, participation.csv must say who trained; where they do not, `active` is enough.
    """
    sizes = clients.sizes(run.folder)
    client = run.config.get("client")
    if sizes is None or not isinstance(client, dict) or "batch_size" not in client:
        raise ConfigError(f"x=samples: {run.folder} has no partition.json or no client settings; use x=round")
    each = np.array([visits(int(n), client["batch_size"], client.get("epochs"), client.get("steps")) for n in sizes])
    if (each == each[0]).all():
        return run.table["active"].fillna(0).to_numpy() * each[0]
    masks = clients.masks(run.folder, len(sizes))
    if masks is None or not set(run.table.index) <= set(masks.rounds):
        raise ConfigError(
            f"x=samples: the clients of {run.folder} differ in size ({sizes.min()} to {sizes.max()} samples) and no "
            "participation.csv there says who trained; use x=round, update, bytes or seconds"
        )
    return masks.reported[np.searchsorted(masks.rounds, run.table.index)] @ each


def visits(n: int, batch_size: int, epochs: int | None, steps: int | None) -> int:
    """Samples that a client with n of them goes through in a round: epochs·n, or `steps` batches of whole epochs."""
    if steps is None:
        return n * (epochs or 0)
    epoch, rest = divmod(steps, math.ceil(n / batch_size))
    return epoch * n + min(rest * batch_size, n)
