"""Limit variances: numbers by hand and the relations between them. tests/theory/test_studies.py measures them."""

from itertools import product

import numpy as np
import pytest

from impatient.checks import ConfigError
from impatient.theory import limits
from impatient.theory.paper import paper_availability
from impatient.theory.staleness import staleness
from impatient.theory.waiting import cohort_wait

RISING = np.linspace(0.1, 1, 10)


def test_numbers_worked_out_elsewhere():
    # N = 10, σ = 1: (σ²/N)(2 - p)/p at p = .5 is .3; for p = .1 … 1, Σ (2/p - 1)/100 = (2·29.2897 - 10)/100 = .486.
    assert limits.mifa_limit([0.5] * 10, 1) == pytest.approx(0.3)
    assert limits.mifa_limit(RISING, 1) == pytest.approx(0.486, abs=5e-4)
    # Importance sampling with u evenly on [-3, 3]: mean D = 9·11/27, so (1 + .5·11/3)/(.5·10) = .567; rising p: 1.420.
    gap = np.linspace(-3, 3, 10) ** 2
    assert limits.is_limit([0.5] * 10, 1, gap) == pytest.approx(0.567, abs=5e-4)
    assert limits.is_limit(RISING, 1, gap) == pytest.approx(1.420, abs=5e-4)


def test_the_constant_lies_between_one_and_two():
    for p in ([0.01] * 5, RISING, paper_availability("mnist", 0.1)):
        assert 1 <= limits.mifa_limit(p, 2) / limits.mifa_leading(p, 2) < 2
    assert limits.mifa_limit([1.0] * 4, 3) == limits.mifa_leading([1.0] * 4, 3) == limits.full_limit(4, 3)


def test_the_case_study_of_the_paper():
    # E[max Geom]/mean(1/p): 35.301/4.347 and 17.379/2.853.
    for pmin, ratio in ((0.1, 8.12), (0.2, 6.09)):
        p = paper_availability("mnist", pmin)
        assert limits.sampling_leading(p, 1, 100) / limits.mifa_leading(p, 1) == pytest.approx(ratio, abs=0.005)


def test_memory_wins_exactly_when_its_limit_is_lower():
    for p, noise in product((RISING, [0.3] * 10), (0.5, 3.0, 30.0)):
        for gap in (np.zeros(10), np.linspace(0, 9, 10), np.linspace(9, 0, 10)):
            lower = limits.mifa_limit(p, noise) < limits.is_limit(p, noise, gap)
            assert limits.memory_wins(p, noise, gap) == lower


def test_any_mask_has_the_same_law():
    # (2 - p)/p = 2(1 - p)/p + 1; a cycle of 2 on and 6 off: L = 1 and 7, so E L²/E L = 50/8.
    assert limits.mifa_limit([0.2] * 4, 1) == pytest.approx((2 * (0.8 / 0.2) + 1) / 4)
    cycle = [[True], [True], *[[False]] * 6]
    assert limits.mifa_limit_of(staleness(cycle), 1) == pytest.approx(50 / 8)


def test_sampling_all_is_full_participation_slowed_down():
    p = paper_availability("mnist", 0.2)
    assert limits.sampling_limit(p, 2.0, 5.0, 100) == pytest.approx(cohort_wait(p, 100) * limits.full_limit(100, 2.0))


def test_the_variance_of_a_draw_without_replacement():
    # S = 2 of 3, D = u² for u = -1, 0, 1: the three pair means are -1/2, 0, 1/2, so their variance is 1/6.
    assert limits.sampling_limit([1.0] * 3, 0.0, [1, 0, 1], 2) == pytest.approx(1 / 6)


def test_biased_weights_in_full():
    p = np.array([0.1, 0.5, 0.9, 0.3])
    q = np.zeros(4)
    for bits in product([False, True], repeat=4):
        there = np.array(bits)
        if there.any():
            q += np.where(there, p, 1 - p).prod() * there / there.sum()
    np.testing.assert_allclose(limits.biased_weights(p), q / q.sum(), rtol=1e-12)
    # Two devices: q_2 ∝ p2(1-p1) + p1 p2/2 (FedAWE, NeurIPS 2024, example 1).
    assert limits.biased_weights([0.5, 0.2])[1] == pytest.approx((0.2 * 0.5 + 0.05) / 0.6)


def test_rounds_to():
    assert limits.rounds_to(0.01, 0.3) == pytest.approx(30)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: limits.mifa_limit([0.0], 1), "never comes"),
        (lambda: limits.mifa_limit([0.5], -1), "noise=-1"),
        (lambda: limits.is_limit([0.5], 1, -2), "gap=-2"),
        (lambda: limits.sampling_limit([0.5], 1, 0, 2), "cohort_size=2"),
        (lambda: limits.rounds_to(0, 1), "eps=0"),
        (lambda: limits.biased_weights([]), "shape"),
    ],
)
def test_bad_input(call, said):
    with pytest.raises(ConfigError, match=said):
        call()
