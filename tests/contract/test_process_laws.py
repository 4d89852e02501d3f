"""Every law of availability can fail: a process that breaks it is caught, told why, and breaks no other."""

import math
from pathlib import Path

import pytest
import torch
from broken_processes import BROKEN_PROCESSES, CountsUp

from impatient.availability.always import Always
from impatient.availability.base import Availability
from impatient.availability.bernoulli import Bernoulli
from impatient.availability.markov import Markov
from impatient.contract.failing import BrokenError
from impatient.contract.process_chance import SEEDS, tolerance
from impatient.contract.process_laws import PROCESS_LAWS
from impatient.contract.process_trial import ProcessTrial
from impatient.contract.verdict import judge


@pytest.mark.parametrize(("law", "process", "why"), BROKEN_PROCESSES, ids=lambda v: getattr(v, "__name__", None))
def test_a_broken_law_is_found(law, process, why) -> None:
    with pytest.raises(BrokenError, match=why):
        PROCESS_LAWS[law](ProcessTrial(process))
    report = judge(ProcessTrial(process), PROCESS_LAWS)
    assert report.named("broken") == [law]
    assert not report.raised


def test_every_law_is_broken_by_somebody() -> None:
    assert {law for law, _, _ in BROKEN_PROCESSES} == PROCESS_LAWS.keys()


class GlobalCoins(Bernoulli):
    def coins(self, round):
        return torch.rand(self.num_clients, dtype=torch.float64)


def test_a_global_generator_breaks_more_than_one() -> None:
    assert judge(ProcessTrial(GlobalCoins), PROCESS_LAWS).named("broken") == ["order", "added client", "outside"]


def test_an_error_is_said_once_with_the_line_of_the_process() -> None:
    """Not that of Chain, which calls its step."""
    (line,) = judge(ProcessTrial(CountsUp), PROCESS_LAWS).raised
    source = Path(__file__).with_name("broken_processes.py")
    head, _, number = line.rpartition(":")
    assert head == f"mask raises ZeroDivisionError: integer division or modulo by zero, at {source}"
    assert "// 0" in source.read_text().splitlines()[int(number) - 1]


# What cannot be tried ------------------------------------------------------------------------------------------------


class Unknown(Availability):
    """Somebody else in every round, and nothing is told of it."""

    def mask(self, round):
        return torch.arange(self.num_clients) % 3 == round % 3


def not_tried(make) -> dict[str, str]:
    report = judge(ProcessTrial(make), PROCESS_LAWS)
    assert not report.named("broken")
    assert not report.raised
    return {verdict.law: verdict.why for verdict in report.verdicts if verdict.outcome == "not tried"}


def test_what_gives_nothing_to_try_says_so() -> None:
    nobody = "absent names nobody"
    unknown = "prob is not known"
    assert not_tried(Unknown) == {
        "seed": f"{unknown}: it may be that nothing is left to chance", "prob": unknown, "absent": nobody,
    }  # fmt: skip
    assert not_tried(Always) == {"seed": "every chance is 0 or 1, or all but that", "absent": nobody}
    assert not_tried(lambda: Bernoulli(1e-3)) == {"seed": "every chance is 0 or 1, or all but that", "absent": nobody}
    ten = "p: has 10 entries for num_clients=11: give 11 entries, or one number"
    assert not_tried(lambda: Bernoulli([0.0] + [0.4] * 9)) == {
        "added client": f"the config fits no other number of clients: {ten}"
    }


def test_data_without_classes() -> None:
    assert not judge(ProcessTrial(Bernoulli, num_classes=0), PROCESS_LAWS).named("broken")


# Chance --------------------------------------------------------------------------------------------------------------


def test_the_tolerance_is_bernsteins() -> None:
    """One sum of variance V: 2 exp(-x²/(2V + 2x/3)) = 10^-9 at the tolerance x, shared by as many sums as there are."""
    for variance in (0.0, 1.0, 250.0):
        for sums in (1, 20):
            x = float(tolerance(torch.full((sums,), variance, dtype=torch.float64))[0])
            assert sums * 2 * math.exp(-(x**2) / (2 * variance + 2 * x / 3)) == pytest.approx(1e-9)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("told", [True, False])
def test_the_mean_of_a_correlated_process_has_less_variance_than_is_allowed_for(correlation, told) -> None:
    """Exactly: Var(mean of T rounds) = p(1-p)/T²·Σ_{t,u} λ^|t-u|; the bound is (1+λ)/(1-λ), or T, of p(1-p)/T."""
    from impatient.contract.process_chance import _alike

    process = ProcessTrial(lambda: Markov(0.3, correlation=correlation)).process()
    if not told:
        process.knows = lambda round: {}
    for rounds in (1, 2, 20):
        lags = (torch.arange(rounds)[:, None] - torch.arange(rounds)).abs()
        exact = (correlation ** lags.double()).sum() / rounds
        assert exact <= _alike(process, rounds).max() + 1e-12


def test_a_true_process_is_nowhere_near_its_tolerance() -> None:
    """x > √(2·level·V), and level = ln(2/10^-9) > 18: more than six standard deviations."""
    variance = torch.tensor([SEEDS * 0.25])
    assert tolerance(variance) > 6 * variance.sqrt()
