import numpy as np
import pytest
import torch

from impatient.data.dataset import Clients
from impatient.data.digits import Digits
from impatient.data.rounds import Batching

SEED, ROUND = 5, 3
SIZES = (23, 10, 7, 41)


@pytest.fixture(scope="module")
def clients():
    """Four clients that hold the first 81 digits in a scrambled order."""
    y = Digits().load(4, 0).y
    scrambled = np.random.default_rng(0).permutation(sum(SIZES))
    return Clients.of(np.split(scrambled, np.cumsum(SIZES)[:-1]), y, 10)


def test_every_sample_once_per_epoch(clients):
    for i, own in enumerate(clients.indices):
        batches = Batching(10, epochs=3).client(own, SEED, ROUND, i)
        walked = np.concatenate(batches)
        epochs = walked.reshape(3, len(own))
        assert all(sorted(epoch) == sorted(own) for epoch in epochs)
        # Reshuffled: the chance that two epochs of 7 samples or more agree is 1/7! at most.
        assert not np.array_equal(epochs[0], epochs[1])


@pytest.mark.parametrize(
    ("size", "lengths"),
    [
        (23, [10, 10, 3] * 2),  # the last batch of each epoch is ragged; it is not filled from the next epoch
        (10, [10] * 2),
        (20, [10, 10] * 2),
        (7, [7] * 2),  # fewer samples than the batch size: one short batch an epoch
        (1, [1] * 2),
    ],
)
def test_batch_lengths(size, lengths):
    batches = Batching(10, epochs=2).client(np.arange(size), SEED, ROUND, 0)
    assert [len(batch) for batch in batches] == lengths


@pytest.mark.parametrize(
    ("steps", "lengths"),
    [(1, [10]), (2, [10, 10]), (3, [10, 10, 3]), (4, [10, 10, 3, 10]), (7, [10, 10, 3, 10, 10, 3, 10])],
)
def test_exact_steps_cross_epochs(steps, lengths):
    batches = Batching(10, epochs=None, steps=steps).client(np.arange(23), SEED, ROUND, 0)
    assert [len(batch) for batch in batches] == lengths
    for first in range(0, steps - 2, 3):  # whole epochs are whole
        assert sorted(np.concatenate(batches[first : first + 3])) == list(range(23))
    # Fewer steps are the beginning of more.
    longer = Batching(10, epochs=None, steps=steps + 5).client(np.arange(23), SEED, ROUND, 0)
    assert all(np.array_equal(a, b) for a, b in zip(batches, longer, strict=False))


def test_shapes_counts_and_padding(clients):
    batches = Batching(10, epochs=2).draw(clients, torch.arange(4), SEED, ROUND)
    # Client 3 makes the most steps: 2 epochs of ceil(41/10) = 5 batches.
    assert batches.index.shape == (4, 10, 10)
    assert batches.index.dtype == batches.count.dtype == torch.int64
    assert batches.count.tolist() == [
        [10, 10, 3, 10, 10, 3, 0, 0, 0, 0],
        [10, 10, 0, 0, 0, 0, 0, 0, 0, 0],
        [7, 7, 0, 0, 0, 0, 0, 0, 0, 0],
        [10, 10, 10, 10, 1] * 2,
    ]
    for i, own in enumerate(clients.indices):
        plain = Batching(10, epochs=2).client(own, SEED, ROUND, i)
        for step in range(10):
            row, size = batches.index[i, step], int(batches.count[i, step])
            assert row[:size].tolist() == (plain[step].tolist() if size else [])
            # Padding must be a sample of the client's own: another's would leak through a batch statistic.
            assert (row[size:] == own[0]).all()


def test_width_is_the_largest_batch(clients):
    batches = Batching(10, epochs=1).draw(clients, torch.tensor([2]), SEED, ROUND)
    assert batches.index.shape == (1, 1, 7)
    assert Batching(1000, epochs=1).draw(clients, torch.arange(4), SEED, ROUND).index.shape == (4, 1, 41)


def test_nobody(clients):
    batches = Batching(10).draw(clients, torch.empty(0, dtype=torch.int64), SEED, ROUND)
    assert batches.index.shape == (0, 0, 0)
    assert batches.count.shape == (0, 0)


def test_address_is_seed_round_client(clients):
    def walk(client, seed=SEED, round=ROUND, among=None):
        """The samples of one client in order, drawn among others."""
        ids = torch.tensor(among or [client])
        drawn = Batching(10, epochs=1).draw(clients, ids, seed, round)
        at = ids.tolist().index(client)
        return [i for row, n in zip(drawn.index[at], drawn.count[at], strict=True) for i in row[:n].tolist()]

    alone = walk(0)
    assert walk(0, among=[3, 0, 1]) == walk(0, among=[0, 1, 2, 3]) == alone
    assert walk(0, round=ROUND + 1) != alone
    assert walk(0, seed=SEED + 1) != alone
    # (seed, round) is an address, not a sum.
    assert walk(0, seed=SEED + 1, round=ROUND - 1) != alone
    assert sorted(walk(0, round=ROUND + 1)) == sorted(alone)
    # Two clients of the same size do not walk in step: positions within their own data, not sample numbers.
    own = np.arange(23)
    first, second = (Batching(10, epochs=1).client(own, SEED, ROUND, client) for client in (0, 1))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))


def test_global_generators_play_no_part(clients):
    first = Batching(10).draw(clients, torch.arange(4), SEED, ROUND)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    again = Batching(10).draw(clients, torch.arange(4), SEED, ROUND)
    assert torch.equal(first.index, again.index)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])
