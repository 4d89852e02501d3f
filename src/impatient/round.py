"""One communication round, free of any framework: select → plan → local steps → collect → step → move → after."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from impatient.aggregators.base import Aggregator, ids_of
from impatient.data.rounds import Batches
from impatient.engine.local import Engine, LocalSGD, Task, Work
from impatient.memory import ClientMemory
from impatient.messages import ClientPlan, ClientReport, Flat, Ids, RoundInfo, State, Sums
from impatient.ranks import Ranks

log = logging.getLogger(__name__)


class BadUpdateError(RuntimeError):
    """A client's update is not finite."""


class BadDirectionError(BadUpdateError):
    """The direction made of the updates is not finite."""


class AbsentClientError(RuntimeError):
    """A rule selected a client that is not available."""


class Round:
    """What availability says of one round, all on the CPU.

    available: bool [N]; knows: what the rule is told (RoundInfo.knows); returns: bool [N], whose answer gets through;
    work: float64 [N] in [0, 1], the share of its local steps that client i makes, or None for all of them.

    A plain class: of a dataclass, a tuple or a mapping Lightning would round the floats to the trainer's precision.
    """

    def __init__(
        self,
        round: int,
        available: Tensor,
        knows: Mapping[str, Tensor] | None = None,
        returns: Tensor | None = None,
        work: Tensor | None = None,
    ) -> None:
        self.round, self.available, self.knows = round, available, knows or {}
        self.returns, self.work = torch.ones_like(available) if returns is None else returns, work


@dataclass
class ServerState:
    """What lasts from round to round, beside the model: the rule's state, its memory rows, and the update clock."""

    state: State
    memory: ClientMemory
    update: int = 0


@dataclass(frozen=True)
class Answers:
    """What clients sent: the rule's sums; who reported, int64 [A]; their mean local loss; the number of bad updates."""

    sums: Sums
    reported: Ids
    loss: float
    skipped: int


@dataclass(frozen=True)
class Played:
    """One round: what the rule knew; whom it selected, int64 [A]; what they sent; the direction [P] or None."""

    info: RoundInfo
    selected: Ids
    answers: Answers
    direction: Flat | None


@dataclass(frozen=True)
class Federation:
    """What stays the same in a run.

    weight: a_i, float64 [N]; draw(ids, round) gives the batches of some clients; seed: that of the batches; chunk: how
    many clients train at a time; skip_bad: drop an update that is not finite as if its client had not been there.
    """

    rule: Aggregator
    engine: Engine
    task: Task
    client: LocalSGD
    weight: Tensor
    draw: Callable[[Ids, int], Batches]
    seed: int = 0
    chunk: int = 16
    skip_bad: bool = False
    ranks: Ranks = field(default_factory=Ranks)

    def play(self, server: ServerState, now: Round, params: Flat, move: Callable[[Flat | None], Flat]) -> Played:
        """One round from the model [P]; move(direction) moves it, None holds it, and gives back where it then is.

        Raises AbsentClientError, BadUpdateError naming client and round, and BadDirectionError.
        """
        info = self.info(server, now)
        selected = self.select(server, info)
        answers = self.ask(server, now, params, selected)
        direction, server.state = self.rule.step(server.state, answers.sums, params, answers.reported, info)
        if direction is not None and not bool(direction.isfinite().all()):
            what = f"round {now.round}: the server's direction is not finite"
            raise BadDirectionError(f"{what}; lower client.lr or server.lr")
        moved = move(direction)
        server.update += direction is not None
        late = self.rule.after(server.state, params, moved, answers.reported, info)
        if late is not None:
            ids, rows = late
            here = self.ranks.here(ids)
            server.memory.write(ids[here], {name: row[here.to(row.device)] for name, row in rows.items()})
        return Played(info, selected, answers, direction)

    def info(self, server: ServerState, now: Round) -> RoundInfo:
        """What the rule may know."""
        rate, n = self.client.rate(now.round, server.update), len(self.weight)
        return RoundInfo(now.round, server.update, rate, n, now.available, self.weight, now.knows)

    def select(self, server: ServerState, info: RoundInfo) -> Ids:
        """Whom the rule asks. Raises AbsentClientError: an unavailable device never computes."""
        ids = self.rule.select(server.state, info)
        if not bool(torch.isin(ids, ids_of(info.available)).all()):
            name = type(self.rule).__name__
            raise AbsentClientError(f"round {info.round}: {name} selected a client that is not available")
        return ids

    def ask(self, server: ServerState, now: Round, params: Flat, selected: Ids) -> Answers:
        """Let those whose answer gets through train, a chunk at a time, each on its own rank, and fold their answers.

        Memory rows of those that reported are replaced.
        """
        info = self.info(server, now)
        sums: Sums = {}
        reported: list[Ids] = []
        losses: list[Tensor] = []
        bad = 0
        for some in self.ranks.own(selected[now.returns[selected]]).split(self.chunk):
            rows = server.memory.read(some, params.device)
            plan = self.rule.plan(server.state, some, rows, params, info).cast(params)
            batches = self._batches(some, plan, now)
            index, count = batches.index, batches.count
            work = Work(some, index, count, info.lr, self.client, self.seed, now.round, self.rule.needs)
            report = self.engine.run(self.task, params, plan, work)
            good = _finite(report)
            if not good.all():
                self._complain(some[~good], info)
                bad += int((~good).sum())
            there = good & (batches.steps > 0)  # no step, no answer
            if not there.all():
                report, rows = report.keep(there), {name: row[there.to(row.device)] for name, row in rows.items()}
            more, new = self.rule.collect(server.state, rows, params, report, info)
            server.memory.write(report.ids, new)
            sums = {name: sums[name] + value for name, value in more.items()} if sums else more
            reported.append(report.ids)
            losses.append(report.loss)
        loss = torch.cat(losses).to("cpu", torch.float64).sum()
        # The only collectives of a round: O(P), and O(N) bits.
        sums = {name: self.ranks.sum(value) for name, value in sums.items()}
        who = self.ranks.union(torch.cat(reported), info.num_clients)
        total, skipped = self.ranks.sum(torch.stack([loss, torch.tensor(bad).to(loss)])).tolist()
        return Answers(sums, who, total / len(who) if len(who) else float("nan"), int(skipped))

    def _batches(self, ids: Ids, plan: ClientPlan, now: Round) -> Batches:
        """The batches that clients walk through: of client i the first min(steps_i, ⌈work_i·K_i⌉) of its K_i."""
        batches = self.draw(ids, now.round)
        if plan.steps is None and now.work is None:
            return batches
        steps = batches.steps
        if now.work is not None:
            steps = (now.work[ids] * steps).round(decimals=9).ceil().to(torch.int64)  # .28 · 25 is 7.000000000000001
        return batches.first(steps if plan.steps is None else steps.minimum(plan.steps))

    def _complain(self, ids: Ids, info: RoundInfo) -> None:
        clients = ", ".join(map(str, ids.tolist()))
        what = f"round {info.round}: the update of client {clients} is not finite (client step size {info.lr:g})"
        if not self.skip_bad:
            raise BadUpdateError(f"{what}; lower client.lr, or drop such updates with on_bad_update=skip")
        log.warning("%s; dropped", what)


def _finite(report: ClientReport) -> Tensor:
    """Whose answer is finite, bool [A] on the CPU."""
    sent = [rows for rows in (report.update, report.grad, report.grad_last) if rows is not None]
    return torch.stack([rows.isfinite().all(1) for rows in sent]).all(0).cpu()
