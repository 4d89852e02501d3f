"""One round: who is asked, who answers, how many steps they make, and what the rule is given when.

Three clients on a line, u = (3, 6, 9), w_0 = 0, η = 1/2: K steps give U_i = (1 - 2^-K)(w - u_i).
"""

from dataclasses import replace

import pytest
import torch

from impatient.aggregators.fedavg_all import FedAvgAll
from impatient.aggregators.mifa import MIFA
from impatient.contract.federation import Server, line
from impatient.engine.batched import Batched
from impatient.messages import ClientPlan, Slot
from impatient.round import AbsentClientError, BadDirectionError, Round

ALL = torch.ones(3, dtype=torch.bool)


class Remembers(FedAvgAll):
    """Keeps each client's update and number of steps, and what else it is given."""

    slots = {"U": Slot()}
    needs = frozenset({"grad", "grad_last"})

    def __init__(self, **plan):
        self.told, self.seen = plan, []

    def plan(self, state, ids, rows, params, info):
        return ClientPlan(**{name: value[ids] for name, value in self.told.items()})

    def collect(self, state, rows, params, report, info):
        self.seen.append(report)
        return super().collect(state, rows, params, report, info)[0], {"U": report.update}


class Counts(Batched):
    """Remembers for whom it computes."""

    def __init__(self, clients):
        self.clients, self.asked = clients, []

    def gradients(self, task, work, w):
        self.asked += work.ids.tolist()
        return self.clients.gradients(task, work, w)


def play(rule, now, steps=3, chunk=100):
    server = Server(rule, line(3, 6, 9), steps=steps, chunk=chunk)
    engine = Counts(server.clients)
    return server, engine, replace(server.federation, engine=engine).play(server, now, server.w, server.move)


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_an_answer_that_does_not_get_through_is_as_if_the_client_had_not_been_there(chunk):
    server, engine, lost = play(Remembers(), Round(0, ALL, returns=torch.tensor([True, False, True])), chunk=chunk)
    other, _, absent = play(Remembers(), Round(0, torch.tensor([True, False, True])), chunk=chunk)
    assert engine.asked == [0, 2]  # nothing is computed that nobody gets
    assert lost.selected.tolist() == [0, 1, 2]
    assert lost.answers.reported.tolist() == absent.answers.reported.tolist() == [0, 2]
    assert lost.answers.skipped == 0
    assert torch.equal(server.w, other.w)
    assert torch.equal(server.memory.tables["U"], other.memory.tables["U"])
    assert not server.memory.tables["U"][1].any()


@pytest.mark.parametrize(
    ("work", "steps", "made"),
    [
        (None, None, [25, 25, 25]),
        # ⌈.28·25⌉ = 7, though .28·25 is 7.000000000000001 in floating point; ⌈.01·25⌉ = 1; 0 makes none.
        ([0.28, 0.01, 0.0], None, [7, 1, 0]),
        (None, [4, 30, 0], [4, 25, 0]),
        ([0.28, 1.0, 0.5], [9, 3, 40], [7, 3, 13]),  # the smaller of both; ⌈12.5⌉
    ],
)
@pytest.mark.parametrize("chunk", [1, 100])
def test_steps_are_the_least_of_what_is_there_told_and_worked(work, steps, made, chunk):
    told = {} if steps is None else {"steps": torch.tensor(steps)}
    rule, share = Remembers(**told), None if work is None else torch.tensor(work, dtype=torch.float64)
    server, _, played = play(rule, Round(0, ALL, work=share), steps=25, chunk=chunk)
    found = {int(i): int(k) for report in rule.seen for i, k in zip(report.ids, report.steps, strict=True)}
    assert found == {i: k for i, k in enumerate(made) if k}  # without a step there is no answer
    assert played.answers.reported.tolist() == sorted(found)
    assert played.answers.skipped == 0
    for i, u in enumerate((3, 6, 9)):
        assert server.memory.tables["U"][i].item() == pytest.approx(-(1 - 0.5 ** made[i]) * u, abs=1e-12)


def test_nobody_makes_a_step():
    server, _, played = play(Remembers(), Round(0, ALL, work=torch.zeros(3, dtype=torch.float64)))
    assert len(played.answers.reported) == 0
    assert played.direction is None
    assert not server.w.any()


def test_gradients_come_where_the_rule_needs_them():
    rule = Remembers()
    play(rule, Round(0, ALL), steps=2)
    # w - u = -3, -6, -9, then half of it: the mean is three quarters, the last one half.
    u = torch.tensor([[3.0], [6], [9]], dtype=torch.float64)
    torch.testing.assert_close(rule.seen[0].grad, -0.75 * u)
    torch.testing.assert_close(rule.seen[0].grad_last, -0.5 * u)
    rule.needs = frozenset()
    play(rule, Round(0, ALL))
    assert rule.seen[-1].grad is rule.seen[-1].grad_last is None


def test_a_plan_is_cast_once():
    """Rows in float64 or bfloat16 beside a float32 model: what clients are told is float32, on whatever engine."""
    for rows in (torch.float64, torch.bfloat16):
        rule = Remembers(shift=torch.ones(3, 1, dtype=rows), rate=torch.ones(3, dtype=rows))
        server = Server(rule, line(3, 6, 9), dtype=torch.float32, rows=rows)
        server.play(ALL)
        assert rule.seen[-1].update.dtype == rule.seen[-1].grad.dtype == torch.float32


class Late(MIFA):
    """Writes after the step how far the model has moved, for those that reported."""

    slots = {**MIFA.slots, "moved": Slot()}

    def after(self, state, before, params, reported, info):
        return reported, {"moved": (params - before).expand(len(reported), -1)}


def test_after_is_told_both_models_and_who_reported():
    server = Server(Late("zero"), line(3, 6, 9))
    server.play(torch.tensor([True, False, True]))
    # Ḡ = -(3 + 9)/3 = -4, so w moves by 2.
    assert server.memory.tables["moved"].flatten().tolist() == [2, 0, 2]


class Wild(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        return sums["update"] / 0, state


class Pushy(FedAvgAll):
    def select(self, state, info):
        return torch.arange(info.num_clients) - info.num_clients


def test_what_cannot_go_on_is_said_before_the_model_moves():
    with pytest.raises(BadDirectionError, match=r"round 4: the server's direction is not finite; lower client\.lr or"):
        play(Wild(), Round(4, ALL))
    with pytest.raises(AbsentClientError, match="round 4: Pushy selected a client that is not available"):
        play(Pushy(), Round(4, ALL))
