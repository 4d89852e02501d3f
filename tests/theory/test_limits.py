"""Limit variances: numbers by hand and the relations between them. tests/theory/test_studies.py measures them."""

from itertools import product

import numpy as np
import pytest

from impatient.theory import limits
from impatient.theory.paper import paper_availability
from impatient.theory.processes import tau_bar
from impatient.theory.staleness import tau
from impatient.theory.waiting import expected_waits

RISING = np.linspace(0.1, 1, 10)


def mifa(p, noise) -> float:
    return limits.mifa_limit(tau_bar(p), len(p), noise)


def test_numbers_worked_out_elsewhere():
    # N = 10, σ = 1: (σ²/N)(2 - p)/p at p = .5 is .3; for p = .1 … 1, Σ (2/p - 1)/100 = (2·29.2897 - 10)/100 = .486.
    assert mifa([0.5] * 10, 1) == pytest.approx(0.3)
    assert mifa(RISING, 1) == pytest.approx(0.486, abs=5e-4)
    # Importance sampling with u evenly on [-3, 3]: mean D = 9·11/27, so (1 + .5·11/3)/(.5·10) = .567; rising p: 1.420.
    gap = np.linspace(-3, 3, 10) ** 2
    assert limits.is_limit([0.5] * 10, 1, gap) == pytest.approx(0.567, abs=5e-4)
    assert limits.is_limit(RISING, 1, gap) == pytest.approx(1.420, abs=5e-4)


def test_the_constant_lies_between_one_and_two():
    for p in ([0.01] * 5, RISING, paper_availability("mnist", 0.1)):
        assert 1 <= mifa(p, 2) / limits.mifa_leading(tau_bar(p), len(p), 2) < 2
    assert mifa([1.0] * 4, 3) == limits.mifa_leading(0, 4, 3) == 3 / 4  # everybody always there: σ²/N


def test_the_case_study_of_the_paper():
    # E[max Geom]/mean(1/p): 35.301/4.347 and 17.379/2.853.
    for pmin, ratio in ((0.1, 8.12), (0.2, 6.09)):
        p = paper_availability("mnist", pmin)
        leading = limits.mifa_leading(tau_bar(p), 100, 1)
        assert limits.sampling_leading(p, 1, 100) / leading == pytest.approx(ratio, abs=0.005)


def test_memory_wins_where_heterogeneity_exceeds_noise():
    for p, noise in product((RISING, [0.3] * 10), (0.5, 3.0, 30.0)):
        for gap in (np.zeros(10), np.linspace(0, 9, 10), np.linspace(9, 0, 10)):
            wins = ((1 - np.array(p)) / p * (gap - noise)).sum() > 0
            assert (mifa(p, noise) < limits.is_limit(p, noise, gap)) == wins


def test_any_mask_has_the_same_law():
    # (2 - p)/p = 2(1 - p)/p + 1; a cycle of 2 on and 6 off: L = 1 and 7, so E L²/E L = 50/8.
    assert mifa([0.2] * 4, 1) == pytest.approx((2 - 0.2) / 0.2 / 4)
    cycle = [[True], [True], *[[False]] * 6]
    assert limits.mifa_limit(tau(cycle).mean(), 1, 1) == pytest.approx(50 / 8)


def test_sampling_all_is_full_participation_slowed_down():
    p = paper_availability("mnist", 0.2)
    assert limits.sampling_limit(p, 2.0, np.full(100, 5.0), 100) == pytest.approx(expected_waits(p)[-1] * 2.0 / 100)


def test_the_variance_of_a_draw_without_replacement():
    # S = 2 of 3, D = u² for u = -1, 0, 1: the three pair means are -1/2, 0, 1/2, so their variance is 1/6.
    assert limits.sampling_limit([1.0] * 3, 0.0, np.array([1, 0, 1]), 2) == pytest.approx(1 / 6)


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
