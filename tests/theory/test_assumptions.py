"""The constants of the assumptions on masks where they are known, and the adversaries against them."""

import numpy as np
import pytest

from impatient.theory import adversary
from impatient.theory.processes import bernoulli, cyclic
from impatient.theory.staleness import growth, longest_so_far, smallest_t0, still_grows, tau

# tau = 0, 1, 2, 0, 1, 2, 3
GAPS = tau([[True], [False], [False], [True], [False], [False], [False]])
T = np.arange(2000)


def test_by_hand():
    assert smallest_t0(GAPS, b=2) == 1.0  # tau - t/2 is largest in round 2: 2 - 1
    assert smallest_t0(GAPS, b=0.5) == 0.0
    assert longest_so_far(GAPS).tolist() == [0, 1, 2, 2, 2, 2, 3]
    assert still_grows(GAPS)  # 3 in the second half, 2 in the first
    assert not still_grows(GAPS[:6])


@pytest.mark.parametrize("b", [1.5, 4.0, 50.0])
@pytest.mark.parametrize("process", [bernoulli(0.2), cyclic(2, 9)], ids=["coins", "cycle"])
def test_the_least_t0_is_tight(process, b):
    away, t = tau(process.masks(300, 5, 0)), np.arange(300)[:, None]
    t0 = smallest_t0(away, b)
    assert (away <= t0 + t / b + 1e-9).all()
    assert t0 == 0 or not (away <= t0 - 1e-6 + t / b).all()


LIMITS = {"linear": 2 + T / 5, "root": np.sqrt(T), "logarithmic": np.log1p(T), "constant": 7 + 0 * T}


@pytest.mark.parametrize("name", LIMITS)
def test_adversaries_stay_inside_and_use_what_they_may(name):
    mask, limit = adversary.greedy(LIMITS[name], start=[1, 5, 50]), LIMITS[name]
    away = tau(mask)
    assert (away <= limit[:, None] + 1e-9).all()
    for i in range(3):
        assert np.flatnonzero(~mask[:, i])[-1] > 1500
        ends = np.flatnonzero(~mask[:-1, i] & mask[1:, i])  # every absence that ended could not have gone on
        assert (away[ends, i] + 1 > limit[ends + 1]).all()


def test_linear_absences_are_a_share_of_all_time_and_break_the_other_assumption():
    for rounds in (1000, 8000):
        away = tau(adversary.greedy(np.arange(rounds) / 4, [1] * 3))
        assert smallest_t0(away, 4) == 0
        assert 0.1 < away.max() / rounds <= 0.25  # Θ(T): at most 1/b, and a block is at least (1-1/b)/b of its end
        assert still_grows(away)
        assert growth(away) == pytest.approx(1, abs=0.15)
    square = tau(adversary.greedy(np.sqrt(np.arange(8000)), [1] * 3))
    assert growth(square) == pytest.approx(0.5, abs=0.1)
    assert still_grows(square)
    assert not still_grows(tau(adversary.greedy(np.full(8000, 20), [1] * 3)))


def test_classes_disappear_in_turn():
    mask = adversary.by_label([0, 0, 3, 3, 7], 90, tau_max=10)
    assert mask[:10].tolist() == [[False, False, True, True, True]] * 10
    assert mask[10:20].tolist() == [[True, True, False, False, True]] * 10
    away = tau(mask)
    assert set(away.max(0)) == {10}
    assert away.mean() == pytest.approx(10 * 11 / 2 / 30)  # m(m+1)/2 a cycle of 3m rounds
