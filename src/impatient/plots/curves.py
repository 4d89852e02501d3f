"""From the rows of several seeds to a mean with a band."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from impatient.checks import ConfigError
from impatient.plots import records
from impatient.plots.runs import Run

AXES = {
    "round": "communication round",
    "update": "update",
    "samples": "samples trained on",
    "bytes": "bytes sent, up and down",
    "seconds": "seconds",
}


@dataclass(frozen=True)
class Band:
    """x [G]; mean and std [G] over the seeds (ddof = 1; NaN for one seed); seeds, their number.

    step: the mean holds from one x to the next, and is to be drawn so.
    """

    x: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    seeds: int
    step: bool = False


def held(values: np.ndarray, given: np.ndarray) -> np.ndarray:
    """[T] with every cell that is not given replaced by the last one that is; NaN before the first."""
    last = np.maximum.accumulate(np.where(given, np.arange(len(values)), -1))
    return np.where(last >= 0, values[last], math.nan)


def axis(run: Run, x: str) -> np.ndarray:
    """x [T] of a run's rows, never falling.

    round, update   as written
    bytes, seconds  sums so far of comm/up_bytes + comm/down_bytes, of seconds
    samples         sum so far of the samples that reporting clients went through, once for each time they did

    Raises ConfigError where the run's folder does not tell it.
    """
    needed = {"bytes": ["comm/up_bytes", "comm/down_bytes"], "samples": ["active"]}.get(x, [x])
    missing = [name for name in needed if name not in run.columns]
    if missing:
        raise ConfigError(f"x={x}: {run.folder} has no column {', '.join(missing)}")
    if x in ("round", "update"):
        return run.column(x)
    if x == "samples":
        return np.cumsum(_samples(run))
    return np.cumsum(sum(np.nan_to_num(run.column(name)) for name in needed))


def _samples(run: Run) -> np.ndarray:
    """Samples gone through in each round, [T].

    Where clients differ in size, participation.csv must say who trained; where they do not, `active` is enough.
    """
    sizes = records.sizes(run.folder)
    client = run.config.get("client")
    if sizes is None or not isinstance(client, dict) or "batch_size" not in client:
        raise ConfigError(f"x=samples: {run.folder} has no partition.json or no client settings; use x=round")
    each = np.array([visits(int(n), client["batch_size"], client.get("epochs"), client.get("steps")) for n in sizes])
    if (each == each[0]).all():
        return np.nan_to_num(run.column("active")) * each[0]
    masks = records.masks(run.folder, len(sizes))
    rounds = run.column("round").astype(int)
    if masks is None or not set(rounds) <= set(masks.rounds.tolist()):
        raise ConfigError(
            f"x=samples: the clients of {run.folder} differ in size ({sizes.min()} to {sizes.max()} samples) and no "
            "participation.csv there says who trained; use x=round, update, bytes or seconds"
        )
    return masks.reported[np.searchsorted(masks.rounds, rounds)] @ each


def visits(n: int, batch_size: int, epochs: int | None, steps: int | None) -> int:
    """Samples that a client with n of them goes through in a round: epochs·n, or `steps` batches of whole epochs."""
    if steps is None:
        return n * (epochs or 0)
    epoch, rest = divmod(steps, math.ceil(n / batch_size))
    return epoch * n + min(rest * batch_size, n)


def band(runs: Sequence[Run], metric: str, x: str = "round") -> Band:
    """Mean and std of a metric over runs of one setting, as far as all of them go.

    x=round: at the rounds in which any run was evaluated; one that was not holds its last value.
    Otherwise: each run is the step function that holds a value until the next evaluation (of several rows with equal x
    the last counts); the grid is the union of all x at which one of them changes, from where all have begun to where
    the first one ends, and the mean on it is exact.
    """
    lines = []
    for run in runs:
        at, given = axis(run, x), run.given(metric)
        y = held(run.column(metric), given)
        lines.append((at, y, given))
    begin = max((at[given.argmax()] for at, _, given in lines if given.any()), default=math.inf)
    end = min(at[-1] for at, _, _ in lines)
    empty = any(not given.any() for _, _, given in lines)
    grid = np.unique(np.concatenate([at[given] for at, _, given in lines]))
    grid = grid[(grid >= begin) & (grid <= end)] if not empty else grid[:0]
    if x != "round" and len(grid) and grid[-1] < end:
        grid = np.append(grid, end)  # the last value holds up to there
    values = np.array([y[np.searchsorted(at, grid, side="right") - 1] for at, y, _ in lines])
    return Band(grid, *mean_std(values.reshape(len(runs), len(grid))), len(runs), x != "round")


def mean_std(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over the first axis; the std with ddof = 1, NaN for one seed. What is not finite makes a gap in both."""
    values = np.where(np.isfinite(values), values, math.nan)
    std = values.std(0, ddof=1) if len(values) > 1 else np.full(values.shape[1:], math.nan)
    return values.mean(0), std


def value_at(run: Run, metric: str, round: int) -> float:
    """The metric as last evaluated at or before `round`; NaN where it was not."""
    upto = run.column("round") <= round
    if not upto.any():
        return math.nan
    return float(held(run.column(metric), run.given(metric))[upto][-1])
