"""The product's rules without a trainer, and the batched twin against them."""

import numpy as np
import pytest
import torch

from impatient.aggregators.fedavg_biased import FedAvgBiased
from impatient.aggregators.fedavg_is import FedAvgIS
from impatient.aggregators.fedavg_sampling import FedAvgSampling
from impatient.aggregators.mifa import MIFA
from impatient.checks import ConfigError
from impatient.theory import batched
from impatient.theory.adversary import greedy
from impatient.theory.quadratics import Quadratics, isotropic
from impatient.theory.simulate import play

N, P, ROUNDS = 6, 3, 40
CHANCE = np.array([0.2, 0.3, 0.4, 0.5, 0.7, 1.0])


def noisy(sigma: float = 0.7) -> Quadratics:
    return isotropic(N, P, sigma=sigma, seed=5)


def slow(rule, clients, masks, rate, steps=1, repeat=0, prob=None) -> np.ndarray:
    start = torch.zeros(clients.u.shape[1], dtype=torch.float64)
    rounds = play(rule, clients.federation(steps, repeat), masks, start, rate, prob)
    return torch.stack([params for params, _ in rounds]).numpy()


RULES = {
    "mifa": (lambda r: MIFA(), {}),
    "fedavg_biased": (lambda r: FedAvgBiased(), {}),
    "fedavg_is": (lambda r: FedAvgIS(), {"prob": CHANCE}),
    "fedavg_sampling": (lambda r: FedAvgSampling(cohort_size=3, seed=9 + r), {"cohort_size": 3, "seed": 9}),
}


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("name", RULES)
def test_the_batched_twin_is_the_products_rule(name, steps):
    make, options = RULES[name]
    masks = list(batched.coin_masks(CHANCE, ROUNDS, 3, seed=1))
    masks[7] = np.zeros((3, N), dtype=bool)  # a round with nobody
    rate = lambda k: 0.3 / (k + 1)  # noqa: E731
    fast = np.stack(list(batched.play(name, noisy(), masks, 3, rate, steps, **options)))
    for r in range(3):
        own = slow(make(r), noisy(), [m[r] for m in masks], rate, steps, r, options.get("prob"))
        assert np.abs(own[-1]).min() > 0
        np.testing.assert_allclose(fast[:, r], own, rtol=1e-10, atol=1e-12)


def test_a_longer_run_begins_with_a_shorter_one():
    masks = list(batched.coin_masks(CHANCE, 30, 1, seed=2))
    rate = lambda k: 0.1  # noqa: E731
    long = slow(MIFA(), noisy(), [m[0] for m in masks], rate)
    np.testing.assert_array_equal(slow(MIFA(), noisy(), [m[0] for m in masks[:12]], rate), long[:12])


def test_everybody_there_is_gradient_descent():
    # η = 1/(t+1) on ½‖w - u_i‖² without noise: the first step lands on the mean of the centres and stays.
    clients = isotropic(N, P, sigma=0)
    path = slow(MIFA(), clients, np.ones((4, N), dtype=bool), lambda k: 1 / (k + 1))
    np.testing.assert_allclose(path, np.tile(clients.u.mean(0), (4, 1)), atol=1e-12)
    np.testing.assert_allclose(clients.optimum, clients.u.mean(0))


def test_the_optimum_and_the_gap():
    # u = (0, 0), (4, 2): w* = (2, 1), gradients ±(2, 1), noise 2·N(0, I) in two coordinates.
    clients = Quadratics(np.array([[0.0, 0.0], [4.0, 2.0]]), sigma=2.0)
    assert clients.optimum.tolist() == [2.0, 1.0]
    assert clients.gap.tolist() == [5.0, 5.0]
    assert clients.noise == 8.0


def test_thousands_of_rounds_take_seconds():
    masks = greedy(np.sqrt(np.arange(2000)), [1] * N)
    last = slow(MIFA(), noisy(0.0), masks, lambda k: 2 / (k + 10))[-1]
    np.testing.assert_allclose(last, noisy(0.0).optimum, atol=1e-2)


def test_errors_at_checkpoints():
    at = batched.checkpoints(1000, 10, first=1)
    assert (at[0], at[-1], (np.diff(at) > 0).all()) == (1, 1000, True)
    # u = 1, everybody there, no noise, η = .5: the error halves in every round, its square is 1, 1/4, 1/16, …
    clients, there = Quadratics(np.ones((2, 1)), sigma=0), [np.ones((3, 2), bool)] * 4
    found = batched.errors(np.array([1, 3]), "fedavg_biased", clients, there, 3, lambda t: 0.5)
    np.testing.assert_allclose(found, [[1 / 4] * 3, [1 / 64] * 3])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: next(play(FedAvgIS(), noisy().federation(), [np.ones(N, bool)], torch.zeros(P), lambda k: 1.0)),
            "p_i",
        ),
        (
            lambda: next(play(FedAvgSampling(9), noisy().federation(), [], torch.zeros(P), lambda k: 1.0)),
            "cohort_size=9",
        ),
        (lambda: next(batched.coin_masks(np.zeros(2), 3, 1, 0)), r"each in \(0, 1\]"),
        (lambda: next(batched.play("fedavg_is", noisy(), [], 1)), "p=None"),
    ],
)
def test_bad_input(call, said):
    with pytest.raises(ConfigError, match=said):
        call()


def test_a_rule_without_a_twin():
    with pytest.raises(ValueError, match="fedprox"):
        next(batched.play("fedprox", noisy(), [np.ones((1, N), bool)], 1))
