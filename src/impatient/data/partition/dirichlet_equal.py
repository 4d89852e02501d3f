"""Label skew of adjustable strength, everybody with as many samples."""

import numpy as np

from impatient.checks import check, number
from impatient.data.partition.base import Partition, needs_classes, too_many_clients, verify
from impatient.rng import stream


class DirichletEqual(Partition):
    """Client i draws labels one by one from q_i ~ Dir(alpha·1_C) until it has ⌊n/N⌋ samples, and takes the next unused
    sample of each, in the data's order. A class that is used up is left out for all from then on.

    Where all classes of a client are used up, it draws from what is left, in proportion. Source: the generator that the
    MIFA authors released (alpha 0.1, n = 50,000, N = 100); Gu et al., NeurIPS 2021.
    """

    def __init__(self, alpha: float = 0.1) -> None:
        check(number("alpha", alpha, 0, open_low=True))
        self.alpha = alpha

    def check(self, num_clients: int, num_classes: int | None, num_train: int | None) -> list[str]:
        """No classes, or more clients than samples."""
        return needs_classes("dirichlet_equal", num_classes) + too_many_clients(num_clients, num_train)

    def split(self, labels: np.ndarray, num_classes: int, num_clients: int, seed: int) -> list[np.ndarray]:
        """labels int64 [n] → N arrays of ⌊n/N⌋ indices, int64."""
        check(*self.check(num_clients, num_classes, len(labels)))
        rng = stream(seed, "partition")
        left = [list(np.flatnonzero(labels == c)[::-1]) for c in range(num_classes)]
        owned = []
        for share in rng.dirichlet(np.full(num_classes, self.alpha), num_clients):
            own: list[int] = []
            chance = None
            for coin in rng.random(len(labels) // num_clients):
                if chance is None:  # at first, and when a class has just been used up
                    chance = np.cumsum(np.where([bool(pile) for pile in left], share, 0))
                    if not 0 < chance[-1] < np.inf:
                        chance = np.cumsum([len(pile) for pile in left])
                label = int(np.searchsorted(chance, coin * chance[-1], side="right"))
                own.append(left[label].pop())
                if not left[label]:
                    chance = None
            owned.append(np.array(own, dtype=np.int64))
        return verify(owned, len(labels), num_clients)
