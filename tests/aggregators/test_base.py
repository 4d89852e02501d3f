"""What every rule gets from the base: swapped rows, the bytes of a round, the defaults."""

import pytest
import torch

from impatient.aggregators.base import swap
from impatient.aggregators.fedavg_all import FedAvgAll
from impatient.aggregators.fedavg_sampling import FedAvgSampling
from impatient.messages import ClientPlan, ClientReport, Slot, Traffic


def test_swap_is_the_difference_of_what_is_stored():
    # bfloat16 has 8 bits: next to 1 and 2 lie multiples of 2^-7 and 2^-6, so 1.003 is stored as 1 and 2.02 as 2.015625.
    old = torch.tensor([[1.0], [2.0]], dtype=torch.bfloat16)
    change, stored = swap(torch.tensor([0.25, 0.75], dtype=torch.float64), old, torch.tensor([[1.003], [2.02]]))
    assert stored.dtype == torch.bfloat16
    assert stored.flatten().tolist() == [1.0, 2.015625]
    assert change.dtype == torch.float64
    assert change.tolist() == [0.75 * 0.015625]


class TwoTables(FedAvgAll):
    slots = {"a": Slot(), "b": Slot("params")}

    def init(self, params, num_clients):
        seen = torch.zeros(num_clients)
        return {"c": torch.zeros_like(params, dtype=torch.float64), "means": params.expand(3, -1), "seen": seen}


def test_default_traffic_counts_slots_and_state():
    # 10 float32 parameters: 40 bytes a model. Four were asked, three answered; five clients in all.
    (plain,) = FedAvgAll().traffic(4, 3, 10, 5).values()
    assert plain == Traffic(up=3 * 40, down=4 * 40, server=40, client=0)
    # The model, two tables of 5 rows, c and three means; what is [N] is no model.
    (kept,) = TwoTables().traffic(4, 3, 10, 5).values()
    assert kept.server == 40 * (1 + 2 * 5 + 1 + 3)
    (sampling,) = FedAvgSampling(2).traffic(0, 0, 10, 5).values()
    assert sampling.server == 2 * 40  # the model, and the sum of the answers so far


def test_plans_and_reports_are_cut_alike():
    plan = ClientPlan(shift=torch.arange(6.0).view(3, 2), prox=torch.arange(3.0), steps=torch.arange(3))
    some = plan.at(torch.tensor([2, 0]))
    assert some.start is some.rate is None
    assert (some.shift.tolist(), some.prox.tolist(), some.steps.tolist()) == ([[4, 5], [0, 1]], [2, 0], [2, 0])
    assert plan.at(1).shift.tolist() == [2, 3]
    cast = ClientPlan(prox=0.5, rate=torch.ones(2), steps=torch.ones(2)).cast(torch.zeros(3, dtype=torch.float64))
    assert (cast.prox, cast.rate.dtype, cast.steps.dtype) == (0.5, torch.float64, torch.int64)
    each = torch.arange(3)
    report = ClientReport(each, each.view(3, 1), each, each, each, each, grad=each.view(3, 1))
    kept = report.keep(torch.tensor([False, True, True]))
    assert kept.grad_last is None
    assert kept.grad.flatten().tolist() == kept.ids.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "default"), [("slots", {}), ("knowledge", frozenset()), ("needs", frozenset()), ("empty", "holds")]
)
def test_what_a_rule_says_of_itself_may_depend_on_its_options(name, default):
    given = {"slots": {"x": Slot()}, "knowledge": frozenset({"prob"}), "needs": frozenset({"grad"}), "empty": "steps"}
    says = type("Says", (FedAvgAll,), {name: property(lambda self: given[name] if self.on else default)})
    rule = says()
    rule.on = False
    assert getattr(rule, name) == getattr(FedAvgAll(), name) == default
    rule.on = True
    assert getattr(rule, name) == given[name]
