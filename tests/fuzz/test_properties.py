"""What holds for any labels, masks, chunks, ranks, weights and rates: on tiny problems, with hypothesis looking for the
exception. N clients minimise the quadratics of contract.federation; U_i = w - w_i is the update of client i.
"""

import runpy
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from impatient.aggregators.base import Aggregator
from impatient.aggregators.fedavg_all import FedAvgAll
from impatient.aggregators.fedavg_biased import FedAvgBiased
from impatient.aggregators.fedavg_is import FedAvgIS
from impatient.aggregators.fedavg_sampling import FedAvgSampling
from impatient.aggregators.mifa import MIFA
from impatient.checks import ConfigError
from impatient.contract.federation import Bowls, Server, bowls, shares
from impatient.contract.threads import together
from impatient.data.partition.base import verify
from impatient.data.partition.dirichlet import Dirichlet
from impatient.data.partition.dirichlet_equal import DirichletEqual
from impatient.data.partition.iid import Iid
from impatient.data.partition.two_class import TwoClass
from impatient.messages import Slot
from impatient.ranks import Ranks

ALGO = runpy.run_path(str(Path(__file__).parents[1] / "aggregators" / "algo_configs.py"))  # every configs/algo/*.yaml
FIXED = {"deadline": None, "derandomize": True, "database": None}
few, quick, many = (settings(max_examples=count, **FIXED) for count in (100, 200, 400))
PARTITIONS = st.sampled_from([TwoClass(), TwoClass(1), Iid(), Dirichlet(0.3), Dirichlet(100.0), DirichletEqual(0.1)])


@quick
@given(PARTITIONS, st.lists(st.integers(0, 40), min_size=2, max_size=6), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_a_partition_is_right_or_refused(partition, per_class, clients, seed):
    labels = np.random.RandomState(seed).permutation(np.repeat(np.arange(len(per_class)), per_class))
    try:
        split = partition.split(labels, len(per_class), clients, seed)
    except ConfigError:
        return  # refused, in words; any other exception is a bug
    verify(split, len(labels), clients)
    again = partition.split(labels, len(per_class), clients, seed)
    assert all(np.array_equal(a, b) for a, b in zip(split, again, strict=True))


# Ranks ---------------------------------------------------------------------------------------------------------------


class Remembers(FedAvgAll):
    """Writes rows after the step, too: each client at hand keeps the new model."""

    slots = {"model": Slot("params")}

    def after(self, state, before, params, reported, info):
        ids = self.select(state, info)
        return ids, {"model": params.expand(len(ids), -1)}


SIX = st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=5)  # the N of algo_configs
PROB = torch.tensor([0.9, 0.3, 0.6, 0.5, 0.8, 0.4], dtype=torch.float64)


@many
@given(st.sampled_from([*ALGO["CASES"], "after"]), SIX, st.integers(1, 4), st.integers(1, 6))
def test_ranks_and_chunks_do_not_matter(case, masks, world, chunk):
    """Client i trains on rank i mod W; a sum over A is the sum over ranks and chunks, so only its order may change.

    With N = 6 and W = 4 ranks have one client or two, and under most masks some rank has nobody.
    """

    def run(ranks: Ranks, chunk: int = chunk) -> Server:
        rule = Remembers() if case == "after" else ALGO["make"](case)
        mine = Server(rule, bowls(6, 3, noise=0.5), shares(1, 2, 3, 4, 5, 6), PROB, chunk=chunk, ranks=ranks)
        mine.run(torch.tensor(masks))
        return mine

    whole = run(Ranks(), chunk=100)
    assert bool(whole.w.isfinite().all())
    for server in together(world, run):
        near(server.w, whole.w)
        assert server.update == whole.update
        for name, value in whole.state.items():
            near(server.state[name], value)
        for name, rows in whole.memory.tables.items():
            near(server.memory.tables[name], rows[server.ranks.rank :: world])


# Rules ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """N clients with P parameters, their weights and chances, T masks, and how they train."""

    clients: Bowls
    weight: Tensor
    prob: Tensor
    masks: Tensor
    options: dict
    order: Tensor

    def server(self, rule: Aggregator, prob: Tensor | None = None, **options) -> Server:
        prob = self.prob if prob is None else prob
        return Server(rule, self.clients, self.weight, prob, **(self.options | options))


@st.composite
def problems(draw, most: int = 7) -> Problem:
    n, p, rounds = draw(st.integers(1, most)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    masks = draw(st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=rounds, max_size=rounds))
    return Problem(
        bowls(n, p, seed=draw(st.integers(0, 99))),
        shares(*draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))),
        torch.tensor(draw(st.lists(st.floats(0.05, 1), min_size=n, max_size=n)), dtype=torch.float64),
        torch.tensor(masks),
        {
            "lr": draw(st.floats(0.01, 0.5)),  # curvatures are at most 2: every local step contracts
            "decay": draw(st.sampled_from(["inverse", "inverse_sqrt", "none"])),
            "clock": draw(st.sampled_from(["update", "round"])),
            "steps": draw(st.integers(1, 4)),
        },
        torch.tensor(draw(st.permutations(range(n)))),
    )


STARTS = ("wait_all", "zero", "average_seen")


def near(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@few
@given(problems())
def test_when_everybody_is_there_every_rule_takes_the_same_step(problem):
    """With A = {1, …, N}, Σ_A a_i = 1 and p_i = 1, so every FedAvg rule steps by Σ a_i U_i.

    MIFA's table is fresh in every row: η·Σ a_i (U_i/η) = Σ a_i U_i, whatever the rate was before, normalised or not.
    All were heard, so wait_all does not wait and average_seen divides by 1.
    """
    n = len(problem.weight)
    everybody, ones = torch.ones(len(problem.masks), n, dtype=torch.bool), torch.ones(n, dtype=torch.float64)
    plain = problem.server(FedAvgAll(), ones).run(everybody)
    assert bool((plain[1] != plain[0]).any())
    for rule in (
        FedAvgBiased(),
        FedAvgIS(),
        FedAvgSampling(n),
        *(MIFA(*two) for two in product(STARTS, (True, False))),
    ):
        near(problem.server(rule, ones).run(everybody), plain)


def array_form(problem: Problem, start: str, normalise: bool) -> list[tuple[Tensor, Tensor]]:
    """Algorithm 1 of Gu et al. with all N updates in a table, summed afresh: (Σ a_i G_i, w) after every round."""
    clients, weight, lr = problem.clients, problem.weight, problem.options["lr"]
    w, table = torch.zeros(clients.u.shape[1], dtype=torch.float64), torch.zeros_like(clients.u)
    heard, update, seen = torch.zeros(len(weight), dtype=torch.bool), 0, []
    for t, there in enumerate(problem.masks):
        k = update if problem.options["clock"] == "update" else t
        rate = lr / {"inverse": k + 1, "inverse_sqrt": (k + 1) ** 0.5, "none": 1}[problem.options["decay"]]
        waiting = start == "wait_all" and not heard.all()
        for i in range(len(weight)):
            if there[i] and not (waiting and heard[i]):
                # K steps on ½ h (w - u)² take w - u to (1 - ηh)^K (w - u).
                u = (w - clients.u[i]) * (1 - (1 - rate * clients.h[i]) ** problem.options["steps"])
                table[i] = u / rate if normalise else u
        heard = heard | there
        total = (weight[:, None] * table).sum(0)
        held = not (heard.all() if start == "wait_all" else heard.any() or start == "zero")
        if not held:
            divisor = weight[heard].sum() if start == "average_seen" else 1
            w, update = w - (rate if normalise else 1) * total / divisor, update + 1
        seen.append((total, w))
    return seen


@quick
@given(problems(), st.sampled_from(STARTS), st.booleans())
def test_the_running_mean_is_the_array_form(problem, start, normalise):
    """Ḡ_t - Ḡ_{t-1} = Σ_A a_i (G_i^new - G_i^old) telescopes to Ḡ_t = Σ a_i G_i over all N, whoever came when."""
    server = problem.server(MIFA(start, normalise))
    for mask, (total, w) in zip(problem.masks, array_form(problem, start, normalise), strict=True):
        server.play(mask)
        near(server.state["mean"], total)
        near(server.w, w)


@quick
@given(problems())
def test_the_fedavg_rules_differ_by_their_divisor_alone(problem):
    """From one model: all Σ_A a_i U_i; IS Σ_A a_i U_i/p_i, the same for p = 1; biased Σ_A a_i U_i / Σ_A a_i."""
    ones = torch.ones_like(problem.weight)
    importance, plain = (problem.server(rule, ones).run(problem.masks) for rule in (FedAvgIS(), FedAvgAll()))
    assert torch.equal(importance, plain)
    for mask in problem.masks:
        alone = [problem.server(rule).play(mask)[1] for rule in (FedAvgAll(), FedAvgBiased())]
        if not mask.any():
            assert alone == [None, None]
            continue
        near(alone[1] * problem.weight[mask].sum(), alone[0])


@few
@given(problems(5))
def test_importance_sampling_is_unbiased(problem):
    """E Σ_A (a_i/p_i) U_i = Σ_i P(i ∈ A) (a_i/p_i) U_i = Σ_i a_i U_i: over all 2^N masks, each with its chance.

    Without 1/p_i (FedAvg over all) the same sum gives Σ_i a_i p_i U_i.
    """
    n, start = len(problem.weight), problem.clients.u.mean(0) + 1
    update = _updates(problem, start)
    found = {FedAvgIS: torch.zeros_like(start), FedAvgAll: torch.zeros_like(start)}
    for bits in product((False, True), repeat=n):
        mask = torch.tensor(bits)
        chance = torch.where(mask, problem.prob, 1 - problem.prob).prod()
        for rule in found:
            server = problem.server(rule())
            server.w = start
            direction = server.play(mask)[1]
            if direction is not None:
                found[rule] += chance * direction
    near(found[FedAvgIS], problem.weight @ update)
    near(found[FedAvgAll], (problem.weight * problem.prob) @ update)


def _updates(problem: Problem, w: Tensor) -> Tensor:
    """U_i [N, P] = (1 - (1 - η h_i)^K)(w - u_i), in round 0."""
    clients = problem.clients
    return (1 - (1 - problem.options["lr"] * clients.h) ** problem.options["steps"]) * (w - clients.u)


@quick
@given(problems(), st.sampled_from([case for case in ALGO["CASES"] if "cohort_size" not in case]))
def test_the_order_of_clients_changes_only_rounding(problem, case):
    """Every rule but sampling, whose cohorts are drawn by id, sums over sets: renaming i to π(i) permutes the terms."""
    order, n = problem.order, len(problem.weight)
    rule = FedAvgSampling(n) if case == "algo=fedavg_sampling_all" else ALGO["make"](case)
    moved = Bowls(problem.clients.u[order], problem.clients.h[order])
    renamed = Server(rule, moved, problem.weight[order], problem.prob[order], **problem.options)
    server = problem.server(rule)
    near(renamed.run(problem.masks[:, order]), server.run(problem.masks))
    for name, rows in server.memory.tables.items():
        near(renamed.memory.tables[name], rows[order])
