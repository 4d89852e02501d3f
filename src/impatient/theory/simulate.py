"""The product's own rules on small tasks, round by round, without a trainer around them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from impatient.aggregators.base import Aggregator
from impatient.checks import ConfigError
from impatient.data.rounds import Batches
from impatient.engine.local import Engine, LocalSGD, Task, Work, descend
from impatient.memory import ClientMemory
from impatient.messages import ClientPlan, ClientReport, Flat, Ids, RoundInfo
from impatient.rng import stream
from impatient.round import ask_clients

Rate = Callable[[int], float]
"""The client step size η of an update, counted from 0."""


@dataclass(frozen=True)
class Federation:
    """N clients and how they train: engine, task and sgd as in `ask_clients`; draw(ids, round) gives their batches."""

    num_clients: int
    engine: Engine
    task: Any  # a Task, but for quadratics, whose engine needs none
    sgd: LocalSGD
    draw: Callable[[Ids, int], Batches]


@dataclass(frozen=True)
class Played:
    """What a round left: the model [P], update (how often it has moved) and who reported, int64 [A]."""

    params: Flat
    update: int
    reported: Ids


def play(
    rule: Aggregator,
    clients: Federation,
    masks: Iterable[np.ndarray],
    start: Flat,
    rate: Rate,
    prob: np.ndarray | None = None,
) -> Iterator[Played]:
    """Round after round, one for each mask bool [N]: w ← w - direction, from `start` [P], in its dtype.

    Every objective weight is 1/N; prob [N] is what a rule may know of availability. A longer run begins with a shorter.

    Raises ConfigError where rule and clients do not go together.
    """
    faults = rule.check(clients.num_clients)
    if "prob" in rule.knowledge and prob is None:
        faults.append("rule: must know the availability p_i; give prob, or take another rule")
    if faults:
        raise ConfigError(*faults)
    n, w = clients.num_clients, start
    weight = torch.full((n,), 1 / n, dtype=torch.float64)
    told = None if prob is None else torch.as_tensor(prob, dtype=torch.float64)
    state, memory, update = rule.init(w, n), ClientMemory(rule.slots, n, w, dtype=w.dtype), 0
    for round, there in enumerate(masks):

        def draw(some: Ids, at: int = round) -> Batches:
            return clients.draw(some, at)

        info = RoundInfo(round, update, rate(update), n, torch.as_tensor(there), weight, told)
        ids = rule.select(state, info)
        answers = ask_clients(
            rule,
            state,
            memory,
            clients.engine,
            clients.task,
            clients.sgd,
            w,
            ids,
            draw,
            info,
            seed=0,
            chunk=clients.engine.chunk,
        )
        direction, state = rule.step(state, answers.sums, w, answers.reported, info)
        if direction is not None:
            w, update = w - direction.to(w.dtype), update + 1
        late = rule.after(state, w, info)
        if late is not None:
            memory.write(*late)
        yield Played(w, update, answers.reported)


@dataclass(frozen=True)
class Quadratics:
    """F_i(w) = ½ Σ_j h_ij (w_j - u_ij)²; a gradient carries sigma·N(0, I). u, h: float64 [N, P]."""

    u: np.ndarray
    h: np.ndarray
    sigma: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ConfigError where the shapes do not go together."""
        if self.u.ndim != 2 or self.u.shape != self.h.shape or 0 in self.u.shape:
            raise ConfigError(f"quadratics: u {list(self.u.shape)} and h {list(self.h.shape)} must be one shape [N, P]")

    @property
    def optimum(self) -> np.ndarray:
        """w* [P] of the mean of the F_i."""
        return (self.h * self.u).sum(0) / self.h.sum(0)

    @property
    def gap(self) -> np.ndarray:
        """D_i = ‖∇F_i(w*)‖², [N]."""
        return np.square(self.h * (self.optimum - self.u)).sum(1)

    @property
    def noise(self) -> float:
        """σ² = E‖gradient noise‖²."""
        return self.sigma**2 * self.u.shape[1]

    def draws(self, round: int, repeats: int, steps: int) -> np.ndarray:
        """The gradient noise of a round, [R, N, K, P]; more repeats begin with those of fewer."""
        shape = (repeats, len(self.u), steps, self.u.shape[1])
        return self.sigma * stream(self.seed, "theory/noise", round).standard_normal(shape)

    def federation(self, steps: int = 1, repeat: int = 0) -> Federation:
        """These clients with K local steps, for `play`: the slow twin of `batched.play` in its given repeat."""
        sgd = LocalSGD(1.0, epochs=None, steps=steps, batch_size=1)
        return Federation(len(self.u), Bowls(self, repeat), None, sgd, lambda ids, round: _unread(ids, steps))


@dataclass(frozen=True)
class Bowls(Engine):
    """The local steps on quadratics."""

    clients: Quadratics
    repeat: int
    chunk = 1 << 20

    def run(self, task: Task, params: Flat, plan: ClientPlan, work: Work) -> ClientReport:
        """See Engine.run; batches are not looked at but for their number."""
        ids, count, (a, steps) = work.ids, work.count, work.count.shape
        u, h = (torch.from_numpy(table)[ids].to(params) for table in (self.clients.u, self.clients.h))
        drawn = self.clients.draws(work.round, self.repeat + 1, steps)[self.repeat]
        noise = torch.from_numpy(drawn)[ids].to(params)
        start = params.expand(a, -1) if plan.start is None else plan.start
        w, losses = start.clone(), []
        for k in range(steps):
            losses.append(0.5 * (h * (w - u).square()).sum(1))
            descend(w, h * (w - u) + noise[:, k], start, plan.shift, plan.prox, work.lr, work.sgd, None)
        return ClientReport(ids, w - start, (count > 0).sum(1), count.sum(1), torch.stack(losses).mean(0), losses[0])


def _unread(ids: Tensor, steps: int) -> Batches:
    shape = (len(ids), steps)
    return Batches(torch.zeros(*shape, 1, dtype=torch.int64), torch.ones(shape, dtype=torch.int64))


def isotropic(num_clients: int, dim: int, spread: float = 3.0, sigma: float = 1.0, seed: int = 0) -> Quadratics:
    """Clients of curvature 1 with centres u_i ~ U(-spread, spread)^P."""
    u = stream(seed, "theory/centres").uniform(-spread, spread, (num_clients, dim))
    return Quadratics(u, np.ones_like(u), sigma, seed)
