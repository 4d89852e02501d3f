"""Masks made to hurt: as long away as an assumption lets them, or one class after the other."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from impatient.checks import ConfigError, check, integer, number

Allowed = Callable[[int], float]


def linear(t0: float, b: float) -> Allowed:
    """tau(t, i) ≤ t0 + t/b, all that linear growth allows: absences are geometric blocks and tau_max,T = Θ(T).

    A block from s on ends before t(1 - 1/b) = t0 + s - 1: some s/(b-1) rounds, and the next one is longer.
    """
    check(number("t0", t0, 0), number("b", b, 1, open_low=True))
    return lambda t: t0 + t / b


def root(t0: float = 0.0) -> Allowed:
    """tau(t, i) ≤ t0 + √t: inside assumption 4, and tau_max,T = o(T)."""
    check(number("t0", t0, 0))
    return lambda t: t0 + math.sqrt(t)


def logarithmic(t0: float = 0.0) -> Allowed:
    """tau(t, i) ≤ t0 + ln(1 + t): what coins do by themselves."""
    check(number("t0", t0, 0))
    return lambda t: t0 + math.log1p(t)


def constant(nu: int) -> Allowed:
    """tau(t, i) ≤ nu: assumption 8, and assumption 4 with b = ∞."""
    check(integer("nu", nu, 0))
    return lambda t: nu


def greedy(rounds: int, allowed: Allowed, on: Sequence[int], start: Sequence[int] | None = None) -> np.ndarray:
    """Every device stays away as long as tau(t, i) ≤ allowed(t), then is there for on_i rounds: bool [T, N].

    start_i, by default 1, rounds of presence come first: different ones put the absences out of step.
    """
    check(integer("rounds", rounds, 1), *(integer(f"on[{i}]", u, 1) for i, u in enumerate(on)))
    start = [1] * len(on) if start is None else start
    if not len(on) or len(start) != len(on):
        raise ConfigError(f"start: has {len(start)} entries for {len(on)} devices; give one for each")
    mask = np.zeros((rounds, len(on)), dtype=bool)
    limit = [allowed(t) for t in range(rounds)]
    for i, (stay, first) in enumerate(zip(on, start, strict=True)):
        left, away = first, 0
        for t in range(rounds):
            if left == 0 and away + 1 <= limit[t]:
                away += 1
                continue
            if left == 0:
                left = stay
            mask[t, i], away = True, 0
            left -= 1
    return mask


def by_label(labels: Sequence[int], rounds: int, tau_max: int) -> np.ndarray:
    """Classes disappear in turn, each for tau_max rounds, for ever: bool [T, N], for the class [N] of each device."""
    check(integer("rounds", rounds, 1), integer("tau_max", tau_max, 1))
    kinds, own = np.unique(np.asarray(labels), return_inverse=True)
    if len(kinds) < 2:
        raise ConfigError(f"labels: name {len(kinds)} class(es); two or more can take turns")
    gone = np.arange(rounds) // tau_max % len(kinds)
    return gone[:, None] != own
