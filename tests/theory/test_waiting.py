"""Waiting times: the table of the paper's splits, small cases in full, bounds, and simulation."""

from itertools import combinations

import numpy as np
import pytest

from impatient.checks import ConfigError
from impatient.theory.paper import WAITS, paper_availability
from impatient.theory.waiting import expected_waits, simulated_waits

MEAN_INVERSE = {("mnist", 0.1): 4.3469, ("mnist", 0.2): 2.8527, ("cifar10", 0.1): 4.3582, ("cifar10", 0.2): 2.8456}


def wait(p: np.ndarray) -> float:
    """E[max Geom(p_i)] by inclusion and exclusion: the least of a set J is Geom(1 - Π_J q_i)."""
    sets = (J for size in range(1, len(p) + 1) for J in combinations(1 - p, size))
    return sum((-1) ** (len(J) + 1) / (1 - np.prod(J)) for J in sets)


@pytest.mark.parametrize(("split", "pmin"), WAITS)
def test_the_papers_splits(split, pmin):
    p = paper_availability(split, pmin)
    waits = expected_waits(p)
    assert {size: round(waits[size - 1], 3) for size in (10, 25, 50, 100)} == WAITS[split, pmin]
    assert (1 / p).mean() == pytest.approx(MEAN_INVERSE[split, pmin], abs=5e-5)
    assert waits[0] == pytest.approx((1 / p).mean(), rel=1e-10)  # a cohort of one: the mean of 1/p_i
    assert (np.diff(waits) > 0).all()


@pytest.mark.parametrize("split", ["mnist", "cifar10"])
def test_the_papers_p_is_its_formula(split):
    # Clients by smaller label, as the authors' generator deals them (tests/data/test_partition.py).
    histogram = {"mnist": [21, 15, 16, 18, 12, 9, 7, 1, 1, 0], "cifar10": [21, 18, 15, 13, 9, 10, 8, 4, 2, 0]}[split]
    expected = np.repeat(0.1 + 0.9 * np.arange(10) / 9, histogram)
    np.testing.assert_allclose(np.sort(paper_availability(split, 0.1)), expected)


def test_two_devices_by_hand():
    # max = X + Y - min, min ~ Geom(1 - (1-p)(1-q)): 1/p + 1/q - 1/(p + q - pq).
    assert expected_waits([0.5, 0.2])[1] == pytest.approx(2 + 5 - 1 / 0.6, rel=1e-12)
    assert expected_waits([1.0, 1.0]).tolist() == [1, 1]


def test_the_mean_over_subsets_in_full():
    p = np.array([0.1, 0.9, 0.4, 0.4, 1.0, 0.25])
    each = [np.mean([wait(p[list(some)]) for some in combinations(range(6), size)]) for size in range(1, 7)]
    np.testing.assert_allclose(expected_waits(p), each, rtol=1e-11)


def test_nothing_overflows_for_many_devices():
    # C(1000, 500) is 1e299. With equal p: H_S/(-ln(1-p)) ≤ E[W] ≤ 1 + H_S/(-ln(1-p)), H_S = 1 + 1/2 + … + 1/S.
    low = (1 / np.arange(1, 1001)).cumsum() / np.log(2)
    waits = expected_waits(np.full(1000, 0.5))
    assert (low <= waits).all()
    assert (waits <= 1 + low).all()


@pytest.mark.parametrize("p", [[0.1], [0.3, 0.3, 0.3], [0.01, 1.0, 0.5], [1.0]])
def test_bounds_hold(p):
    inverse = 1 / np.array(p)
    assert inverse.max() - 1e-9 <= expected_waits(p)[-1] <= inverse.sum() + 1e-9


@pytest.mark.parametrize("size", [1, 10, 50])
def test_simulated_waits(size):
    p = paper_availability("mnist", 0.1)
    drawn = simulated_waits(p, size, 8000, seed=1)
    assert abs(drawn.mean() - expected_waits(p)[size - 1]) < 4 * drawn.std() / np.sqrt(8000)


def test_rare_devices_cost_no_precision():
    assert expected_waits([1e-4])[0] == pytest.approx(1e4, rel=1e-9)


def test_a_device_that_never_comes():
    with pytest.raises(ConfigError, match=r"each in \(0, 1\]"):
        expected_waits([0.5, 0.0])
