"""The clients' half of a round, free of any framework: select → plan → local steps → collect, in chunks."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from impatient.aggregators.base import Aggregator
from impatient.data.rounds import Batches
from impatient.engine.local import Engine, LocalSGD, Task, Work
from impatient.memory import ClientMemory
from impatient.messages import ClientReport, Flat, Ids, RoundInfo, State, Sums
from impatient.ranks import Ranks

log = logging.getLogger(__name__)


class BadUpdateError(RuntimeError):
    """A client's update, or the direction made of them, is not finite."""


@dataclass(frozen=True)
class Answers:
    """What came of it: the rule's sums; who reported, int64 [A]; their mean local loss; the number of bad updates."""

    sums: Sums
    reported: Ids
    loss: float
    skipped: int


def ask_clients(
    aggregator: Aggregator,
    state: State,
    memory: ClientMemory,
    engine: Engine,
    task: Task,
    sgd: LocalSGD,
    params: Flat,
    ids: Ids,
    draw: Callable[[Ids], Batches],
    info: RoundInfo,
    seed: int,
    chunk: int,
    skip_bad: bool = False,
    ranks: Ranks | None = None,
) -> Answers:
    """Let the clients `ids` train, `chunk` of them at a time, each on its own rank, and fold their answers.

    draw(ids) gives their batches; seed is that of the batches. Memory rows of those that reported are replaced.

    Raises BadUpdateError naming client and round for a non-finite update, unless skip_bad: then it is dropped as if the
    client had not been there.
    """
    sums: Sums = {}
    reported: list[Ids] = []
    losses: list[Tensor] = []
    ranks = ranks or Ranks()
    own = ranks.own(ids)
    for some in own.split(chunk):
        rows = memory.read(some, params.device)
        plan = aggregator.plan(state, rows, params, info)
        batches = draw(some)
        work = Work(some, batches.index, batches.count, info.lr, sgd, seed, info.round)
        report = engine.run(task, params, plan, work)
        good = report.delta.isfinite().all(1).cpu()
        if not good.all():
            _complain(report, good, info, skip_bad)
            report = report.keep(good)
            rows = {name: row[good] for name, row in rows.items()}
        more, new = aggregator.collect(state, rows, params, report, info)
        memory.write(report.ids, new)
        sums = {name: sums[name] + value for name, value in more.items()} if sums else more
        reported.append(report.ids)
        losses.append(report.loss)
    loss = torch.cat(losses).to("cpu", torch.float64).sum()
    # The only collectives of a round: O(P), and O(N) bits.
    sums = {name: ranks.sum(value) for name, value in sums.items()}
    who, total = ranks.union(torch.cat(reported), info.num_clients), float(ranks.sum(loss))
    return Answers(sums, who, total / len(who) if len(who) else float("nan"), len(ids) - len(who))


def _complain(report: ClientReport, good: Tensor, info: RoundInfo, skip_bad: bool) -> None:
    clients = ", ".join(map(str, report.ids[~good].tolist()))
    what = f"round {info.round}: the update of client {clients} is not finite (client step size {info.lr:g})"
    if not skip_bad:
        raise BadUpdateError(f"{what}; lower client.lr, or drop such updates with on_bad_update=skip")
    log.warning("%s; dropped", what)
