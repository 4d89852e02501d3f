"""What must hold between the rules and their limits; the numbers are those of the list of identities in the spec."""

import pytest
import torch
from torch import Tensor, nn

from impatient.aggregators.fedavg_all import FedAvgAll
from impatient.aggregators.fedavg_biased import FedAvgBiased
from impatient.aggregators.fedavg_is import FedAvgIS
from impatient.aggregators.fedavg_sampling import FedAvgSampling
from impatient.aggregators.mifa import MIFA
from impatient.contract.federation import Bowls, Server, bowls, coins, line, shares, table
from impatient.data.dataset import Dataset, Normalise
from impatient.data.quadratic import half_square
from impatient.engine.local import LocalSGD, Task, Work
from impatient.engine.loop import Loop
from impatient.flat import FlatModel
from impatient.messages import ClientPlan
from impatient.models.quadratic import Quadratic

N, P = 5, 3
WEIGHT = shares(1, 2, 3, 4, 5)
INITS = ("wait_all", "zero", "average_seen")


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


# 2. All active ------------------------------------------------------------------------------------------------------

SAME_WHEN_ALL_ARE_THERE = [
    *(MIFA(init, normalise) for init in INITS for normalise in (True, False)),
    FedAvgAll(),
    FedAvgIS(),
    FedAvgSampling(cohort_size=N),
]


@pytest.mark.parametrize("weight", [shares(*[1] * N), WEIGHT])
def test_all_rules_agree_when_everybody_is_there(weight: Tensor):
    ones = torch.ones(N, dtype=torch.float64)
    always = torch.ones(20, N, dtype=torch.bool)
    options = {"lr": 0.2, "decay": "inverse_sqrt", "steps": 3}
    biased = Server(FedAvgBiased(), bowls(N, P, noise=0.5), weight, ones, **options).run(always)
    assert biased.diff(dim=0).abs().min() > 0
    for rule in SAME_WHEN_ALL_ARE_THERE:
        close(Server(rule, bowls(N, P, noise=0.5), weight, ones, **options).run(always), biased)


# 5. Zero at first ---------------------------------------------------------------------------------------------------


def test_zero_start_counts_the_unseen_as_zeros():
    # Clients 3 and 4 never come. The sums below run over 0, 1, 2 only, their weights being shares of all five.
    masks = coins(torch.tensor([0.5, 0.5, 0.5, 0, 0]), 30, N)
    server = Server(MIFA("zero"), bowls(N, P), WEIGHT, lr=0.2, decay="inverse")
    for available in masks:
        lr = server.info(available).lr
        _, direction = server.play(available)
        close(direction, lr * (WEIGHT[:3] @ server.memory.tables["G"][:3]))
    assert not server.memory.tables["G"][3:].any()


# 12. Bias -----------------------------------------------------------------------------------------------------------

CHANCES = torch.tensor([0.8, 0.3], dtype=torch.float64)
ROUNDS = 4000


def end(rule, clock: str = "update") -> float:
    """w after 4,000 rounds of two clients u = (0, 100), η = 1/(k+1)."""
    server = Server(rule, line(0, 100), prob=CHANCES, lr=1.0, decay="inverse", clock=clock)
    return server.run(coins(CHANCES, ROUNDS, 2))[-1].item()


def test_biased_fedavg_drifts_to_whom_it_sees():
    # q_2 = [p2 (1-p1) + p1 p2/2] / [1 - (1-p1)(1-p2)] = (0.06 + 0.12)/0.86, so it tends to 20.93.
    p1, p2 = CHANCES.tolist()
    q2 = (p2 * (1 - p1) + p1 * p2 / 2) / (1 - (1 - p1) * (1 - p2))
    assert q2 == pytest.approx(0.18 / 0.86)
    # With η_k = 1/(k+1) w is the plain mean of the targets 0, 50, 100 of the ~3,440 rounds with somebody. A target has
    # the variance (2500·0.24 + 10000·0.06)/0.86 - 20.93² = 957, so the mean has the sd √(957/3440) = 0.53; 4 sd = 2.1.
    assert end(FedAvgBiased()) == pytest.approx(100 * q2, abs=2.1)


@pytest.mark.parametrize("init", INITS)
def test_mifa_is_not_biased(init: str):
    # (t+1)(w_{t+1} - 50) = t (w_t - 50) - δ_t, δ_t = mean_i (w of i's last answer) - w_t, about τ_i steps of at most
    # 50/t each. So w_T - 50 = -Σδ_t/T, at most mean τ · 50 · ln T/T = 1.3·50·8.3/4000 = 0.13 once all were heard.
    # (t counts updates.) Twice this, for the start.
    assert end(MIFA(init)) == pytest.approx(50, abs=0.27)


def test_importance_sampling_is_not_biased():
    # η = 1/(t+1) by rounds: T·var → 1/N² Σ (1-p_i)/p_i·50² = 625·(0.25 + 2.333) = 1615, so sd √(1615/4000) = 0.64.
    assert end(FedAvgIS(), clock="round") == pytest.approx(50, abs=4 * 0.64)


# 13. Fixed points ---------------------------------------------------------------------------------------------------

AVAILABILITIES = [
    coins(0.3, 1200, N),
    coins(torch.tensor([0.9, 0.1, 0.5, 0.2, 1.0]), 1200, N, seed=1),
    torch.eye(N, dtype=torch.bool).repeat(240, 1),  # one after the other
]


def limit(clients: Bowls, lr: float, steps: int) -> Tensor:
    """Where FedAvg with everybody stands still.

    K local steps take w - u_i to (1 - η h_i)^K (w - u_i), so U_i = c_i (w - u_i), c_i = 1 - (1 - η h_i)^K, and
    Σ a_i U_i = 0 at w = Σ a_i c_i u_i / Σ a_i c_i. K = 1: c_i = η h_i, which gives the minimum w* of Σ a_i F_i.
    """
    c = 1 - (1 - lr * clients.h) ** steps
    return (WEIGHT @ (c * clients.u)) / (WEIGHT @ c)


@pytest.mark.parametrize("masks", AVAILABILITIES)
@pytest.mark.parametrize("steps", [1, 5])
def test_mifa_stands_still_where_full_participation_does(steps: int, masks: Tensor):
    clients, lr = bowls(N, P), 0.1 / steps
    fixed, optimum = limit(clients, lr, steps), (WEIGHT @ (clients.h * clients.u)) / (WEIGHT @ clients.h)
    whole = Server(FedAvgBiased(), clients, WEIGHT, lr=lr, steps=steps).run(torch.ones(400, N, dtype=torch.bool))
    # A round contracts by 1 - K η Σ a_i h_i with K η = 0.1 and Σ a_i h_i from 1.2 to 1.4 here, about 0.88: 0.88^400 is
    # 1e-22. Stale answers slow MIFA down, hence its 1,200 rounds.
    torch.testing.assert_close(whole[-1], fixed, rtol=0, atol=1e-12)
    got = Server(MIFA(), clients, WEIGHT, lr=lr, steps=steps).run(masks)[-1]
    torch.testing.assert_close(got, fixed, rtol=0, atol=1e-12)
    off = (fixed - optimum).abs().max()
    assert off < 1e-12 if steps == 1 else off > 1e-3


# 14. Learning rates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", INITS)
def test_dividing_by_the_rate_matters_only_when_it_changes(init: str):
    masks = coins(0.5, 40, N)

    def run(normalise: bool, decay: str) -> Tensor:
        rule = MIFA(init, normalise_by_lr=normalise)
        return Server(rule, bowls(N, P), WEIGHT, lr=0.2, decay=decay, steps=2).run(masks)

    close(run(True, "none"), run(False, "none"))
    assert (run(True, "inverse") - run(False, "inverse")).abs().max() > 0.01


# Starts -------------------------------------------------------------------------------------------------------------


def test_the_three_starts_agree_once_everybody_came_in_round_0():
    masks = torch.cat([torch.ones(1, N, dtype=torch.bool), coins(0.4, 40, N)])
    waited, zero, seen = (
        Server(MIFA(init), bowls(N, P, noise=0.5), WEIGHT, lr=0.2, decay="inverse").run(masks) for init in INITS
    )
    close(waited, zero)
    close(seen, zero)


def test_waiting_shifts_the_run_when_the_last_device_comes_late():
    # Nobody but all at once from round 3 on: the same run, three rounds later.
    always = torch.ones(10, N, dtype=torch.bool)
    late = Server(MIFA(), bowls(N, P), WEIGHT, lr=0.2, decay="inverse")
    held = late.run(table(set(), set(), set(), n=N))
    assert not held.any()
    close(late.run(always), Server(MIFA(), bowls(N, P), WEIGHT, lr=0.2, decay="inverse").run(always))


# Names of clients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule", [*SAME_WHEN_ALL_ARE_THERE, FedAvgBiased()], ids=lambda rule: f"{type(rule).__name__}-{vars(rule)}"
)
def test_renaming_the_clients_changes_nothing(rule):
    clients, masks = bowls(N, P), coins(0.5, 40, N)
    prob = torch.tensor([0.9, 0.3, 0.6, 0.5, 0.8], dtype=torch.float64)
    order = torch.tensor([3, 0, 4, 2, 1])
    renamed = Bowls(clients.u[order], clients.h[order])
    one = Server(rule, clients, WEIGHT, prob, lr=0.1, decay="inverse_sqrt", steps=2)
    other = Server(rule, renamed, WEIGHT[order], prob[order], lr=0.1, decay="inverse_sqrt", steps=2)
    close(other.run(masks[:, order]), one.run(masks))


# The driver ---------------------------------------------------------------------------------------------------------


def test_the_driver_computes_what_the_loop_engine_does():
    u = bowls(N, P).u
    module: nn.Module = Quadratic((P,)).double()
    data = Dataset("line", u, torch.zeros(N, dtype=torch.int64), u, u, (), loss=half_square)
    task = Task(FlatModel(module, half_square), u, data.y, Normalise(data, torch.device("cpu"), torch.float64))
    ids = torch.tensor([4, 0, 2])
    w, sgd = torch.ones(P, dtype=torch.float64), LocalSGD(0.1, epochs=None, steps=3)
    index, count = ids[:, None, None].expand(3, 3, 1), torch.ones(3, 3, dtype=torch.int64)
    for plan in (ClientPlan(), ClientPlan(start=u[:3] + 1, shift=u[2:], prox=0.3)):
        args = (task, w, plan, Work(ids, index, count, 0.1, sgd, 0, 0))
        ours, theirs = Bowls(u, torch.ones_like(u)).run(*args), Loop().run(*args)
        for name in theirs.__dataclass_fields__:
            close(getattr(ours, name), getattr(theirs, name))
