"""The product's own rules on small tasks, round by round, without a trainer around them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from impatient.aggregators.base import Aggregator
from impatient.checks import ConfigError
from impatient.data.rounds import Batches
from impatient.engine.local import Engine, LocalSGD
from impatient.memory import ClientMemory
from impatient.messages import Flat, Ids, RoundInfo
from impatient.round import ask_clients


@dataclass(frozen=True)
class Federation:
    """N clients and how they train: engine, task and sgd as in `ask_clients`; draw(ids, round) gives their batches."""

    num_clients: int
    engine: Engine
    task: Any  # a Task, but for quadratics, whose engine needs none
    sgd: LocalSGD
    draw: Callable[[Ids, int], Batches]


def play(
    rule: Aggregator,
    clients: Federation,
    masks: Iterable[np.ndarray],
    start: Flat,
    rate: Callable[[int], float],
    prob: np.ndarray | None = None,
) -> Iterator[tuple[Flat, int]]:
    """Round after round, one for each mask bool [N]: w ← w - direction, from `start` [P], in its dtype.

    Each leaves the model [P] and how often it has moved. rate: the client step size of an update, counted from 0;
    prob [N]: what a rule may know of availability. Every objective weight is 1/N. A longer run begins with a shorter.
    Raises ConfigError where rule and clients do not go together.
    """
    n, w, update = clients.num_clients, start, 0
    faults = rule.check(n)
    if "prob" in rule.knowledge and prob is None:
        faults.append("rule: must know the availability p_i; give prob, or take another rule")
    if faults:
        raise ConfigError(*faults)
    weight = torch.full((n,), 1 / n, dtype=torch.float64)
    known = None if prob is None else torch.as_tensor(prob, dtype=torch.float64)
    state, memory = rule.init(w, n), ClientMemory(rule.slots, n, w, dtype=w.dtype)
    for round, there in enumerate(masks):

        def draw(ids: Ids, at: int = round) -> Batches:
            return clients.draw(ids, at)

        info = RoundInfo(round, update, rate(update), n, torch.as_tensor(there), weight, known)
        ids, how = rule.select(state, info), (clients.engine, clients.task, clients.sgd)
        answers = ask_clients(rule, state, memory, *how, w, ids, draw, info, seed=0, chunk=clients.engine.chunk)
        direction, state = rule.step(state, answers.sums, w, answers.reported, info)
        if direction is not None:
            w, update = w - direction.to(w.dtype), update + 1
        if (late := rule.after(state, w, info)) is not None:
            memory.write(*late)
        yield w, update
