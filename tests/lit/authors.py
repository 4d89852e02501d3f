"""The four trainers that the MIFA authors released, written anew from their formulas: numpy, float64, full batches.

Everything is theirs: the coins, the split, the learning-rate clocks, and the warm-up in which all devices, absent ones
too, train once more at w_0 in the round that completes the set, and no step is taken.
"""

from collections.abc import Callable, Sequence

import numpy as np
from reference import softmax_gradient


def coins(p: np.ndarray, rounds: int, seed: int) -> np.ndarray:
    """Masks [rounds, N]. The seed is multiplied by the round: all seeds share round 0."""
    return np.array([np.random.RandomState(t * (seed + 1)).rand(len(p)) < p for t in range(rounds)])


def split(y: np.ndarray, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Indices of 100 clients with two classes each, and these classes [100, 2]."""
    rng = np.random.RandomState(seed)
    size = (min(np.bincount(y)) - 1) // 21
    shards = [[np.flatnonzero(y == c)[k * size : (k + 1) * size] for k in range(21)] for c in range(10)]
    owned, pairs = [], []
    for _ in range(100):
        pair = rng.choice([c for c in range(10) if shards[c]], 2, replace=False)
        owned.append(np.concatenate([shards[c].pop() for c in pair]))
        pairs.append(pair)
    return owned, np.array(pairs)


class Trainers:
    """w [C, d + 1] with the bias last; xs, ys: each client's samples, with a column of ones."""

    def __init__(
        self, xs: Sequence[np.ndarray], ys: Sequence[np.ndarray], lr: float, epochs: int, weight_decay: float
    ) -> None:
        self.xs, self.ys, self.lr, self.epochs, self.weight_decay = xs, ys, lr, epochs, weight_decay
        self.n = len(xs)

    def answer(self, w: np.ndarray, i: int, eta: float) -> np.ndarray:
        """(w - w_i^K)/η."""
        local = w.copy()
        for _ in range(self.epochs):
            local -= eta * softmax_gradient(local, self.xs[i], self.ys[i], self.weight_decay)
        return (w - local) / eta

    def mifa(self, w: np.ndarray, masks: np.ndarray) -> list[np.ndarray]:
        """The model after every round; counts updates."""
        seen, table, k, path = np.zeros(self.n, dtype=bool), None, 0, []
        for mask in masks:
            eta = self.lr / (k + 1)
            seen = seen | mask
            if table is None:
                if seen.all():
                    table = np.stack([self.answer(w, i, eta) for i in range(self.n)])
            else:
                for i in np.flatnonzero(mask):
                    table[i] = self.answer(w, i, eta)
                w, k = w - eta * table.mean(0), k + 1
            path.append(w)
        return path

    def mifa_no_wait(self, w: np.ndarray, masks: np.ndarray) -> list[np.ndarray]:
        """Entries start at zero."""
        table, path = np.zeros((self.n, *w.shape)), []
        for k, mask in enumerate(masks):
            eta = self.lr / (k + 1)
            for i in np.flatnonzero(mask):
                table[i] = self.answer(w, i, eta)
            w = w - eta * table.mean(0)
            path.append(w)
        return path

    def biased(self, w: np.ndarray, masks: np.ndarray) -> list[np.ndarray]:
        """Mean over those that are there; counts rounds; nobody there is 0/0."""
        path = []
        for t, mask in enumerate(masks):
            eta = self.lr / (t + 1)
            with np.errstate(invalid="ignore"):
                w = w - eta * sum((self.answer(w, i, eta) for i in np.flatnonzero(mask)), np.zeros_like(w)) / mask.sum()
            path.append(w)
        return path

    def importance(self, w: np.ndarray, masks: np.ndarray, p: np.ndarray) -> list[np.ndarray]:
        """1/(N·p_i); counts rounds."""
        path = []
        for t, mask in enumerate(masks):
            eta = self.lr / (t + 1)
            w = w - eta * sum((self.answer(w, i, eta) / p[i] for i in np.flatnonzero(mask)), np.zeros_like(w)) / self.n
            path.append(w)
        return path

    def sampling(self, w: np.ndarray, masks: np.ndarray, cohort: Callable[[int], np.ndarray]) -> list[np.ndarray]:
        """Waits until all of cohort(k) were seen; then all of them train at once; counts updates."""
        seen, k, path = np.zeros(self.n, dtype=bool), 0, []
        for mask in masks:
            eta, wanted = self.lr / (k + 1), cohort(k)
            seen = seen | mask
            if seen[wanted].all():
                w = w - eta * np.mean([self.answer(w, i, eta) for i in wanted], axis=0)
                k, seen = k + 1, np.zeros(self.n, dtype=bool)
            path.append(w)
        return path
