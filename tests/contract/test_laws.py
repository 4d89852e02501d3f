"""Every law can fail: a rule that breaks it is caught, and told why."""

import datetime
import random
import sys
import time

import numpy as np
import pytest
import torch
from broken_api import DoesNotSay
from broken_rules import BROKEN, RoundsTooLate, SumsInFloat32

from impatient.aggregators.fedavg_all import FedAvgAll
from impatient.aggregators.fedavg_is import FedAvgIS
from impatient.aggregators.mifa import MIFA
from impatient.contract import runs
from impatient.contract.failing import BrokenError
from impatient.contract.laws import LAWS
from impatient.contract.outside import nothing_from_outside
from impatient.contract.threads import OutOfStepError, together
from impatient.contract.trial import Trial
from impatient.ranks import Ranks


@pytest.mark.parametrize(("law", "rule", "why"), BROKEN, ids=lambda v: getattr(v, "__name__", None))
def test_a_broken_law_is_found(law, rule, why) -> None:
    with pytest.raises(BrokenError, match=why):
        LAWS[law](Trial(rule))


def test_every_law_is_broken_by_somebody() -> None:
    assert {law for law, _, _ in BROKEN} == LAWS.keys()


# What cannot be tried ------------------------------------------------------------------------------------------------


def test_laws_of_memory_are_not_tried_without_it() -> None:
    for rule in (FedAvgAll, FedAvgIS):
        assert "no memory" in (LAWS["local"](Trial(rule)) or "")
        assert "no memory" in (LAWS["stored"](Trial(rule)) or "")
    assert "recomputed" in (LAWS["stored"](Trial(DoesNotSay)) or "")
    assert LAWS["stored"](Trial(MIFA)) is None


@pytest.mark.parametrize("rule", [RoundsTooLate, SumsInFloat32])
@pytest.mark.parametrize("init", ["wait_all", "zero", "average_seen"])
@pytest.mark.parametrize("normalise", [True, False])
def test_drift_is_found_in_every_variant(rule, init: str, normalise: bool) -> None:
    with pytest.raises(BrokenError, match="drifts"):
        runs.stored_rows_and_state_agree(Trial(lambda: rule(init, normalise)))


def test_more_clients_than_a_chunk_holds() -> None:
    assert LAWS["honest when one fails"](Trial(MIFA, 150)) is None  # the driver's chunk is 100


# Outside -------------------------------------------------------------------------------------------------------------


def test_the_generators_are_left_as_they_were() -> None:
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    first = torch.rand(2).tolist(), np.random.rand(), random.random()
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    with nothing_from_outside():
        pass
    with pytest.raises(BrokenError, match="of torch"), nothing_from_outside():
        torch.rand(5)
    assert (torch.rand(2).tolist(), np.random.rand(), random.random()) == first
    assert sys.getprofile() is None


@pytest.mark.parametrize(
    "read", [time.time, time.perf_counter_ns, datetime.datetime.now, datetime.date.today, time.localtime]
)
def test_every_clock_is_watched(read) -> None:
    with pytest.raises(BrokenError, match=f"clock: {read.__name__}, at .*test_laws.py"), nothing_from_outside():
        read()


def test_a_fork_of_the_generator_is_allowed() -> None:
    with nothing_from_outside(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        torch.rand(1)


# Ranks ---------------------------------------------------------------------------------------------------------------


def test_threads_sum_and_unite_as_ranks_do() -> None:
    def work(ranks: Ranks) -> tuple[list[int], float, list[int]]:
        own = ranks.own(torch.arange(7))
        total = ranks.sum(own.double().sum())
        return own.tolist(), total.item(), ranks.union(own[:1], 7).tolist()

    # Rank r of 3 has r, r+3, …; 0 + … + 6 = 21; the first of each are 0, 1, 2.
    own = [[0, 3, 6], [1, 4], [2, 5]]
    assert together(3, work) == [(some, 21.0, [0, 1, 2]) for some in own]


def test_ranks_out_of_step_do_not_hang() -> None:
    with pytest.raises(OutOfStepError, match=r"has ended|different sums"):
        together(2, lambda ranks: ranks.sum(torch.zeros(1)) if ranks.rank else None)
    with pytest.raises(OutOfStepError, match="different sums"):
        together(2, lambda ranks: ranks.sum(torch.zeros(1 + ranks.rank)))

    def fails(ranks: Ranks) -> None:
        if ranks.rank == 1:
            raise KeyError("mine")
        ranks.sum(torch.zeros(1))

    with pytest.raises(KeyError, match="mine"):
        together(3, fails)
