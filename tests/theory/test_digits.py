"""The exact objective is what the product's clients descend."""

import numpy as np
import pytest
import torch

from impatient.aggregators.mifa import MIFA
from impatient.checks import ConfigError
from impatient.theory.digits import DigitsTask
from impatient.theory.simulate import play


@pytest.mark.parametrize("hidden", [0, 3])
def test_one_full_batch_round_is_a_gradient_step(hidden):
    task = DigitsTask.make(6, decay=0.1, hidden=hidden, seed=1)
    start = task.start + 0.1 * torch.arange(len(task.start)).cos()  # away from 0, where weight decay shows
    federation = task.federation(batch=10_000, steps=1, seed=0)
    (played,) = play(MIFA(), federation, [np.ones(6, dtype=bool)], start, lambda k: 0.01)
    torch.testing.assert_close(played[0], start - 0.01 * task.objective(start)[1], rtol=1e-9, atol=1e-12)


def test_the_gradient_is_that_of_the_value():
    task = DigitsTask.make(6, decay=0.1, hidden=3)
    way = torch.ones_like(task.start).cumsum(0).sin()
    value, grad = task.objective(task.start)
    ahead = task.objective(task.start + 1e-6 * way)[0]
    assert (ahead - value) / 1e-6 == pytest.approx(float(grad @ way), rel=1e-4)


def test_weights_share_out_the_objective():
    task = DigitsTask.make(6, decay=0.1)
    w = task.start + 0.1
    each = [task.objective(w, np.eye(6)[i])[0] for i in range(6)]  # the L2 term is in each of them, whole
    assert task.objective(w)[0] == pytest.approx(np.mean(each))
    share = np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    assert task.objective(w, share)[0] == pytest.approx(share @ each)


def test_nothing_is_below_the_optimum():
    task = DigitsTask.make(6, decay=0.5)
    best = task.optimum()
    value, grad = task.objective(best)
    assert grad.abs().max() < 1e-6
    # Strongly convex with μ = decay: f(w) - f* ≥ μ/2·‖w - w*‖².
    for scale in (1e-2, 1.0):
        w = best + scale * torch.ones_like(best).cumsum(0).cos()
        assert task.objective(w)[0] - value >= 0.25 * float((w - best).square().sum()) * (1 - 1e-6)


def test_devices_with_small_labels_are_rare():
    task = DigitsTask.make(10, decay=0.1)
    smallest = [int(np.flatnonzero(row)[0]) for row in task.owners.labels]
    np.testing.assert_allclose(task.availability(0.1), 0.1 + 0.9 * np.array(smallest) / 9)


def test_more_devices_than_samples():
    with pytest.raises(ConfigError, match="5000"):
        DigitsTask.make(5000, 0.1)
