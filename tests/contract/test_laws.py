"""Every law can fail: a rule that breaks it is caught, and told why."""

from pathlib import Path
from typing import Any

import pytest
import torch

from impatient.aggregators.fedavg_all import FedAvgAll
from impatient.aggregators.fedavg_biased import FedAvgBiased
from impatient.aggregators.mifa import MIFA
from impatient.contract import laws
from impatient.contract.laws import LAWS
from impatient.contract.trial import Trial
from impatient.messages import ClientPlan, Traffic


class MeanOfAChunk(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        return {"update": -report.delta.sum(0).double() / max(1, len(report.ids))}, {}


class NoKeysForNobody(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        return super().collect(state, rows, params, report, info) if len(report.ids) else ({}, {})


class TouchesAll(MIFA):
    def after(self, state, params, info):
        return torch.arange(info.num_clients), {"G": torch.zeros(info.num_clients, len(params))}


class NotAsStored(MIFA):
    def collect(self, state, rows, params, report, info):
        _, new = super().collect(state, rows, params, report, info)
        exact = -report.delta / info.lr
        change = info.weight[report.ids] @ (exact.double() - rows["G"].double())
        return {"change": change}, new


class CountsOnSelf(FedAvgAll):
    rounds = 0

    def step(self, state, sums, params, reported, info):
        self.rounds += 1
        return sums["update"] / self.rounds, state


class KnowsItsChunk(MIFA):
    def plan(self, state, rows, params, info):
        return ClientPlan(shift=torch.full_like(rows["G"], len(rows["G"])).to(params))


class AsksTheAbsent(FedAvgAll):
    def select(self, state, info):
        return torch.arange(info.num_clients)


class BooksQuestions(MIFA):
    def step(self, state, sums, params, reported, info):
        return super().step(state, sums, params, self.select(state, info), info)


class DividesByNobody(FedAvgBiased):
    def step(self, state, sums, params, reported, info):
        return sums["update"] / sums["weight"], state


class ChangesItsState(MIFA):
    def step(self, state, sums, params, reported, info):
        state["mean"] += sums["change"]
        return info.lr * state["mean"], state


class HalfBytes(FedAvgAll):
    def traffic(self, num_selected, num_params, num_clients):
        return {"plain": Traffic(num_selected * 0.5, num_selected * 0.5, 0, 0)}


class AwaitsUnsaid(FedAvgAll):
    def awaited(self, state, info):
        return torch.arange(info.num_clients)


BROKEN = [
    ("sum", MeanOfAChunk, "do not add up"),
    ("sum", NoKeysForNobody, "of a part"),
    ("local", TouchesAll, "did not report"),
    ("stored", NotAsStored, "drifts"),
    ("resume", CountsOnSelf, "the weights differ"),
    ("world", KnowsItsChunk, "the weights differ"),
    ("honest", AsksTheAbsent, "not there"),
    ("honest when one fails", BooksQuestions, "is not the same as"),
    ("empty", DividesByNobody, "nobody is there"),
    ("self", ChangesItsState, "state was changed in place"),
    ("self", CountsOnSelf, "kept on self"),
    ("traffic", HalfBytes, "no byte counts"),
    ("says", AwaitsUnsaid, "never does"),
]


@pytest.mark.parametrize(("law", "rule", "why"), BROKEN, ids=lambda v: getattr(v, "__name__", None))
def test_a_broken_law_is_found(law: str, rule: Any, why: str) -> None:
    recompute = lambda rows, weight: {"mean": weight @ rows["G"].double()}  # noqa: E731
    with pytest.raises(AssertionError, match=why):
        LAWS[law](Trial(rule, recompute=recompute))


def test_every_law_is_broken_by_somebody() -> None:
    assert {law for law, _, _ in BROKEN} == LAWS.keys()


def test_what_cannot_be_tried_says_so() -> None:
    assert "State sums up" in (laws.stored_rows_and_state_agree(Trial(MIFA)) or "")


MINE = """
from impatient.aggregators.fedavg_all import FedAvgAll
class Mine(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        return {"update": -report.delta.mean(0).double()}, {}
"""


def test_check_py_names_the_broken_laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from test_cli import python

    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    output = python(
        "check.py", "++algo._target_=mine.Mine", "~algo.init", "~algo.normalise_by_lr", "num_clients=6", code=1
    )
    assert "Traceback" not in output
    assert "laws broken: sum" in output


@pytest.mark.slow
def test_check_py_on_rules_that_ship() -> None:
    from test_cli import python

    output = python("check.py", "algo=fedavg_biased", "num_clients=6")
    assert "no law is broken" in output
    output = python("check.py", "algo=fedavg_sampling", "num_clients=6", code=1)
    assert "algo.cohort_size=50: more than there are" in output
    assert "Traceback" not in output
