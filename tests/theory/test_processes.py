"""Closed forms: against sums over the law, against exact small cases, against masks drawn."""

from itertools import product

import numpy as np
import pytest

from impatient.checks import ConfigError
from impatient.theory.processes import (
    Bernoulli,
    Cyclic,
    Markov,
    bernoulli_tau_bar,
    bounded_coins,
    coins,
    probabilities,
    tau_max_mean,
    tau_max_root,
)
from impatient.theory.staleness import staleness, tau

PROCESSES = [
    *(Bernoulli(p) for p in (0.1, 0.6, 1.0)),
    *(Markov(pi, lam) for pi, lam in ((0.3, 0.7), (0.5, -0.4))),
    *(Cyclic(on, off) for on, off in ((3, 5), (2, 0))),
]


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_the_moments_are_those_of_the_law(process):
    k = np.arange(2000)
    law = process.pmf(k)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert (k * law).sum() == pytest.approx(process.mean, abs=1e-9)
    assert (k**2 * law).sum() == pytest.approx(process.second, abs=1e-9)


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_masks_follow_the_law(process):
    # 400 devices, each seen once, far from the start: independent draws of tau, so each count is binomial (4.5 sd).
    away = tau(process.masks(600, 400, seed=5))[-1]
    for k in range(4):
        chance = float(process.pmf(np.array(k)))
        assert abs((away == k).mean() - chance) <= 4.5 * np.sqrt(chance * (1 - chance) / 400) + 1e-12


def test_no_correlation_is_a_coin():
    k = np.arange(50)
    np.testing.assert_allclose(Markov(0.3, 0.0).pmf(k), Bernoulli(0.3).pmf(k), rtol=1e-12)
    assert Markov(0.3, 0.75).mean == pytest.approx(4 * Bernoulli(0.3).mean)  # 1/(1 - lam) = 4


def test_a_cycle_by_hand():
    seen = staleness(Cyclic(2, 3).masks(500, 20, seed=0))
    assert Cyclic(2, 3).mean == (0 + 0 + 1 + 2 + 3) / 5
    assert Cyclic(2, 3).second == (1 + 4 + 9) / 5
    assert (seen.tau_max, seen.nu_bar) == (3, 3.0)


def test_tau_bar_of_few_rounds_is_the_mean_over_all_masks():
    p, rounds = 0.3, 6
    exact = 0.0
    for bits in product([0, 1], repeat=rounds):
        chance = p ** sum(bits) * (1 - p) ** (rounds - sum(bits))
        exact += chance * staleness([[bit] for bit in bits]).tau_bar
    assert bernoulli_tau_bar(p, rounds) == pytest.approx(exact, rel=1e-12)
    assert bernoulli_tau_bar([0.3, 0.5], 10**7) == pytest.approx((7 / 3 + 1) / 2, rel=1e-5)  # mean of (1-p)/p


@pytest.mark.parametrize("p", [[0.1] * 100, [0.05, *[0.5] * 20], [0.3]])
def test_tau_max_concentrates(p):
    rounds, repeats = 2000, 60
    drawn = [staleness(coins(p, rounds, seed)).tau_max for seed in range(repeats)]
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
    coin = Bernoulli(p)
    assert coin.mean + 1 <= 1 / p + 1e-12
    assert coin.second + 2 * coin.mean + 1 <= 2 / p**2


@pytest.mark.parametrize(
    ("p", "said"),
    [
        ([0.5, 0.0], r"p\[1\]=0: .*never comes"),
        ([], "shape"),
        ([1.2], r"p\[0\]=1\.2"),
        ([np.nan], "nan"),
        ([[0.5]], "shape"),
    ],
)
def test_bad_probabilities(p, said):
    with pytest.raises(ConfigError, match=said):
        probabilities(p)


@pytest.mark.parametrize(
    ("make", "given", "said"),
    [
        (Bernoulli, (0,), "p=0"),
        (Markov, (0.0, 0.5), r"pi=0\.0"),
        (Markov, (0.1, 1), "lam=1"),
        (Markov, (0.9, -0.9), "no such chain"),
        (Cyclic, (0, 3), "on=0"),
        (Cyclic, (1, -1), "off=-1"),
    ],
)
def test_bad_processes(make, given, said):
    with pytest.raises(ConfigError, match=said):
        make(*given)


def test_bounded_coins_are_coins_that_never_stay_away_too_long():
    p, nu = [0.02, 0.5, 1.0], 10
    free, held = coins(p, 500, seed=4), bounded_coins(p, nu, 500, seed=4)
    assert (held >= free).all()
    assert staleness(held).tau_max == nu
    forced = held & ~free
    away = np.vstack([[0] * 3, tau(held)[:-1]])
    assert forced.any()
    assert (away[forced] == nu).all()
    with pytest.raises(ConfigError, match="nu=-1"):
        bounded_coins(p, -1, 10, 0)
