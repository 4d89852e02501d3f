"""The availability of the devices in the MIFA paper's experiments."""

import numpy as np
import torch

from impatient.availability.label_bernoulli import LabelBernoulli
from impatient.checks import check, one_of
from impatient.data.partition.two_class import draw, shards_per_class
from impatient.messages import Population

SPLITS = {"mnist": 16, "cifar10": 7}
"""The authors' seed of each split."""


def paper_availability(split: str, pmin: float) -> np.ndarray:
    """p_i = p_min + (1 - p_min)·min(j, k)/9, float64 [100], for the classes j, k of each device of the authors' split.

    Raises ConfigError for a split that there is none of, or p_min outside (0, 1].
    """
    check(one_of("split", split, list(SPLITS)))
    picks = draw(100, 2, 10, shards_per_class(100, 2, 10), np.random.RandomState(SPLITS[split]))
    counts = torch.zeros(100, 10, dtype=torch.int64)
    for row, pair in zip(counts, picks, strict=True):
        row[[c for c, _ in pair]] = 1
    process = LabelBernoulli(pmin)
    process.setup(Population(counts, counts.sum(1)), 0)
    return process.p.numpy()


WAITS = {
    ("mnist", 0.1): {10: 15.798, 25: 22.971, 50: 28.997, 100: 35.301},
    ("mnist", 0.2): {10: 8.589, 25: 11.848, 50: 14.546, 100: 17.379},
    ("cifar10", 0.1): {10: 15.918, 25: 23.070, 50: 29.061, 100: 35.336},
    ("cifar10", 0.2): {10: 8.654, 25: 11.932, 50: 14.627, 100: 17.448},
}
"""E[W_S] of these splits by (split, p_min) and S, as worked out once by other code: what `waiting` is held to."""
