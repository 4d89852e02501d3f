"""Label skew of adjustable strength."""

import math

import numpy as np

from impatient.checks import ConfigError, check, integer, number
from impatient.data.partition.base import Partition, needs_classes, too_many_clients, verify
from impatient.rng import stream


class Dirichlet(Partition):
    """Each class is dealt out by shares q ~ Dir(alpha·1_N), as NIID-Bench does it (Li et al., "Federated Learning on
    Non-IID Data Silos", ICDE 2022): a client that already holds n/N samples gets none of the classes that follow.

    All samples are used once; sizes differ. The draw is repeated, at most max_tries times, until every client
    has min_samples. Small alpha: few classes a client; large alpha: close to iid.
    """

    def __init__(self, alpha: float = 0.3, min_samples: int = 1, max_tries: int = 100) -> None:
        check(
            number("alpha", alpha, 0, open_low=True),
            integer("min_samples", min_samples, 1),
            integer("max_tries", max_tries, 1),
        )
        self.alpha, self.min_samples, self.max_tries = alpha, min_samples, max_tries

    def check(self, num_clients: int, num_classes: int | None, num_train: int | None) -> list[str]:
        """No classes, or fewer than N·min_samples samples."""
        return needs_classes("dirichlet", num_classes) + too_many_clients(num_clients, num_train, self.min_samples)

    def split(self, labels: np.ndarray, num_classes: int, num_clients: int, seed: int) -> list[np.ndarray]:
        """labels int64 [n] → N arrays of int64, each ordered by class.

        Raises ConfigError if no draw gives every client min_samples.
        """
        check(*self.check(num_clients, num_classes, len(labels)))
        for attempt in range(self.max_tries):
            rng = stream(seed, "partition", attempt)
            counts = self._counts(np.bincount(labels, minlength=num_classes), num_clients, rng)
            if counts.sum(0).min() >= self.min_samples:
                return verify(_deal(labels, counts, rng), len(labels), num_clients)
        raise ConfigError(
            f"alpha={self.alpha}: in {self.max_tries} draws some of {num_clients} clients always had fewer than "
            f"min_samples={self.min_samples} of {len(labels)} samples; use a larger alpha, fewer clients or a smaller "
            "min_samples"
        )

    def _counts(self, class_sizes: np.ndarray, num_clients: int, rng: np.random.Generator) -> np.ndarray:
        counts = np.zeros((len(class_sizes), num_clients), dtype=np.int64)
        full = class_sizes.sum() / num_clients
        held = np.zeros(num_clients, dtype=np.int64)
        for row, size in zip(counts, class_sizes, strict=True):
            room = held < full
            share = np.where(room, rng.dirichlet(np.full(num_clients, self.alpha)), 0)
            total = float(share.sum())
            share = share / total if math.isfinite(total) and total > 0 else room / max(1, room.sum())
            cuts = np.rint(np.cumsum(share) * size).astype(np.int64)
            cuts[-1] = size
            row[:] = np.diff(cuts, prepend=0)
            held += row
        return counts


def _deal(labels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """counts [C, N] → N arrays of indices: each class is shuffled, then cut."""
    pieces = [
        np.split(rng.permutation(np.flatnonzero(labels == c)), np.cumsum(row)[:-1]) for c, row in enumerate(counts)
    ]
    return [np.concatenate(own).astype(np.int64) for own in zip(*pieces, strict=True)]
