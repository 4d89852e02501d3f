"""The checker on masks whose constants are known, and the adversaries against the checker."""

import numpy as np
import pytest

from impatient.checks import ConfigError
from impatient.theory import adversary
from impatient.theory.assumptions import bounded, bounds_of, largest_b, smallest_t0, verdict, within
from impatient.theory.processes import Bernoulli, Cyclic
from impatient.theory.staleness import staleness, tau

# tau = 0, 1, 2, 0, 1, 2, 3
GAPS = [[True], [False], [False], [True], [False], [False], [False]]


def test_by_hand():
    assert smallest_t0(GAPS, b=2) == 1.0  # tau - t/2 is largest in round 2: 2 - 1
    assert largest_b(GAPS, t0=1) == 2.0  # over t0 in rounds 2, 5, 6: 2/1, 5/1, 6/2
    assert largest_b(GAPS, t0=3) == float("inf")
    assert largest_b([[False], [True]], t0=0.5) == 0  # tau(0) = 1 > t0: no b helps
    assert (bounds_of(GAPS).tolist(), bounded(GAPS, 3), bounded(GAPS, 2)) == ([3], True, False)


@pytest.mark.parametrize("b", [1.5, 4.0, 50.0])
@pytest.mark.parametrize(
    "mask", [Bernoulli(0.2).masks(300, 5, 0), Cyclic(2, 9).masks(300, 5, 0)], ids=["coins", "cycle"]
)
def test_the_constants_are_tight(mask, b):
    t0 = smallest_t0(mask, b)
    table, t = tau(mask), np.arange(300)[:, None]
    assert (table <= t0 + t / b + 1e-9).all()
    assert t0 == 0 or not (table <= t0 - 1e-6 + t / b).all()
    best = largest_b(mask, t0)
    assert best >= b - 1e-9
    assert within(mask, t0, b)
    if 0 < best < float("inf"):
        assert not (table <= t0 + t / (best * 1.01) + 1e-9).all()


ADVERSARIES = {
    "linear": (adversary.linear(2, 5), lambda t: 2 + t / 5),
    "root": (adversary.root(), lambda t: np.sqrt(t)),
    "logarithmic": (adversary.logarithmic(), lambda t: np.log1p(t)),
    "constant": (adversary.constant(7), lambda t: 7 + 0 * t),
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_adversaries_stay_inside_and_use_what_they_may(name):
    allowed, law = ADVERSARIES[name]
    mask = adversary.greedy(2000, allowed, on=[1, 3, 10], start=[1, 5, 50])
    table, limit = tau(mask), law(np.arange(2000))[:, None]
    assert (table <= limit + 1e-9).all()
    last_away = [int(np.flatnonzero(~mask[:, i])[-1]) for i in range(3)]
    assert min(last_away) > 1500
    for i in range(3):  # every absence that ended could not have gone on
        ends = np.flatnonzero(~mask[:-1, i] & mask[1:, i])
        assert (table[ends, i] + 1 > limit[ends + 1, 0]).all()


def test_linear_absences_are_a_share_of_all_time_and_break_the_other_assumption():
    seen = {rounds: verdict(adversary.greedy(rounds, adversary.linear(0, 4), [1] * 3), b=4) for rounds in (1000, 8000)}
    for rounds, what in seen.items():
        assert what.t0 <= 0
        assert 0.1 < what.tau_max / rounds <= 0.25  # Θ(T): at most 1/b, and a block is at least (1-1/b)/b of its end
        assert not what.bounded
        assert what.growth == pytest.approx(1, abs=0.15)
    square = verdict(adversary.greedy(8000, adversary.root(), [1] * 3), b=4)
    assert square.growth == pytest.approx(0.5, abs=0.1)
    assert not square.bounded
    assert verdict(adversary.greedy(8000, adversary.constant(20), [1] * 3), b=4).bounded


def test_classes_disappear_in_turn():
    labels = [0, 0, 3, 3, 7]
    mask = adversary.by_label(labels, 90, tau_max=10)
    assert mask[:10].tolist() == [[False, False, True, True, True]] * 10
    assert mask[10:20].tolist() == [[True, True, False, False, True]] * 10
    seen = staleness(mask)
    assert seen.tau_max == 10
    assert set(seen.nu) == {10}
    assert seen.tau_bar == pytest.approx(10 * 11 / 2 / 30)  # m(m+1)/2 a cycle of 3m rounds


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: smallest_t0(GAPS, 0), "b=0"),
        (lambda: smallest_t0(np.ones((0, 2)), 2), "shape"),
        (lambda: largest_b(GAPS, -1), "t0=-1"),
        (lambda: bounded(GAPS, [1, 2]), "2 entries for 1 devices"),
        (lambda: verdict(GAPS, 2), "7 rounds"),
        (lambda: adversary.linear(0, 1), "b=1"),
        (lambda: adversary.greedy(5, adversary.root(), []), "0 devices"),
        (lambda: adversary.greedy(5, adversary.root(), [0]), r"on\[0\]=0"),
        (lambda: adversary.by_label([1, 1], 5, 2), "two or more"),
        (lambda: adversary.by_label([1, 2], 5, 0), "tau_max=0"),
    ],
)
def test_bad_input(call, said):
    with pytest.raises(ConfigError, match=said):
        call()
