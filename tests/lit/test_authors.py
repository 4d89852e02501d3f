"""Whole runs against the authors' trainers, on their split and their coins: real digits, 100 devices, full batches.

What is done differently here on purpose has a test of its own, each with the trajectory that it leads to.
"""

import lightning as L
import numpy as np
import pytest
import torch
from authors import Trainers, coins, split

from impatient.aggregators.fedavg_biased import FedAvgBiased
from impatient.aggregators.fedavg_is import FedAvgIS
from impatient.aggregators.fedavg_sampling import FedAvgSampling
from impatient.aggregators.mifa import MIFA
from impatient.availability.label_bernoulli import LabelBernoulli
from impatient.data.digits import Digits
from impatient.engine.local import LocalSGD
from impatient.messages import Population, RoundInfo
from impatient.models.logistic import Logistic
from impatient.rng import torch_stream

LR, EPOCHS, DECAY, N, ROUNDS, SPLIT, SEED = 0.5, 2, 1e-3, 100, 60, 16, 5
COUNTS_UPDATES = LocalSGD(LR, batch_size=100, epochs=EPOCHS, weight_decay=DECAY)
COUNTS_ROUNDS = LocalSGD(LR, batch_size=100, epochs=EPOCHS, weight_decay=DECAY, lr_clock="round")


class Given(LabelBernoulli):
    """p_i as ever, but these masks."""

    def __init__(self, masks):
        super().__init__(pmin=0.2)
        self.masks = torch.from_numpy(masks)

    def mask(self, round):
        return self.masks[round]


class Path(L.Callback):
    def __init__(self):
        self.weights = []

    def on_train_batch_end(self, trainer, module, *args):
        w = module.flat.get().numpy()
        self.weights.append(np.concatenate([w[:640].reshape(10, 64), w[640:, None]], axis=1))


@pytest.fixture(scope="module")
def theirs():
    """Their trainers on the digits, p_i, masks, and the common start."""
    data = Digits().load(N, 0)
    x = (data.x.flatten(1).double() / 255 - data.mean[0]) / data.std[0]
    x, y = np.hstack([x.numpy(), np.ones((len(x), 1))]), data.y.numpy()
    owned, pairs = split(y, SPLIT)
    p = 0.2 + 0.8 * pairs.min(1) / 9
    with torch_stream(torch.device("cpu"), SPLIT, "model"):
        layer = Logistic((1, 8, 8), 10).double().linear
    start = np.concatenate([layer.weight.detach().numpy(), layer.bias.detach().numpy()[:, None]], axis=1)
    trainers = Trainers([x[own] for own in owned], [y[own] for own in owned], LR, EPOCHS, DECAY)
    return trainers, p, coins(p, ROUNDS, SEED), start


@pytest.fixture
def ours(fit):
    def run(rule, masks, sgd=COUNTS_UPDATES):
        path = Path()
        fit(
            rounds=len(masks), aggregator=rule, availability=Given(masks), seed=SPLIT, n=N, sgd=sgd, callbacks=(path,),
            eval_every=10**6, save_every=10**6,
        )  # fmt: skip
        return path.weights

    return run


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=0, atol=1e-8)
    assert np.abs(theirs[-1] - theirs[0]).max() > 0.01


def test_mifa(theirs, ours):
    """Departure: the step is taken in the round that completes the set, not in the next. Theirs loses that round."""
    trainers, _, masks, start = theirs
    path = trainers.mifa(start, masks)
    done = int(np.argmax(np.logical_or.accumulate(masks).all(1)))  # the completing round
    assert 5 < done < ROUNDS - 10
    # Ours without the round after it, in which theirs take the step that ours have taken already.
    mine = ours(MIFA(), np.delete(masks, done + 1, axis=0))
    assert_same(mine[done:], path[done + 1 :])
    assert all(np.array_equal(w, start) for w in [*mine[:done], *path[: done + 1]])
    # On the very same masks they are apart from the completing round on.
    same = ours(MIFA(), masks)
    assert np.array_equal(path[done], start)
    assert np.abs(same[done] - start).max() > 0.01


def test_mifa_without_waiting(theirs, ours):
    trainers, _, masks, start = theirs
    assert_same(ours(MIFA("zero"), masks), trainers.mifa_no_wait(start, masks))


def test_biased_fedavg(theirs, ours):
    trainers, _, masks, start = theirs
    assert_same(ours(FedAvgBiased(), masks, COUNTS_ROUNDS), trainers.biased(start, masks))


def test_importance_sampling(theirs, ours):
    trainers, p, masks, start = theirs
    assert_same(ours(FedAvgIS(), masks, COUNTS_ROUNDS), trainers.importance(start, masks, p))


@pytest.mark.parametrize("size", [10, 50, 100])
def test_sampling(theirs, ours, size):
    """Departure: a device trains when it is there, not when the cohort is complete; the model is frozen meanwhile."""
    trainers, _, masks, start = theirs
    rule = FedAvgSampling(size, seed=3)
    weight = torch.full((N,), 1 / N, dtype=torch.float64)

    def cohort(update):  # departure: drawn from a stream of its own, not from the one the coins have just reseeded
        drawn = rule.cohort(RoundInfo(0, update, LR, N, torch.zeros(N, dtype=torch.bool), weight))
        return np.flatnonzero(drawn.numpy())

    assert_same(ours(rule, masks), trainers.sampling(start, masks, cohort))


def test_nobody_there(theirs, ours):
    """Departure: biased FedAvg holds where theirs divides 0 by 0. By rounds or by updates, the clock is a choice."""
    trainers, p, masks, start = theirs
    masks = masks[:12].copy()
    masks[4] = False
    assert np.isnan(trainers.biased(start, masks)[4]).all()
    mine = ours(FedAvgBiased(), masks, COUNTS_ROUNDS)
    assert np.array_equal(mine[4], mine[3])
    assert_same(ours(FedAvgIS(), masks, COUNTS_ROUNDS), trainers.importance(start, masks, p))
    # Counting updates, the rounds after an empty one go on with the rate that it would have had.
    without = np.delete(masks, 4, axis=0)
    assert_same(np.delete(ours(FedAvgIS(), masks), 4, axis=0), trainers.importance(start, without, p))


def test_their_seeds_share_their_coins():
    """Departure: our draws are addressed by (seed, purpose, round); theirs by round·(seed + 1)."""
    p = np.full(N, 0.5)
    assert np.array_equal(coins(p, 1, 5), coins(p, 1, 6))
    assert np.array_equal(coins(p, 2, 5)[1], coins(p, 7, 0)[6])
    ours = []
    for seed in (5, 6):
        process = LabelBernoulli(pmin=0.2)
        process.setup(Population(torch.ones(N, 10, dtype=torch.int64), torch.full((N,), 10)), seed)
        ours.append(process.mask(0))
    assert not torch.equal(*ours)
