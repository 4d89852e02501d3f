"""The MIFA authors' split: every client has the same number of samples, of the same number of classes."""

import numpy as np

from impatient.checks import ConfigError, check, integer
from impatient.data.partition.base import Partition, needs_classes, verify

MAX_TRIES = 100


class TwoClass(Partition):
    """k classes a client, one equal shard of each (Gu et al., "Fast Federated Learning in the Presence of Arbitrary
    Device Unavailability", NeurIPS 2021, section 7, as the authors' code does it with k = 2).

    Every class is cut, in data-set order and one short of the smallest class, into S = ceil(N·k/C) + 1 equal
    shards; clients 0, 1, … draw k distinct classes uniformly among those with shards left, and take the last
    shard of each, in drawn order. The + 1 keeps the draw from getting stuck; if it does, it starts afresh.

    The seed goes straight into numpy's RandomState: 16 gives the authors' MNIST split, 7 their CIFAR-10 split.
    """

    def __init__(self, classes_per_client: int = 2) -> None:
        check(integer("classes_per_client", classes_per_client, 1))
        self.classes_per_client = classes_per_client

    def check(self, num_clients: int, num_classes: int | None, num_train: int | None) -> list[str]:
        """Too few classes, or too few samples even if all classes were equally large."""
        k = self.classes_per_client
        if num_classes is None:
            return super().check(num_clients, None, num_train)
        if num_classes == 0:
            return needs_classes("two_class", 0)
        if k > num_classes:
            return [f"classes_per_client={k}: the data has {num_classes} classes; use at most {num_classes}"]
        if num_train is None:
            return []
        return self._too_small(num_clients, num_classes, num_train // num_classes, f"{num_train} training samples")

    def split(self, labels: np.ndarray, num_classes: int, num_clients: int, seed: int) -> list[np.ndarray]:
        """labels int64 [n] → N arrays of int64 [k·(min class count - 1) // S].

        Raises ConfigError for too few classes or samples, or a seed that RandomState does not take.
        """
        faults = self.check(num_clients, num_classes, None)
        if not 0 <= seed < 2**32:
            faults.append(f"seed={seed}: two_class draws from numpy's RandomState; use a partition seed in [0, 2**32)")
        check(*faults)
        smallest = int(np.bincount(labels, minlength=num_classes).min())
        check(*self._too_small(num_clients, num_classes, smallest, f"{smallest} samples in the smallest class"))
        per_class = shards_per_class(num_clients, self.classes_per_client, num_classes)
        size = (smallest - 1) // per_class
        shards = [np.flatnonzero(labels == c)[: per_class * size].reshape(per_class, size) for c in range(num_classes)]
        picks = draw(num_clients, self.classes_per_client, num_classes, per_class, np.random.RandomState(seed))
        return verify([np.concatenate([shards[c][s] for c, s in own]) for own in picks], len(labels), num_clients)

    def _too_small(self, num_clients: int, num_classes: int, smallest: int, have: str) -> list[str]:
        per_class = shards_per_class(num_clients, self.classes_per_client, num_classes)
        if smallest - 1 >= per_class:
            return []
        most = max(0, smallest - 2) * num_classes // self.classes_per_client
        way_out = f"use at most {most} clients" if most else "use a larger data set"
        return [f"num_clients={num_clients}: needs {per_class + 1} samples of every class, there are {have}; {way_out}"]


def shards_per_class(num_clients: int, classes_per_client: int, num_classes: int) -> int:
    """S = ceil(N·k/C) + 1: 21 for the paper's N = 100, k = 2, C = 10."""
    return -(-num_clients * classes_per_client // num_classes) + 1


def draw(
    num_clients: int, classes_per_client: int, num_classes: int, per_class: int, rng: np.random.RandomState
) -> list[list[tuple[int, int]]]:
    """The (class, shard) pairs of each client, in drawn order. Raises ConfigError if MAX_TRIES draws get stuck."""
    for _ in range(MAX_TRIES):
        left = np.full(num_classes, per_class)
        picks: list[list[tuple[int, int]]] = []
        while len(picks) < num_clients:
            open_classes = np.flatnonzero(left)
            if len(open_classes) < classes_per_client:
                break
            drawn = rng.choice(open_classes, classes_per_client, replace=False)
            left[drawn] -= 1
            picks.append([(int(c), int(left[c])) for c in drawn])
        else:
            return picks
    raise ConfigError(
        f"classes_per_client={classes_per_client}: {MAX_TRIES} draws for {num_clients} clients left too few classes "
        "at the end; use another partition seed or number of clients"
    )
