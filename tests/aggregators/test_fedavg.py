"""The four FedAvg rules against arithmetic done by hand.

Three clients on a line, u = (3, 6, 9), w_0 = 0, η = 1/2, one local step: U_i = (w - u_i)/2 = (-3/2, -3, -9/2) at first.
"""

from itertools import combinations

import pytest
import torch

from impatient.aggregators.fedavg_all import FedAvgAll
from impatient.aggregators.fedavg_biased import FedAvgBiased
from impatient.aggregators.fedavg_is import FedAvgIS
from impatient.aggregators.fedavg_sampling import FedAvgSampling
from impatient.checks import ConfigError
from impatient.contract.federation import Server, line, shares, table
from impatient.engine.local import LocalSGD
from impatient.messages import RoundInfo

EQUAL, SIZED = shares(1, 1, 1), shares(1, 2, 5)
PROB = torch.tensor([0.5, 1.0, 0.25], dtype=torch.float64)
ALL = torch.ones(3, dtype=torch.bool)

# Clients 0 and 2 are there; then nobody; then client 1, with U_1 = (w - 6)/2.
MASKS = table({0, 2}, set(), {1})
BY_HAND = [
    # (3/2 + 9/2)/2 = 3;                                  3 - (3-6)/2 = 9/2
    (FedAvgBiased(), EQUAL, [3, 3, 9 / 2]),
    # (1·3/2 + 5·9/2)/(1+5) = 24/6 = 4;                   4 - (4-6)/2 = 5
    (FedAvgBiased(), SIZED, [4, 4, 5]),
    # (3/2 + 9/2)/3 = 2;                                  2 - (2-6)/2/3 = 8/3
    (FedAvgAll(), EQUAL, [2, 2, 8 / 3]),
    # (1·3/2 + 5·9/2)/8 = 3;                              3 - 2/8·(3-6)/2 = 27/8
    (FedAvgAll(), SIZED, [3, 3, 27 / 8]),
    # (3/2/(1/2) + 9/2/(1/4))/3 = (3+18)/3 = 7;           7 - (7-6)/2/1/3 = 41/6
    (FedAvgIS(), EQUAL, [7, 7, 41 / 6]),
    # (1·3/2/(1/2) + 5·9/2/(1/4))/8 = 93/8;               93/8 - 2/8·(93/8 - 6)/2 = 93/8 - 45/64 = 699/64
    (FedAvgIS(), SIZED, [93 / 8, 93 / 8, 699 / 64]),
]


@pytest.mark.parametrize(("rule", "weight", "expected"), BY_HAND)
def test_two_of_three_by_hand(rule, weight, expected):
    server = Server(rule, line(3, 6, 9), weight, PROB)
    assert server.run(MASKS)[1:, 0].tolist() == pytest.approx(expected, abs=1e-12)
    assert server.update == 2  # the empty round moved nothing


def test_importance_sampling_must_know_p():
    assert FedAvgIS.knowledge == {"prob"}
    with pytest.raises(KeyError, match="prob"):
        Server(FedAvgIS(), line(3, 6, 9)).run(MASKS)


def info(n: int, update: int = 0, round: int = 0) -> RoundInfo:
    return RoundInfo(round, update, 0.5, n, torch.ones(n, dtype=torch.bool), shares(*[1] * n))


def cohort(rule: FedAvgSampling, n: int, update: int, round: int = 0) -> list[int]:
    return rule.cohort(info(n, update, round)).nonzero().flatten().tolist()


@pytest.mark.parametrize("weight", [EQUAL, SIZED])
def test_sampling_waits_for_both_and_keeps_the_first_answer(weight):
    rule = FedAvgSampling(cohort_size=2, seed=3)
    first, second = cohort(rule, 3, 0)
    (other,) = {0, 1, 2} - {first, second}
    # The rate goes by rounds here, 1, 1/2, 1/3, so that an answer tells when it was given.
    server = Server(rule, line(3, 6, 9), weight, lr=1.0, decay="inverse", clock="round")
    assert rule.waits
    asked, awaited = [], []
    for available in table({first, other}, {first, other}, {first, second, other}):
        asked.append(rule.select(server.state, server.info(available)).tolist())
        _, direction = server.play(available)
        if direction is None:
            assert server.w.item() == 0  # frozen
            awaited.append(rule.awaited(server.state, server.info(available)).tolist())
    # `other` is never asked, `first` once; nobody trains in round 1.
    assert asked == [[first], [], [second]]
    assert awaited == [[second], [second]]
    # From w = 0: U_first = -1·u_first in round 0, U_second = -1/3·u_second in round 2; the mean by weight.
    u, a = (3, 6, 9), weight.tolist()
    expected = (a[first] * u[first] + a[second] * u[second] / 3) / (a[first] + a[second])
    assert server.w.item() == pytest.approx(expected, abs=1e-12)
    # Nothing of the old cohort is left.
    assert server.update == 1
    assert not server.state["answered"].any()
    assert not server.state["sum"].any()


def test_sampling_of_everybody_waits_for_all():
    server = Server(FedAvgSampling(cohort_size=3), line(3, 6, 9))
    # All three train at w = 0: (3+6+9)/3/2 = 3 once the last has come; then all at w = 3: 3 + (0+3+6)/3/2 = 9/2.
    path = server.run(table({1}, {0, 1}, set(), {1, 2}, {0, 1, 2}))[1:, 0].tolist()
    assert path == pytest.approx([0, 0, 0, 3, 9 / 2], abs=1e-12)


def test_cohort_depends_on_seed_and_update_alone():
    rule, n = FedAvgSampling(cohort_size=3, seed=5), 8
    drawn = [cohort(rule, n, k) for k in range(50)]
    assert all(len(set(some)) == 3 for some in drawn)
    assert drawn == [cohort(FedAvgSampling(cohort_size=3, seed=5), n, k, round=7 * k + 1) for k in range(50)]
    assert drawn != [cohort(FedAvgSampling(cohort_size=3, seed=6), n, k) for k in range(50)]
    assert len(set(map(tuple, drawn))) > 20  # of C(8, 3) = 56
    # Who is there doesn't matter.
    assert torch.equal(rule.cohort(info(n)), rule.cohort(RoundInfo(0, 0, 0.5, n, ~info(n).available, shares(*[1] * n))))


def test_slow_and_quick_devices_meet_the_same_cohorts():
    def met(masks) -> list[list[int]]:
        server, seen = Server(FedAvgSampling(cohort_size=2, seed=1), line(3, 6, 9)), []
        for available in masks:
            now = cohort(server.rule, 3, server.update)
            if server.play(available)[1] is not None:
                seen.append(now)
        return seen

    quick = met(ALL.repeat(6, 1))
    slow = met(table(*[{t % 3} for t in range(40)]))  # one device at a time: several rounds for every cohort
    assert len(quick) == 6
    assert slow[:6] == quick


def test_cohorts_are_uniform():
    n, size, updates = 5, 2, 2000
    rule = FedAvgSampling(cohort_size=size)
    drawn = [tuple(cohort(rule, n, k)) for k in range(updates)]
    # Each device is in a share S/N = 2/5 of the cohorts, each pair makes up 1/C(5, 2) = 1/10 of them: within four
    # standard deviations √(T q (1-q)) of T q, that is 800 ± 88 and 200 ± 54.
    for counts, q in (
        ([sum(i in some for some in drawn) for i in range(n)], size / n),
        ([drawn.count(pair) for pair in combinations(range(n), size)], 1 / 10),
    ):
        assert all(abs(count - updates * q) < 4 * (updates * q * (1 - q)) ** 0.5 for count in counts)


def test_cohort_size_is_checked():
    for bad in (0, -1, 2.5, True):
        with pytest.raises(ConfigError, match="cohort_size"):
            FedAvgSampling(cohort_size=bad)
    assert FedAvgSampling(cohort_size=3).check(3, LocalSGD(0.1)) == []
    (fault,) = FedAvgSampling(cohort_size=4).check(3, LocalSGD(0.1))
    assert "cohort_size=4" in fault
    assert "num_clients=3" in fault
