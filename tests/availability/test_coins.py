"""The processes that toss coins, and the one that does not need to."""

import pytest
import torch

from impatient.availability.always import Always
from impatient.availability.bernoulli import Bernoulli
from impatient.availability.label_bernoulli import LabelBernoulli
from impatient.messages import Population


def labels_of(*held, classes=10):
    """Counts [N, C] of clients that hold the classes given, 30 samples of each."""
    counts = torch.zeros(len(held), classes, dtype=torch.int64)
    for row, own in zip(counts, held, strict=True):
        row[list(own)] = 30
    return counts


PAIRS = labels_of((3, 7), (0, 9), (8, 9), (5,), (1, 2), (2, 6), (4, 8), (9,))


def ready(process, seed=0, labels=PAIRS):
    process.setup(Population(labels, labels.sum(1)), seed)
    return process


COINS = {
    "half": lambda: Bernoulli(0.5),
    "list": lambda: Bernoulli([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9]),
    "range": lambda: Bernoulli(p_range=[0.2, 0.8]),
    "label": lambda: LabelBernoulli(0.1),
    "printed": lambda: LabelBernoulli(0.6, "printed"),
}


@pytest.fixture(params=COINS.values(), ids=COINS)
def make(request):
    return request.param


def test_masks_are_pure_functions_of_seed_and_round(make):
    forward, backward = ready(make()), ready(make())
    rounds = range(12)
    masks = [forward.mask(t) for t in rounds]
    torch.manual_seed(9)  # the global generator has no say
    assert all(torch.equal(backward.mask(t), masks[t]) for t in reversed(rounds))
    assert masks[0].shape == (8,)
    assert masks[0].dtype == torch.bool
    assert len({tuple(mask.tolist()) for mask in masks}) > 1


@pytest.mark.parametrize("name", ["half", "range", "label", "printed"])
def test_seed_and_round_are_an_address(name):
    # With 64 clients of these biases two independent masks agree by accident with a chance below 1e-10.
    seeds = [ready(COINS[name](), seed, PAIRS.repeat(8, 1)) for seed in range(3)]
    masks = {tuple(process.mask(t).tolist()) for process in seeds for t in range(3)}
    # All nine differ: seeds part in round 0 already, and (round 2, seed 0) is not (round 1, seed 1).
    assert len(masks) == 9


@pytest.mark.parametrize("name", ["half", "range", "label", "printed"])
def test_a_new_client_changes_nobody(name):
    few, many = ready(COINS[name]()), ready(COINS[name](), labels=PAIRS.repeat(2, 1))
    assert torch.equal(many.prob(0)[:8], few.prob(0))
    for t in range(20):
        assert torch.equal(many.mask(t)[:8], few.mask(t))


def test_frequency_is_the_probability(make):
    process = ready(make())
    rounds = 2_000
    share = torch.stack([process.mask(t) for t in range(rounds)]).double().mean(0)
    p = process.prob(0)
    # Four standard deviations of a mean of 2,000 coins.
    assert ((share - p).abs() <= 4 * (p * (1 - p) / rounds).sqrt()).all()
    assert torch.equal(process.prob(1_999), p)


def test_clients_toss_their_own_coins():
    masks = torch.stack([ready(Bernoulli(0.5)).mask(t) for t in range(2_000)]).double()
    correlation = torch.corrcoef(masks.T) - torch.eye(8)
    # The correlation of two independent coins over T rounds has standard deviation 1/√T.
    assert correlation.abs().max() < 4 / 2_000**0.5
    lagged = ((masks[1:] - 0.5) * (masks[:-1] - 0.5) * 4).mean(0)
    assert lagged.abs().max() < 4 / 1_999**0.5


@pytest.mark.parametrize(
    ("pmin", "formula", "expected"),
    [
        # Smallest labels of PAIRS: 3, 0, 8, 5, 1, 2, 4, 9.
        # code: 0.1 + 0.9·min/9
        (0.1, "code", [0.4, 0.1, 0.9, 0.6, 0.2, 0.3, 0.5, 1.0]),
        # printed: 0.1·min/9 + 0.9
        (0.1, "printed", [0.9 + k / 90 for k in (3, 0, 8, 5, 1, 2, 4, 9)]),
        (0.0, "code", [k / 9 for k in (3, 0, 8, 5, 1, 2, 4, 9)]),
        (1.0, "code", [1.0] * 8),
        (1.0, "printed", [k / 9 for k in (3, 0, 8, 5, 1, 2, 4, 9)]),
        (0.0, "printed", [1.0] * 8),
    ],
)
def test_label_formulas_by_hand(pmin, formula, expected):
    process = ready(LabelBernoulli(pmin, formula))
    torch.testing.assert_close(process.prob(0), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)
    assert bool((process.prob(0) <= 1).all())


def test_label_formula_for_any_number_of_classes():
    # Four classes: 0.2 + 0.8·min/3 for the smallest labels 2, 0, 3.
    process = ready(LabelBernoulli(0.2), labels=labels_of((2, 3), (0, 1, 2), (3,), classes=4))
    assert process.prob(0).tolist() == pytest.approx([0.2 + 1.6 / 3, 0.2, 1.0])
    # One class: nothing rises.
    assert ready(LabelBernoulli(0.2), labels=labels_of((0,), classes=1)).prob(0).tolist() == [0.2]


def test_counts_do_not_matter():
    labels = labels_of((3, 7))
    labels[0, 3], labels[0, 7] = 1, 500
    assert ready(LabelBernoulli(0.1), labels=labels).prob(0).tolist() == pytest.approx([0.4])


def test_the_most_frequent_label():
    labels = labels_of((3, 7), (2, 5))
    labels[0, 3], labels[0, 7] = 1, 500
    # 0.1 + 0.9·7/9; the smaller of equals: 0.1 + 0.9·2/9.
    assert ready(LabelBernoulli(0.1, label="most_frequent"), labels=labels).prob(0).tolist() == pytest.approx(
        [0.8, 0.3]
    )


def test_certain_coins_are_always():
    always, certain = ready(Always(), 7), ready(LabelBernoulli(1.0), 7)
    sure = ready(Bernoulli(1.0), 7)
    for t in range(50):
        assert torch.equal(certain.mask(t), always.mask(t))
        assert torch.equal(sure.mask(t), always.mask(t))
        assert bool(always.mask(t).all())
    assert torch.equal(always.prob(3), torch.ones(8, dtype=torch.float64))
    assert always.absent().tolist() == []


def test_absent_are_those_who_never_come():
    assert ready(Bernoulli([0.0, 0.5, 0.0, 1.0] * 2)).absent().tolist() == [0, 2, 4, 6]
    # p_min = 0 and label 0: client 1 alone.
    assert ready(LabelBernoulli(0.0)).absent().tolist() == [1]
    assert ready(Bernoulli(0.01)).absent().tolist() == []


def test_list_and_range():
    given = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9]
    assert ready(Bernoulli(given)).prob(0).tolist() == given
    p = ready(Bernoulli(p_range=[0.2, 0.8]), 3).prob(0)
    assert bool(((p >= 0.2) & (p < 0.8)).all())
    assert len(set(p.tolist())) == 8
    assert not torch.equal(ready(Bernoulli(p_range=[0.2, 0.8]), 4).prob(0), p)
    assert ready(Bernoulli(p_range=[0.3, 0.3])).prob(0).tolist() == [0.3] * 8
    # p_range takes the place of p.
    assert torch.equal(ready(Bernoulli(0.9, p_range=[0.2, 0.8]), 3).prob(0), p)
