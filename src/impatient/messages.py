"""The nouns of a round: what server, clients and availability say to each other. Data, not code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

# Shapes: N clients in all, A at hand, P model parameters. Devices: what is [A], [A, P] or [P] lies with the model; ids
# and what is [N], over all clients, lie on the CPU.
Flat = Tensor
Ids = Tensor
State = dict[str, Tensor]
Rows = dict[str, Tensor]
Sums = dict[str, Tensor]


@dataclass(frozen=True)
class Slot:
    """One field of per-client memory, a table [N, P]: what its rows hold before a client's first answer."""

    fill: Literal["zeros", "params"] = "zeros"


@dataclass(frozen=True)
class Population:
    """Whom an availability process is about.

    counts: int64 [N, C], the samples of each class (C = 0 without classes); sizes: int64 [N], all samples; names: the
    clients' own names, where the data has them.
    """

    counts: Tensor
    sizes: Tensor
    names: Sequence[str] | None = None


@dataclass(frozen=True)
class RoundInfo:
    """What every rule may know about a round.

    round: communication rounds before this one; update: of these, the ones in which the model moved;
    lr: this round's client step size; num_clients: N; available: bool [N]; weight: float64 [N], the objective's
    weights a_i, summing to 1; knows: of what the rule asked for by `knowledge`, all that the availability process has
    to tell: prob, float64 [N], is the true p_i(t).
    """

    round: int
    update: int
    lr: float
    num_clients: int
    available: Tensor
    weight: Tensor
    knows: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class ClientPlan:
    """What the server tells A clients. Their local step, made at most steps_i times, is

        w ← w - lr·rate_i·(∇F_i(w; ξ) + shift_i + prox_i·(w - start_i))

    start: [A, P], or None for the global model; shift: [A, P] or None; prox: μ ≥ 0, for all or [A]; rate: [A], or None
    for 1; steps: int64 [A], or None for all of a client's batches.
    """  # fmt: skip

    start: Tensor | None = None
    shift: Tensor | None = None
    prox: float | Tensor = 0.0
    rate: Tensor | None = None
    steps: Tensor | None = None

    def cast(self, params: Flat) -> "ClientPlan":
        """In the dtype and on the device of the model; steps on the CPU, beside the batches that they count."""
        floats = {name: value.to(params) for name, value in _tensors(self).items() if name != "steps"}
        return replace(self, **floats, steps=None if self.steps is None else self.steps.to("cpu", torch.int64))

    def at(self, index: Tensor | int) -> "ClientPlan":
        """What some of the clients are told, or one of them."""
        return replace(self, **{name: value[index] for name, value in _tensors(self).items()})


@dataclass(frozen=True)
class ClientReport:
    """What A clients sent back.

    ids: int64 [A]; update: [A, P] = start - w_end, so that the model moves against it; steps, samples: int64 [A]; loss:
    [A], the mean over the local steps without the L2 term; loss_start: [A], the first batch's loss before the first
    step. Only where the rule `needs` it: grad: [A, P], the mean over the local steps of ∇F_i(w; ξ), with the L2 term
    and as clipped, before rate, shift, prox and momentum; grad_last: [A, P], that of the last step.
    """

    ids: Ids
    update: Tensor
    steps: Tensor
    samples: Tensor
    loss: Tensor
    loss_start: Tensor
    grad: Tensor | None = None
    grad_last: Tensor | None = None

    def keep(self, mask: Tensor) -> "ClientReport":
        """The report of the clients where mask [A] is true."""
        return replace(self, **{name: value[mask.to(value.device)] for name, value in _tensors(self).items()})


@dataclass(frozen=True)
class Traffic:
    """Bytes of one round under one protocol: sent up and down in all; kept by the server; kept by each client."""

    up: int
    down: int
    server: int
    client: int


Protocols = Mapping[str, Traffic]


class ClientSettings(Protocol):
    """What a rule's `check` may ask of the clients' optimizer; see engine.local.LocalSGD."""

    @property
    def momentum(self) -> float:
        """Of the local steps, fresh every round."""

    @property
    def weight_decay(self) -> float:
        """The L2 term, part of the gradient."""

    @property
    def clip(self) -> float | None:
        """The largest norm of a gradient."""

    @property
    def steps(self) -> int | None:
        """Local steps, where they are set."""

    @property
    def epochs(self) -> int | None:
        """Passes over a client's data, where `steps` is not set."""


def _tensors(message: ClientPlan | ClientReport) -> dict[str, Tensor]:
    values = {one.name: getattr(message, one.name) for one in fields(message)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
