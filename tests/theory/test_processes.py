"""Closed forms: against sums over the law, against exact small cases, against masks drawn."""

from itertools import product

import numpy as np
import pytest

from impatient.checks import ConfigError
from impatient.theory.processes import (
    bernoulli,
    bounded_coins,
    coins,
    cyclic,
    markov,
    probabilities,
    tau_bar,
    tau_max_mean,
    tau_max_root,
)
from impatient.theory.staleness import tau

PROCESSES = {
    **{f"coin {p}": bernoulli(p) for p in (0.1, 0.6, 1.0)},
    **{f"chain {pi} {lam}": markov(pi, lam) for pi, lam in ((0.3, 0.7), (0.5, -0.4))},
    **{f"cycle {on} {off}": cyclic(on, off) for on, off in ((3, 5), (2, 0))},
}


@pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES)
def test_the_moments_are_those_of_the_law(process):
    k = np.arange(2000)
    law = process.pmf(k)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert (k * law).sum() == pytest.approx(process.mean, abs=1e-9)
    assert (k**2 * law).sum() == pytest.approx(process.second, abs=1e-9)


@pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES)
def test_masks_follow_the_law(process):
    # 400 devices, each seen once, far from the start: independent draws of tau, so each count is binomial (4.5 sd).
    away = tau(process.masks(600, 400, seed=5))[-1]
    for k in range(4):
        chance = float(process.pmf(np.array(k)))
        assert abs((away == k).mean() - chance) <= 4.5 * np.sqrt(chance * (1 - chance) / 400) + 1e-12


def test_no_correlation_is_a_coin():
    k = np.arange(50)
    np.testing.assert_allclose(markov(0.3, 0.0).pmf(k), bernoulli(0.3).pmf(k), rtol=1e-12)
    assert markov(0.3, 0.75).mean == pytest.approx(4 * bernoulli(0.3).mean)  # 1/(1 - lam) = 4


def test_a_cycle_by_hand():
    assert set(tau(cyclic(2, 3).masks(500, 20, seed=0)).max(0)) == {3}
    assert cyclic(2, 3).mean == pytest.approx((0 + 0 + 1 + 2 + 3) / 5)
    assert cyclic(2, 3).second == pytest.approx((1 + 4 + 9) / 5)


def test_tau_bar_of_few_rounds_is_the_mean_over_all_masks():
    p, rounds = 0.3, 6
    exact = 0.0
    for bits in product([0, 1], repeat=rounds):
        chance = p ** sum(bits) * (1 - p) ** (rounds - sum(bits))
        exact += chance * tau([[bit] for bit in bits]).mean()
    assert tau_bar(p, rounds) == pytest.approx(exact, rel=1e-12)
    assert tau_bar([0.3, 0.5, 1.0]) == pytest.approx((7 / 3 + 1 + 0) / 3, rel=1e-12)  # the mean of (1-p)/p
    assert tau_bar([0.3, 0.5, 1.0], 10**7) == pytest.approx(tau_bar([0.3, 0.5, 1.0]), rel=1e-5)


@pytest.mark.parametrize("p", [[0.1] * 100, [0.05, *[0.5] * 20], [0.3]])
def test_tau_max_concentrates(p):
    rounds, repeats = 2000, 60
    drawn = [tau(coins(p, rounds, seed)).max() for seed in range(repeats)]
    error = np.std(drawn) / np.sqrt(repeats)
    assert abs(np.mean(drawn) - tau_max_mean(p, rounds)) < 4 * error
    # The root is the place, not the mean: a Gumbel law of scale 1/(-ln q) lies around it, mean .58 of that above.
    scale = 1 / -np.log1p(-min(p))
    assert abs(np.mean(drawn) - tau_max_root(p, rounds)) < 1.5 * scale


def test_tau_max_root_of_equal_coins_is_the_logarithm():
    # N T p q^m = 1
    assert tau_max_root([0.1] * 50, 3000) == pytest.approx(np.log(50 * 3000 * 0.1) / -np.log(0.9), rel=1e-9)
    assert tau_max_root([1.0, 1.0], 100) == 0


@pytest.mark.parametrize("p", [0.05, 0.4, 1.0])
def test_the_moment_bounds_of_fedawe(p):
    # Xiang et al., NeurIPS 2024, lemma 2, with t - tau_i(t) = tau + 1: at most 1/δ, and 2/δ² squared.
    coin = bernoulli(p)
    assert coin.mean + 1 <= 1 / p + 1e-12
    assert coin.second + 2 * coin.mean + 1 <= 2 / p**2


@pytest.mark.parametrize(
    "p", [[0.5, 0.0], [], [1.2], [np.nan], [[0.5]]], ids=["never there", "nobody", "above 1", "nan", "a table"]
)
def test_bad_probabilities(p):
    with pytest.raises(ConfigError, match=r"must be one probability a device, each in \(0, 1\]"):
        probabilities(p)


@pytest.mark.parametrize(("pi", "lam"), [(0.9, -0.9), (0.1, 1.0), (0.0, 0.5)])
def test_no_chain_has_these_probabilities(pi, lam):
    with pytest.raises(ConfigError, match="no such chain"):
        markov(pi, lam)


def test_bounded_coins_are_coins_that_never_stay_away_too_long():
    p, nu = [0.02, 0.5, 1.0], 10
    free, held = coins(p, 500, seed=4), bounded_coins(p, nu, 500, seed=4)
    assert (held >= free).all()
    assert tau(held).max() == nu
    forced = held & ~free
    away = np.vstack([[0] * 3, tau(held)[:-1]])
    assert forced.any()
    assert (away[forced] == nu).all()
