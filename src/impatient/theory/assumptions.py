"""Whether a mask is one that the MIFA paper's theorems speak of.

Strongly convex (assumption 4): absences may grow with time, at most linearly; here tau(t, i) ≤ t0 + t/b, which is our
way of writing it. Convergence also needs tau_max,T = o(T) and t0 = o(T). Non-convex (assumption 8): every device has a
bound nu_i on its inactivity, whatever T. A finite mask always has one; what can be told is whether the longest absence
still grows.
"""

from dataclasses import dataclass

import numpy as np

from impatient.checks import ConfigError, check, number
from impatient.theory.staleness import as_mask, tau


def smallest_t0(mask: object, b: float) -> float:
    """The least t0 ≥ 0 with tau(t, i) ≤ t0 + t/b everywhere."""
    check(number("b", b, 0, open_low=True))
    worst = tau(mask).max(1)
    return float(max(0.0, (worst - np.arange(len(worst)) / b).max()))


def largest_b(mask: object, t0: float) -> float:
    """The largest b with tau(t, i) ≤ t0 + t/b everywhere: inf if tau ≤ t0, 0 if no b will do (tau(0, i) > t0)."""
    check(number("t0", t0, 0))
    worst = tau(mask).max(1)
    over = np.flatnonzero(worst > t0)
    return float((over / (worst[over] - t0)).min()) if len(over) else float("inf")


def within(mask: object, t0: float, b: float) -> bool:
    """Whether assumption 4 holds with these constants, b = inf for a bound that does not grow."""
    return smallest_t0(mask, b) <= t0 if b < float("inf") else int(tau(mask).max()) <= t0


def bounds_of(mask: object) -> np.ndarray:
    """nu [N]: the least bounds on the inactivity of each device with which assumption 8 holds in these rounds."""
    return tau(mask).max(0)


def bounded(mask: object, nu: object) -> bool:
    """Whether assumption 8 holds with bounds nu, [N] or one number."""
    longest, given = bounds_of(mask), np.asarray(nu)
    if given.ndim and given.shape != longest.shape:
        raise ConfigError(f"nu: has {given.size} entries for {len(longest)} devices; give one for each, or one number")
    return bool((longest <= given).all())


@dataclass(frozen=True)
class Verdict:
    """What a mask looks like, T rounds long.

    t0: the least for the b asked for (`largest_b` answers the converse);
    tau_bar, tau_max, nu_bar: its statistics; share: tau_max,T/T; growth: the exponent e in tau_max,t ~ t^e, between the
    first eighth and the whole; bounded: whether no absence in the second half is longer than all in the first.
    """

    t0: float
    tau_bar: float
    tau_max: int
    nu_bar: float
    share: float
    growth: float
    bounded: bool


def verdict(mask: object, b: float) -> Verdict:
    """Check a mask [T, N], T ≥ 8, against both assumptions. Raises ConfigError for fewer rounds."""
    there = as_mask(mask)
    rounds = len(there)
    if rounds < 8:
        raise ConfigError(f"mask: has {rounds} rounds; growth shows from 8 on")
    table = tau(there)
    record = np.maximum.accumulate(table.max(1))
    early, half, last = record[rounds // 8 - 1], record[rounds // 2 - 1], record[-1]
    growth = float(np.log(last / early) / np.log(rounds / (rounds // 8))) if early else float(last > 0)
    return Verdict(
        t0=smallest_t0(there, b),
        tau_bar=float(table.mean()),
        tau_max=int(last),
        nu_bar=float(table.max(0).mean()),
        share=float(last / rounds),
        growth=growth,
        bounded=bool(last == half),
    )
