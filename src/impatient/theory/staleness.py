"""How stale a mask makes every device: tau(t, i) and its means and maxima, at once or row by row."""

from dataclasses import dataclass

import numpy as np

from impatient.checks import ConfigError


def as_mask(mask: object) -> np.ndarray:
    """bool [T, N] from anything numpy reads as a table of 0 and 1. Raises ConfigError if it is none, or empty."""
    table = np.asarray(mask)
    if table.ndim != 2 or 0 in table.shape:
        raise ConfigError(f"mask: has shape {list(table.shape)}; give a table rounds x clients, at least 1 x 1")
    if table.dtype != bool and not np.isin(table, (0, 1)).all():
        raise ConfigError("mask: must hold only 0 and 1")
    return table.astype(bool)


def tau(mask: object) -> np.ndarray:
    """tau(t, i) = 0 where device i is there in round t, else tau(t-1, i) + 1, with tau(-1, i) = 0: int64 [T, N].

    Source: Gu et al., NeurIPS 2021, section 4; the start is the one of `impatient.participation`.
    """
    there = as_mask(mask)
    t = np.arange(len(there))[:, None]
    return t - np.maximum.accumulate(np.where(there, t, -1))


@dataclass(frozen=True)
class Staleness:
    """What T rounds amount to.

    now: int64 [N], tau(T-1, i); nu: int64 [N], the longest inactivity of each device, max_t tau(t, i); total, squares:
    int64 [N], sums over t of tau and tau²; rounds: T.
    """

    now: np.ndarray
    nu: np.ndarray
    total: np.ndarray
    squares: np.ndarray
    rounds: int

    @property
    def tau_bar(self) -> float:
        """tau_bar_T = 1/(NT) Σ_{t,i} tau(t, i)."""
        return float(self.total.mean() / self.rounds)

    @property
    def second_moment(self) -> float:
        """1/(NT) Σ_{t,i} tau(t, i)²."""
        return float(self.squares.mean() / self.rounds)

    @property
    def tau_max(self) -> int:
        """tau_max,T = max_{t<T,i} tau(t, i)."""
        return int(self.nu.max())

    @property
    def nu_bar(self) -> float:
        """1/N Σ_i nu_i."""
        return float(self.nu.mean())


def staleness(mask: object) -> Staleness:
    """All statistics of a mask [T, N] at once."""
    table = tau(mask)
    return Staleness(table[-1], table.max(0), table.sum(0), (table**2).sum(0), len(table))


def fresh(num_clients: int) -> Staleness:
    """The statistics before round 0."""
    if num_clients < 1:
        raise ConfigError(f"num_clients={num_clients}: must be at least 1")
    zeros = np.zeros(num_clients, dtype=np.int64)
    return Staleness(zeros, zeros, zeros, zeros, 0)


def feed(so_far: Staleness, row: object) -> Staleness:
    """One more round, bool [N]: the same statistics as `staleness` gives for all rows at once, in O(N)."""
    there = as_mask(np.asarray(row)[None])[0]
    if there.shape != so_far.now.shape:
        raise ConfigError(f"mask: a row of {len(there)} devices after rows of {len(so_far.now)}; give equal lengths")
    now = np.where(there, 0, so_far.now + 1)
    return Staleness(now, np.maximum(so_far.nu, now), so_far.total + now, so_far.squares + now**2, so_far.rounds + 1)
