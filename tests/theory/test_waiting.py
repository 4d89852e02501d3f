"""Waiting times: the table of the paper's splits, small cases in full, bounds, and simulation."""

from itertools import combinations

import numpy as np
import pytest

from impatient.checks import ConfigError
from impatient.theory.paper import paper_availability
from impatient.theory.waiting import (
    bounds,
    cohort_wait,
    equal_bounds,
    expected_wait,
    expected_waits,
    simulate,
)

# E[W_S] of the authors' splits, worked out once with exact splits (RandomState 16 and 7) and an O(NS) recursion.
GOLDEN = {
    ("mnist", 0.1): (15.798, 22.971, 28.997, 35.301),
    ("mnist", 0.2): (8.589, 11.848, 14.546, 17.379),
    ("cifar10", 0.1): (15.918, 23.070, 29.061, 35.336),
    ("cifar10", 0.2): (8.654, 11.932, 14.627, 17.448),
}
MEAN_INVERSE = {("mnist", 0.1): 4.3469, ("mnist", 0.2): 2.8527, ("cifar10", 0.1): 4.3582, ("cifar10", 0.2): 2.8456}


@pytest.mark.parametrize(("split", "pmin"), GOLDEN)
def test_the_papers_splits(split, pmin):
    p = paper_availability(split, pmin)
    waits = expected_waits(p)
    assert tuple(np.round(waits[[9, 24, 49, 99]], 3)) == GOLDEN[split, pmin]
    assert (1 / p).mean() == pytest.approx(MEAN_INVERSE[split, pmin], abs=5e-5)
    assert waits[0] == pytest.approx((1 / p).mean(), rel=1e-10)  # a cohort of one: the mean of 1/p_i
    assert waits[-1] == pytest.approx(expected_wait(p), rel=1e-12)  # all of them: one set
    assert (np.diff(waits) > 0).all()


@pytest.mark.parametrize("split", ["mnist", "cifar10"])
def test_the_papers_p_is_its_formula(split):
    # Clients by smaller label, as the authors' generator deals them (tests/data/test_partition.py).
    histogram = {"mnist": [21, 15, 16, 18, 12, 9, 7, 1, 1, 0], "cifar10": [21, 18, 15, 13, 9, 10, 8, 4, 2, 0]}[split]
    expected = np.repeat(0.1 + 0.9 * np.arange(10) / 9, histogram)
    np.testing.assert_allclose(np.sort(paper_availability(split, 0.1)), expected)


def test_two_devices_by_hand():
    # max = X + Y - min, min ~ Geom(1 - (1-p)(1-q)): 1/p + 1/q - 1/(p + q - pq).
    assert expected_wait([0.5, 0.2]) == pytest.approx(2 + 5 - 1 / 0.6, rel=1e-12)
    assert expected_wait([1.0, 1.0]) == 1


def test_the_mean_over_subsets_in_full():
    p = np.array([0.1, 0.9, 0.4, 0.4, 1.0, 0.25])
    for size in range(1, 7):
        each = [expected_wait(p[list(some)]) for some in combinations(range(6), size)]
        assert cohort_wait(p, size) == pytest.approx(np.mean(each), rel=1e-11)


def test_nothing_overflows_for_many_devices():
    waits = expected_waits(np.full(1000, 0.5))  # C(1000, 500) is 1e299; with equal p the mean over sets is one set's
    for size in (1, 500, 1000):
        low, high = equal_bounds(0.5, size)
        assert low <= waits[size - 1] <= high
        assert waits[size - 1] == pytest.approx(expected_wait(np.full(size, 0.5)), rel=1e-9)


@pytest.mark.parametrize("p", [[0.1], [0.3, 0.3, 0.3], [0.01, 1.0, 0.5], [1.0]])
def test_bounds_hold(p):
    low, high = bounds(p)
    assert low - 1e-9 <= expected_wait(p) <= high + 1e-9


@pytest.mark.parametrize("size", [1, 10, 50])
def test_simulated_waits(size):
    p = paper_availability("mnist", 0.1)
    drawn = simulate(p, size, 8000, seed=1)
    assert abs(drawn.mean() - cohort_wait(p, size)) < 4 * drawn.std() / np.sqrt(8000)


def test_rare_devices_cost_no_precision():
    assert expected_wait([1e-4]) == pytest.approx(1e4, rel=1e-9)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: expected_wait([0.5, 0.0]), "never comes"),
        (lambda: cohort_wait([0.5, 0.5], 3), "cohort_size=3: more than there are, N=2"),
        (lambda: cohort_wait([0.5, 0.5], 0), "cohort_size=0"),
        (lambda: simulate([0.5], 2, 10, 0), "cohort_size=2"),
        (lambda: simulate([0.5], 1, 0, 0), "repeats=0"),
        (lambda: paper_availability("svhn", 0.1), "mnist, cifar10"),
        (lambda: paper_availability("mnist", 1.5), "pmin=1.5"),
        (lambda: expected_waits([]), "shape"),
    ],
)
def test_bad_input(call, said):
    with pytest.raises(ConfigError, match=said):
        call()
