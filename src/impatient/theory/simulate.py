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
from impatient.messages import Flat, Ids
from impatient.round import Federation, Round, ServerState


@dataclass(frozen=True)
class Devices:
    """N clients and how they train; the fields as in `impatient.round.Federation`."""

    num_clients: int
    engine: Engine
    task: Any  # a Task, but for quadratics, whose engine needs none
    client: LocalSGD
    draw: Callable[[Ids, int], Batches]


@dataclass(frozen=True)
class Scheduled(LocalSGD):
    """Local steps whose size is a function of the update alone."""

    schedule: Callable[[int], float] = float

    def rate(self, round: int, update: int) -> float:
        """η of this update."""
        return self.schedule(update)


def play(
    rule: Aggregator,
    clients: Devices,
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
    n, client = clients.num_clients, Scheduled(**vars(clients.client), schedule=rate)
    faults = rule.check(n, client)
    if "prob" in rule.knowledge and prob is None:
        faults.append("rule: must know the availability p_i; give prob, or take another rule")
    if faults:
        raise ConfigError(*faults)
    known = {} if prob is None else {"prob": torch.as_tensor(prob, dtype=torch.float64)}
    weight = torch.full((n,), 1 / n, dtype=torch.float64)
    federation = Federation(
        rule, clients.engine, clients.task, client, weight, clients.draw, chunk=clients.engine.chunk
    )
    server, w = ServerState(rule.init(start, n), ClientMemory(rule.slots, n, start, dtype=start.dtype)), start

    def move(direction: Flat | None) -> Flat:
        nonlocal w
        w = w if direction is None else w - direction.to(w.dtype)
        return w

    for round, there in enumerate(masks):
        federation.play(server, Round(round, torch.as_tensor(there), known), w, move)
        yield w, server.update
