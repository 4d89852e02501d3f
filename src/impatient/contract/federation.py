"""A federation small enough to work out by hand, and its rounds without Lightning.

Client i minimises F_i(w) = ½ Σ_j h_ij (w_j - u_ij)², so one local step from w gives U_i = w - w_i = η h_i (w - u_i).
"""

import io
from dataclasses import dataclass, fields
from typing import cast

import numpy as np
import torch
from torch import Tensor

from impatient.aggregators.base import Aggregator, ids_of
from impatient.contract.failing import NotFiniteError, UnplayableError
from impatient.data.rounds import Batches
from impatient.engine.local import Engine, LocalSGD, Task, Work, descend
from impatient.memory import ClientMemory
from impatient.messages import ClientPlan, ClientReport, Flat, RoundInfo
from impatient.ranks import Ranks
from impatient.rng import stream
from impatient.round import Answers, ask_clients


@dataclass(frozen=True)
class Bowls(Engine):
    """u, h: [N, P]; gradients carry noise·N(0, I) of (round, client); those in `broken` (round, client) answer NaN."""

    u: Tensor
    h: Tensor
    noise: float = 0.0
    broken: frozenset[tuple[int, int]] = frozenset()

    def run(self, task: Task, params: Flat, plan: ClientPlan, work: Work) -> ClientReport:
        """See Engine.run; a client's batches only say how many steps it makes."""
        ids, count, lr, sgd, seed, round = work.ids, work.count, work.lr, work.sgd, work.seed, work.round
        steps, (a, p) = count.shape[1], (len(ids), params.numel())
        u, h = self.u[ids].to(params), self.h[ids].to(params)
        draws = [stream(seed, "noise", round, i).standard_normal((steps, p)) for i in ids.tolist() if self.noise]
        noise = self.noise * torch.tensor(np.array(draws)).view(-1, steps, p).to(params) if draws else None
        start = params.expand(a, -1) if plan.start is None else plan.start
        w, losses = start.clone(), []
        for k in range(steps):
            losses.append((0.5 * h * (w - u).square()).sum(1))
            grad = h * (w - u) if noise is None else h * (w - u) + noise[:, k]
            descend(w, grad, start, plan.shift, plan.prox, lr, sgd, None)
        delta = w - start
        for row, i in enumerate(ids.tolist()):
            if (round, i) in self.broken:
                delta[row] = torch.nan
        return ClientReport(ids, delta, (count > 0).sum(1), count.sum(1), torch.stack(losses).mean(0), losses[0])


def line(*u: float) -> Bowls:
    """Clients on a line with curvature 1: G_i = w - u_i exactly."""
    centres = torch.tensor(u, dtype=torch.float64)[:, None]
    return Bowls(centres, torch.ones_like(centres))


def bowls(n: int, p: int, noise: float = 0.0, seed: int = 0) -> Bowls:
    """N random clients: centres in [-3, 3], curvatures in [0.5, 2]."""
    rng = stream(seed, "bowls")
    u, h = rng.uniform(-3, 3, (n, p)), rng.uniform(0.5, 2, (n, p))
    return Bowls(torch.from_numpy(u), torch.from_numpy(h), noise)


def shares(*sizes: int) -> Tensor:
    """a_i = n_i/Σn."""
    n = torch.tensor(sizes, dtype=torch.float64)
    return n / n.sum()


def table(*active: set[int], n: int = 3) -> Tensor:
    """Masks [T, n] from the set of devices that are there in each round."""
    return torch.tensor([[i in there for i in range(n)] for there in active])


def coins(p: float | Tensor, rounds: int, n: int, seed: int = 0) -> Tensor:
    """Bernoulli masks [rounds, n] with chance p, a number or [n]."""
    return torch.from_numpy(stream(seed, "coins").random((rounds, n))) < p


class Server:
    """The server and all that lasts of it: w ← w - direction once a round."""

    def __init__(
        self,
        rule: Aggregator,
        clients: Bowls,
        weight: Tensor | None = None,
        prob: Tensor | None = None,
        lr: float = 0.5,
        decay: str = "none",
        clock: str = "update",
        steps: int = 1,
        dtype: torch.dtype = torch.float64,
        rows: torch.dtype = torch.float64,
        chunk: int = 100,
        shuffle: bool = False,
        skip_bad: bool = False,
        ranks: Ranks | None = None,
    ) -> None:
        self.ranks = ranks or Ranks()
        self.rule, self.clients, self.prob = rule, clients, prob
        self.n, p = clients.u.shape
        self.weight = shares(*[1] * self.n) if weight is None else weight
        self.sgd = LocalSGD(lr, decay, clock, epochs=None, steps=steps)
        self.steps = steps
        self.chunk, self.shuffle, self.skip_bad = chunk, shuffle, skip_bad
        self.w = torch.zeros(p, dtype=dtype)
        self.state = rule.init(self.w, self.n)
        self.memory = ClientMemory(rule.slots, self.n, self.w, dtype=rows, ranks=self.ranks)
        self.round = self.update = 0

    def info(self, available: Tensor) -> RoundInfo:
        """What the rule may know now."""
        lr = self.sgd.rate(self.round, self.update)
        return RoundInfo(self.round, self.update, lr, self.n, available, self.weight, self.prob)

    def draw(self, ids: Tensor) -> Batches:
        """Batches of one sample: how many steps is all that `Bowls` reads of them."""
        shape = (len(ids), self.steps)
        return Batches(torch.zeros(*shape, 1, dtype=torch.int64), torch.ones(shape, dtype=torch.int64))

    def play(self, available: Tensor) -> tuple[Answers, Tensor | None]:
        """One round: what came, and the direction. Raises UnplayableError where a run would stop."""
        info, rule = self.info(available), self.rule
        ids = rule.select(self.state, info)
        if not torch.isin(ids, ids_of(available)).all():
            raise UnplayableError("select names a client that is not there")
        if self.shuffle:
            ids = ids[torch.from_numpy(stream(0, "shuffle", self.round).permutation(len(ids)))]
        answers = ask_clients(
            rule,
            self.state,
            self.memory,
            self.clients,
            cast(Task, None),  # `Bowls` have no data
            self.sgd,
            self.w,
            ids,
            self.draw,
            info,
            0,
            self.chunk,
            self.skip_bad,
            self.ranks,
        )
        direction, self.state = rule.step(self.state, answers.sums, self.w, answers.reported, info)
        if direction is not None and not direction.isfinite().all():
            raise NotFiniteError("the direction is not finite")
        if direction is not None:
            self.w = self.w - direction.to(self.w.dtype)
            self.update += 1
        if late := rule.after(self.state, self.w, info):
            ids, rows = late
            here = self.ranks.here(ids)
            self.memory.write(ids[here], {name: row[here] for name, row in rows.items()})
        self.round += 1
        return answers, direction

    def run(self, masks: Tensor) -> Tensor:
        """The weights [T + 1, P] before the first and after every round."""
        seen = [self.w]
        for available in masks:
            self.play(available)
            seen.append(self.w)
        return torch.stack(seen)

    def save(self) -> bytes:
        """A checkpoint, as torch.save writes it."""
        file = io.BytesIO()
        clocks = {"round": self.round, "update": self.update}
        torch.save({"w": self.w, "state": self.state, "memory": self.memory.state_dict(), **clocks}, file)
        return file.getvalue()

    def load(self, saved: bytes) -> None:
        """Go on from a checkpoint, read the way torch does by default."""
        was = torch.load(io.BytesIO(saved), weights_only=True)
        self.w, self.state, self.round, self.update = was["w"], was["state"], was["round"], was["update"]
        self.memory.load_state_dict(was["memory"])


def copies(data: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same, in memory of its own."""
    return {name: value.clone() for name, value in data.items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Bit-equal, NaN included, with the same keys and dtypes."""
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and torch.allclose(a[k], b[k], 0, 0, equal_nan=True)
        for k in a
    )


def report_of(ids: Tensor, p: int, dtype: torch.dtype) -> ClientReport:
    """Any answer a client might give."""
    rng = stream(0, "report", len(ids))
    delta = torch.from_numpy(rng.standard_normal((len(ids), p))).to(dtype)
    loss = torch.from_numpy(rng.random((2, len(ids)))).to(dtype)
    steps = torch.from_numpy(rng.integers(1, 9, len(ids)))
    return ClientReport(ids, delta, steps, 10 * steps, *loss)


def tensors(message: ClientReport | RoundInfo) -> dict[str, Tensor]:
    """The tensors among a message's fields."""
    pairs = {f.name: getattr(message, f.name) for f in fields(message)}
    return {name: value for name, value in pairs.items() if isinstance(value, Tensor)}
