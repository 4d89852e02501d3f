import copy
import io

import numpy as np
import pytest
import torch

from impatient.availability.bernoulli import Bernoulli
from impatient.messages import Population
from impatient.participation import Participation

#                 mask        tau(t, i), from tau(-1, i) = 0
MASKS = [
    [1, 0, 1],  # 0  1  0
    [0, 0, 1],  # 1  2  0
    [0, 1, 1],  # 2  0  0
    [1, 0, 1],  # 0  1  0
]
TAU = [[0, 1, 0], [1, 2, 0], [2, 0, 0], [0, 1, 0]]


def mask(row):
    return torch.tensor(row, dtype=torch.bool)


def reported(*who):
    return torch.tensor(who, dtype=torch.int64)


def record_all(stats, masks):
    for row in masks:
        available = mask(row)
        stats.record(available, available.nonzero().flatten(), True)
    return stats


def test_tau_by_hand():
    stats = Participation(3)
    for row, tau in zip(MASKS, TAU, strict=True):
        record_all(stats, [row])
        assert stats.tau.tolist() == tau
        assert stats.metrics()["staleness/tau_mean"] == pytest.approx(sum(tau) / 3)
        assert stats.metrics()["staleness/tau_max"] == max(tau)
    # Sums of the four rows: 1 + 3 + 2 + 1 = 7 over 4 rounds x 3 devices; the largest entry is 2.
    assert stats.summary() == {"staleness/tau_bar": pytest.approx(7 / 12), "staleness/tau_max_T": 2}
    # Devices came 2, 1 and 4 times in 4 rounds.
    metrics = stats.metrics()
    assert metrics["participation/mean"] == pytest.approx(7 / 12)
    assert (metrics["participation/min"], metrics["participation/max"]) == (0.25, 1.0)
    assert metrics["participation/heard"] == 3


def test_tau_counts_availability_and_participation_counts_answers():
    stats = Participation(3)
    stats.record(mask([1, 1, 0]), reported(0), True)  # device 1 was there, but was not asked or failed
    assert stats.tau.tolist() == [0, 0, 1]
    assert stats.count.tolist() == [1, 0, 0]
    assert stats.metrics()["participation/heard"] == 1
    stats.record(mask([0, 0, 0]), reported(), False)  # nobody at all
    assert stats.tau.tolist() == [1, 1, 2]
    assert stats.count.tolist() == [1, 0, 0]


def test_held_rounds():
    stats = Participation(2)
    for moved in (False, False, True, False):
        stats.record(mask([1, 1]), reported(0, 1), moved)
    assert (stats.held, stats.held_in_a_row, stats.rounds) == (3, 1, 4)
    assert stats.metrics()["staleness/held"] == 3


def test_before_the_first_round():
    stats = Participation(3)
    assert stats.summary() == {"staleness/tau_bar": 0, "staleness/tau_max_T": 0}
    assert stats.metrics()["participation/mean"] == 0


def test_everybody_always_is_never_stale():
    stats = record_all(Participation(3), [[1, 1, 1]] * 10)
    assert stats.summary() == {"staleness/tau_bar": 0, "staleness/tau_max_T": 0}


def test_hash_chains_every_mask():
    def digest(masks):
        return record_all(Participation(3), masks).mask_hash

    seen = {digest(MASKS)}
    for t in range(4):
        for i in range(3):
            changed = copy.deepcopy(MASKS)
            changed[t][i] = 1 - changed[t][i]
            seen.add(digest(changed))
    seen.add(digest([MASKS[1], MASKS[0], *MASKS[2:]]))  # the order counts
    seen.add(digest(MASKS[:3]))  # and the number
    seen.add(digest([*MASKS, [0, 0, 0]]))
    assert len(seen) == 1 + 12 + 3
    assert digest(copy.deepcopy(MASKS)) in seen
    # Only the masks count, not who answered.
    other = Participation(3)
    for row in MASKS:
        other.record(mask(row), reported(), False)
    assert other.mask_hash == digest(MASKS)


def test_resume_is_exact():
    whole = record_all(Participation(3), MASKS)
    for cut in range(5):
        first = record_all(Participation(3), MASKS[:cut])
        file = io.BytesIO()
        torch.save(first.state_dict(), file)
        file.seek(0)
        second = Participation(3)
        second.load_state_dict(torch.load(file, weights_only=True))
        record_all(second, MASKS[cut:])
        assert second.metrics() == whole.metrics()
        assert second.summary() == whole.summary()
        assert second.mask_hash == whole.mask_hash
        assert second.held_in_a_row == whole.held_in_a_row


def test_bernoulli_staleness_is_what_theory_says():
    # With tau(-1, i) = 0 and q = 1 - p, P(tau(t) >= k) = q^k for k <= t + 1, so E tau(t) = (q/p)·(1 - q^(t+1)), and its
    # mean over t < T is E tau_bar_T = (q/p)·(1 - q·(1 - q^T)/(p·T)), averaged over the devices.
    p, devices, rounds = (0.2, 0.6), 1_000, 40
    process = Bernoulli([p[0]] * devices + [p[1]] * devices)
    counts = torch.ones(2 * devices, 1, dtype=torch.int64)
    process.setup(Population(counts, counts.sum(1)), seed=0)
    stats, history = Participation(2 * devices), []
    for t in range(rounds):
        available = process.mask(t)
        stats.record(available, available.nonzero().flatten(), True)
        history.append(stats.tau.numpy().copy())
    tau = np.array(history, dtype=np.float64)

    expected = []
    for group, chance in enumerate(p):
        own = tau[:, group * devices : (group + 1) * devices]
        q = 1 - chance
        for t in (0, 1, 5, rounds - 1):
            error = own[t].std() / devices**0.5
            assert own[t].mean() == pytest.approx(q / chance * (1 - q ** (t + 1)), abs=4 * error)
        expected.append(q / chance * (1 - q * (1 - q**rounds) / (chance * rounds)))
        per_device = own.mean(0)
        assert per_device.mean() == pytest.approx(expected[-1], abs=4 * per_device.std() / devices**0.5)
    total = stats.summary()["staleness/tau_bar"]
    assert total == pytest.approx(tau.mean())
    assert total == pytest.approx(sum(expected) / 2, abs=4 * tau.mean(0).std() / (2 * devices) ** 0.5)
    assert stats.summary()["staleness/tau_max_T"] == tau.max()
