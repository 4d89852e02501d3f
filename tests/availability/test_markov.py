"""On-off chains, and what any process with a history promises."""

import copy
import pickle

import pytest
import torch

from impatient.availability.bernoulli import Bernoulli
from impatient.availability.chain import Chain
from impatient.availability.markov import Markov
from impatient.messages import Population


def ready(process, n, seed=0):
    process.setup(Population(torch.zeros(n, 0, dtype=torch.int64), torch.ones(n, dtype=torch.int64)), seed)
    return process


def played(process, rounds):
    return torch.stack([process.mask(t) for t in range(rounds)])


def test_steps_by_hand():
    """p = 0.3, λ = 0.5: P(on | on) = 0.5 + 0.5·0.3 = 0.65, P(on | off) = 0.5·0.3 = 0.15.

    Stationary: 0.3·0.65 + 0.7·0.15 = 0.195 + 0.105 = 0.3.
    """
    chain = ready(Markov(0.3, correlation=0.5), 2)
    coins = torch.tensor([[0.29, 0.31], [0.64, 0.16], [0.66, 0.14], [0.16, 0.64]], dtype=torch.float64)
    state = chain.first(coins[0])
    assert state.tolist() == [True, False]  # 0.29 < 0.3 ≤ 0.31
    state = chain.next(state, coins[1])
    assert state.tolist() == [True, False]  # 0.64 < 0.65 and 0.15 ≤ 0.16
    state = chain.next(state, coins[2])
    assert state.tolist() == [False, True]  # 0.65 ≤ 0.66 and 0.14 < 0.15
    assert chain.next(state, coins[3]).tolist() == [False, True]


def test_masks_are_the_steps():
    chain = ready(Markov(p_range=[0.2, 0.8], correlation=0.7), 50, seed=3)
    state = chain.first(chain.coins(0))
    for t in range(30):
        assert torch.equal(ready(Markov(p_range=[0.2, 0.8], correlation=0.7), 50, seed=3).mask(t), state)
        state = chain.next(state, chain.coins(t + 1))


def test_without_correlation_it_is_bernoulli():
    given = [0.1, 0.5, 0.9, 0.0, 1.0]
    assert torch.equal(
        played(ready(Markov(given, correlation=0), 5, 7), 200), played(ready(Bernoulli(given), 5, 7), 200)
    )


def test_the_ends_hold_under_any_correlation():
    chain = ready(Markov([0.0, 1.0, 0.5], correlation=0.99), 3)
    masks = played(chain, 300)
    assert not masks[:, 0].any()
    assert masks[:, 1].all()
    assert chain.absent().tolist() == [0]


@pytest.mark.parametrize(("p", "correlation"), [(0.3, 0.0), (0.3, 0.5), (0.5, 0.9), (0.1, 0.8)])
def test_every_round_is_stationary(p, correlation):
    """P(on) = p in round 0 as in round 40: 20,000 independent clients, four standard deviations."""
    n = 20_000
    masks = played(ready(Markov(p, correlation=correlation), n), 41).double()
    error = 4 * (p * (1 - p) / n) ** 0.5
    for t in (0, 1, 2, 40):
        assert masks[t].mean() == pytest.approx(p, abs=error)
    # Cov(X_t, X_{t+k}) = λ^k p(1-p); each product of two centred coins is at most 1 in size and has variance at most
    # E[(X_t-p)²(X_{t+k}-p)²] ≤ p(1-p).
    for k in (1, 2, 5):
        products = (masks[10] - p) * (masks[10 + k] - p)
        assert products.mean() == pytest.approx(correlation**k * p * (1 - p), abs=error)


@pytest.mark.parametrize(("p", "correlation"), [(0.3, 0.0), (0.3, 0.5), (0.5, 0.8)])
def test_absences_last_as_theory_says(p, correlation):
    """P(τ = 0) = p, P(τ = k) = (1-p) a (1-a)^{k-1} with a = (1-λ)p, so E τ = (1-p)/a: 4,000 clients after 200 rounds.

    An absence that began before round 0 has a chance of (1-a)^199 ≤ 2·10^-9 here.
    """
    n, a = 4_000, (1 - correlation) * p
    masks = played(ready(Markov(p, correlation=correlation), n), 200)
    tau = masks.flip(0).int().argmax(0).double()  # rounds since the last presence
    second = (1 - p) * (2 - a) / a**2
    assert tau.mean() == pytest.approx((1 - p) / a, abs=4 * ((second - ((1 - p) / a) ** 2) / n) ** 0.5)
    for k in (0, 1, 3):
        chance = p if k == 0 else (1 - p) * a * (1 - a) ** (k - 1)
        assert (tau == k).double().mean() == pytest.approx(chance, abs=4 * (chance * (1 - chance) / n) ** 0.5)


def test_what_it_tells():
    chain = ready(Markov([0.2, 0.4], correlation=0.25), 2)
    for t in (0, 9):
        assert chain.prob(t).tolist() == chain.stationary().tolist() == [0.2, 0.4]
        assert {name: value.tolist() for name, value in chain.knows(t).items()} == {
            "prob": [0.2, 0.4],
            "correlation": [0.25, 0.25],
        }


# Any chain -----------------------------------------------------------------------------------------------------------


class Counts(Chain):
    """Rounds since the start, in a state that is more than the mask; counts its own steps."""

    steps = 0

    def first(self, coins):
        return {"age": torch.zeros(self.num_clients, dtype=torch.int64)}

    def next(self, state, coins):
        self.steps += 1
        return {"age": state["age"] + 1}

    def present(self, state):
        return state["age"] % 3 == 0


def test_a_state_that_is_more_than_the_mask():
    assert played(ready(Counts(), 2), 5).tolist() == [[True] * 2, [False] * 2, [False] * 2, [True] * 2, [False] * 2]


def test_a_round_costs_a_step():
    """In order, also where a loader asks for the next round before this one is over; from afar, once."""
    chain = ready(Counts(), 2)
    for t in range(100):
        chain.mask(t)
    assert chain.steps == 99
    for t in range(100, 200):
        chain.mask(t + 1)
        chain.mask(t)
    assert chain.steps == 200
    late = ready(Counts(), 2)
    for t in range(500, 600):
        late.mask(t)
    assert late.steps == 599


def test_what_is_kept_decides_nothing():
    chain = ready(Markov(0.4, correlation=0.8), 30)
    masks = played(chain, 40)
    for t in (39, 12, 38, 0, 3, 2, 1, 20, 0, 39):
        assert torch.equal(chain.mask(t), masks[t])
        for same in (copy.copy(chain), copy.deepcopy(chain), pickle.loads(pickle.dumps(chain))):
            assert torch.equal(same.mask(25), masks[25])
    assert not torch.equal(played(ready(chain, 30, seed=1), 40), masks)  # set up again, the history is gone
    assert torch.equal(played(ready(chain, 30, seed=0), 40), masks)


def test_a_mask_is_the_callers_own():
    chain = ready(Markov(0.5, correlation=0.5), 30)
    masks = played(chain, 3)
    chain.mask(2).fill_(True)
    assert torch.equal(chain.mask(2), masks[2])
