"""Every client gets a random share of all samples."""

import numpy as np

from impatient.checks import check
from impatient.data.partition.base import Partition, verify
from impatient.rng import stream


class Iid(Partition):
    """All n samples, shuffled and cut into N shares whose sizes differ by at most one."""

    def split(self, labels: np.ndarray, num_classes: int, num_clients: int, seed: int) -> list[np.ndarray]:
        """labels int64 [n] → N arrays of int64. Raises ConfigError if N > n."""
        check(*self.check(num_clients, num_classes, len(labels)))
        order = stream(seed, "partition").permutation(len(labels)).astype(np.int64)
        return verify(np.array_split(order, num_clients), len(labels), num_clients)
