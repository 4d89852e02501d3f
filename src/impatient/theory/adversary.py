"""Masks made to hurt: every device as long away as a limit lets it, or one class after the other."""

from collections.abc import Sequence

import numpy as np


def greedy(limit: np.ndarray, start: Sequence[int]) -> np.ndarray:
    """Device i is there for start_i rounds; then it stays away as long as tau(t, i) ≤ limit(t), comes for one round,
    and stays away again: bool [T, N] for limit [T]. Different starts put the absences out of step.

    With limit(t) = t0 + t/b, all that linear growth allows, absences are geometric blocks and tau_max,T = Θ(T): a block
    from s on ends before t(1 - 1/b) = t0 + s - 1, some s/(b-1) rounds, and the next one is longer.
    """
    away = np.zeros(len(start), dtype=np.int64)
    mask = np.empty((len(limit), len(start)), dtype=bool)
    for t, most in enumerate(limit):
        mask[t] = (t < np.asarray(start)) | (away + 1 > most)
        away = np.where(mask[t], 0, away + 1)
    return mask


def by_label(labels: Sequence[int], rounds: int, tau_max: int) -> np.ndarray:
    """Classes disappear in turn, each for tau_max rounds, for ever: bool [T, N], for the class [N] of each device."""
    kinds, own = np.unique(np.asarray(labels), return_inverse=True)
    gone = np.arange(rounds) // tau_max % len(kinds)
    return gone[:, None] != own
