"""A federation small enough to work out by hand, and its rounds without Lightning.

Client i minimises F_i(w) = ½ Σ_j h_ij (w_j - u_ij)², so one local step from w gives U_i = w - w_i = η h_i (w - u_i).
"""

import io
from dataclasses import dataclass, fields, replace
from typing import cast

import torch
from torch import Tensor

from impatient.aggregators.base import Aggregator
from impatient.contract.failing import NotFiniteError, UnplayableError
from impatient.data.rounds import Batches
from impatient.engine.batched import Batched, Gradients
from impatient.engine.local import LocalSGD, Task, Work
from impatient.memory import ClientMemory
from impatient.messages import ClientPlan, ClientReport, Flat, Ids, RoundInfo
from impatient.ranks import Ranks
from impatient.rng import stream
from impatient.round import AbsentClientError, Answers, BadDirectionError, Federation, Round, ServerState


@dataclass(frozen=True)
class Bowls(Batched):
    """u, h: [N, P]; gradients carry noise·N(0, I) of (round, client); those in `broken` (round, client) answer NaN."""

    u: Tensor
    h: Tensor
    noise: float = 0.0
    broken: frozenset[tuple[int, int]] = frozenset()

    def run(self, task: Task, params: Flat, plan: ClientPlan, work: Work) -> ClientReport:
        """See Engine.run; batches only say how many steps a client makes."""
        report = super().run(task, params, plan, work)
        broken = torch.tensor([(work.round, i) in self.broken for i in work.ids.tolist()], dtype=torch.bool)
        return replace(report, update=report.update.masked_fill(broken.unsqueeze(1), torch.nan))

    def gradients(self, task: Task, work: Work, w: Tensor) -> Gradients:
        """h (w - u) + noise."""
        ids, steps, p = work.ids, work.count.shape[1], w.shape[1]
        u, h = self.u[ids].to(w), self.h[ids].to(w)
        noise = torch.zeros(len(ids), steps, p, dtype=torch.float64)
        for row, i in enumerate(ids.tolist() if self.noise else []):
            drawn = stream(work.seed, "noise", work.round, i).standard_normal((steps, p))
            noise[row] = self.noise * torch.from_numpy(drawn)
        noise = noise.to(w)

        def gradient(k: int, busy: Tensor | None) -> tuple[Tensor, Tensor]:
            at = slice(None) if busy is None else busy
            off = w[at] - u[at]
            return h[at] * off + noise[at, k], (0.5 * h[at] * off.square()).sum(1)

        return gradient


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


class Server(ServerState):
    """A rule's server and all that lasts of it: w ← w - direction once a round."""

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
        self.rule, self.clients = rule, clients
        self.n, p = clients.u.shape
        self.weight = shares(*[1] * self.n) if weight is None else weight
        self.knows = {} if prob is None else {"prob": prob}
        self.sgd = LocalSGD(lr, decay, clock, epochs=None, steps=steps)
        self.chunk, self.shuffle, self.skip_bad = chunk, shuffle, skip_bad
        self.w = torch.zeros(p, dtype=dtype)
        memory = ClientMemory(rule.slots, self.n, self.w, dtype=rows, ranks=self.ranks)
        super().__init__(rule.init(self.w, self.n), memory)
        self.round = 0

    @property
    def federation(self) -> Federation:
        """The round that runs play, with clients who have no data."""
        kind = Shuffled if self.shuffle else Federation
        task, draw = cast(Task, None), self.draw
        return kind(
            self.rule, self.clients, task, self.sgd, self.weight, draw, 0, self.chunk, self.skip_bad, self.ranks
        )

    def now(self, available: Tensor) -> Round:
        """This round; everybody's answer gets through. A rule is told what it asks for and no more."""
        asked = {name: value for name, value in self.knows.items() if name in self.rule.knowledge}
        return Round(self.round, available, asked)

    def info(self, available: Tensor) -> RoundInfo:
        """What the rule may know now."""
        return self.federation.info(self, self.now(available))

    def draw(self, ids: Ids, round: int) -> Batches:
        """Batches of one sample: how many steps is all that `Bowls` reads of them."""
        shape = (len(ids), cast(int, self.sgd.steps))
        return Batches(torch.zeros(*shape, 1, dtype=torch.int64), torch.ones(shape, dtype=torch.int64))

    def move(self, direction: Tensor | None) -> Tensor:
        """One step of the model."""
        if direction is not None:
            self.w = self.w - direction.to(self.w.dtype)
        return self.w

    def play(self, available: Tensor) -> tuple[Answers, Tensor | None]:
        """One round: what came, and the direction. Raises UnplayableError where a run would stop."""
        try:
            played = self.federation.play(self, self.now(available), self.w, self.move)
        except AbsentClientError as error:
            raise UnplayableError("select names a client that is not there") from error
        except BadDirectionError as error:
            raise NotFiniteError("the direction is not finite") from error
        self.round += 1
        return played.answers, played.direction

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


class Shuffled(Federation):
    """Asks whom the rule selects in another order."""

    def select(self, server: ServerState, info: RoundInfo) -> Ids:
        """See Federation.select."""
        ids = super().select(server, info)
        return ids[torch.from_numpy(stream(0, "shuffle", info.round).permutation(len(ids)))]


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
    """Any answer a client might give, with all that a rule can need."""
    rng = stream(0, "report", len(ids))
    update, *grads = torch.from_numpy(rng.standard_normal((3, len(ids), p))).to(dtype)
    loss = torch.from_numpy(rng.random((2, len(ids)))).to(dtype)
    steps = torch.from_numpy(rng.integers(1, 9, len(ids)))
    return ClientReport(ids, update, steps, 10 * steps, *loss, *grads)


def tensors(message: ClientReport | RoundInfo) -> dict[str, Tensor]:
    """The tensors among a message's fields, and in them."""
    pairs = {f.name: getattr(message, f.name) for f in fields(message)}
    pairs |= pairs.pop("knows", {})
    return {name: value for name, value in pairs.items() if isinstance(value, Tensor)}
