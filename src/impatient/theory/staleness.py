"""Statistics of a mask: tau(t, i), its longest absences, and the constants of the MIFA paper's two assumptions.

Strongly convex (assumption 4): absences may grow with time, at most linearly; here tau(t, i) ≤ t0 + t/b, which is our
way of writing it. Convergence also needs tau_max,T = o(T) and t0 = o(T). Non-convex (assumption 8): every device has a
bound nu_i on its inactivity, whatever T. A finite mask always has one, nu_i = max_t tau(t, i); what can be told is
whether the longest absence still grows.

Source: Gu et al., NeurIPS 2021, section 4; the start, tau(-1, i) = 0, is the one of `impatient.participation`.
"""

import numpy as np

from impatient.checks import ConfigError


def tau(mask: object) -> np.ndarray:
    """tau(t, i) = 0 where device i is there in round t, else tau(t-1, i) + 1, with tau(-1, i) = 0: int64 [T, N].

    mask: anything numpy reads as a table [T, N] of 0 and 1. Raises ConfigError if it is none, or empty.
    """
    there = np.asarray(mask)
    if there.ndim != 2 or 0 in there.shape:
        raise ConfigError(f"mask: has shape {list(there.shape)}; give a table rounds x clients, at least 1 x 1")
    if not np.isin(there, (0, 1)).all():
        raise ConfigError("mask: must hold only 0 and 1")
    t = np.arange(len(there))[:, None]
    return t - np.maximum.accumulate(np.where(there.astype(bool), t, -1))


def longest_so_far(away: np.ndarray) -> np.ndarray:
    """tau_max,T for T = 1, 2, …, int64 [T], from away = tau(mask) [T, N]."""
    return np.maximum.accumulate(away.max(1))


def smallest_t0(away: np.ndarray, b: float) -> float:
    """The least t0 ≥ 0 with tau(t, i) ≤ t0 + t/b everywhere, from away = tau(mask) [T, N]."""
    return float(max(0.0, (away.max(1) - np.arange(len(away)) / b).max()))


def growth(away: np.ndarray) -> float:
    """The exponent e in tau_max,t ~ t^e between the first eighth and the whole of T ≥ 8 rounds."""
    record, eighth = longest_so_far(away), len(away) // 8
    early, last = record[eighth - 1], record[-1]
    return float(np.log(last / early) / np.log(len(away) / eighth)) if early else float(last > 0)


def still_grows(away: np.ndarray) -> bool:
    """Whether an absence in the second half is longer than all in the first."""
    record = longest_so_far(away)
    return bool(record[-1] > record[len(away) // 2 - 1])
