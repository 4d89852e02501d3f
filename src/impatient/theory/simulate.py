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
from impatient.engine.batched import Batched, Gradients
from impatient.engine.local import Engine, LocalSGD, Task, Work
from impatient.memory import ClientMemory
from impatient.messages import Flat, Ids
from impatient.rng import stream
from impatient.round import Federation as WholeRound
from impatient.round import Round, ServerState

Rate = Callable[[int], float]
"""The client step size η of an update, counted from 0."""


@dataclass(frozen=True)
class Federation:
    """N clients and how they train: engine, task and sgd as in a round; draw(ids, round) gives their batches."""

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
    n, sgd = clients.num_clients, Scheduled(**vars(clients.sgd), schedule=rate)
    faults = rule.check(n, sgd)
    if "prob" in rule.knowledge and prob is None:
        faults.append("rule: must know the availability p_i; give prob, or take another rule")
    if faults:
        raise ConfigError(*faults)
    weight = torch.full((n,), 1 / n, dtype=torch.float64)
    told = {} if prob is None else {"prob": torch.as_tensor(prob, dtype=torch.float64)}
    chunk = clients.engine.chunk
    federation = WholeRound(rule, clients.engine, clients.task, sgd, weight, clients.draw, chunk=chunk)
    server, w = ServerState(rule.init(start, n), ClientMemory(rule.slots, n, start, dtype=start.dtype)), start

    def move(direction: Flat | None) -> Flat:
        nonlocal w
        w = w if direction is None else w - direction.to(w.dtype)
        return w

    for round, there in enumerate(masks):
        played = federation.play(server, Round(round, torch.as_tensor(there), told), w, move)
        yield Played(w, server.update, played.answers.reported)


@dataclass(frozen=True)
class Scheduled(LocalSGD):
    """Local steps whose size is a function of the update alone."""

    schedule: Rate = float

    def rate(self, round: int, update: int) -> float:
        """η of this update."""
        return self.schedule(update)


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
class Bowls(Batched):
    """The local steps on quadratics."""

    clients: Quadratics
    repeat: int
    chunk = 1 << 20

    def gradients(self, task: Task, work: Work, w: Tensor) -> Gradients:
        """See Batched.gradients; batches are not looked at but for their number."""
        u, h = (torch.from_numpy(table)[work.ids].to(w) for table in (self.clients.u, self.clients.h))
        drawn = self.clients.draws(work.round, self.repeat + 1, work.count.shape[1])[self.repeat]
        noise = torch.from_numpy(drawn)[work.ids].to(w)

        def gradient(k: int, busy: Tensor | None) -> tuple[Tensor, Tensor]:
            at = slice(None) if busy is None else busy
            off = w[at] - u[at]
            return h[at] * off + noise[at, k], 0.5 * (h[at] * off.square()).sum(1)

        return gradient


def _unread(ids: Tensor, steps: int) -> Batches:
    shape = (len(ids), steps)
    return Batches(torch.zeros(*shape, 1, dtype=torch.int64), torch.ones(shape, dtype=torch.int64))


def isotropic(num_clients: int, dim: int, spread: float = 3.0, sigma: float = 1.0, seed: int = 0) -> Quadratics:
    """Clients of curvature 1 with centres u_i ~ U(-spread, spread)^P."""
    u = stream(seed, "theory/centres").uniform(-spread, spread, (num_clients, dim))
    return Quadratics(u, np.ones_like(u), sigma, seed)
