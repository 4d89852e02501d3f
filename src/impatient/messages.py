"""The nouns of a round: what server and clients say to each other. Data, not code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

# Shapes: N clients in all, A at hand, P model parameters.
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
    weights a_i, summing to 1; prob: float64 [N], the true p_i(t), or None where the process has none to tell.
    """

    round: int
    update: int
    lr: float
    num_clients: int
    available: Tensor
    weight: Tensor
    prob: Tensor | None = None


@dataclass(frozen=True)
class ClientPlan:
    """What the server tells A clients. Their local step is  w ← w - lr·(∇F_i(w; ξ) + shift_i + prox·(w - start_i)).

    start: [A, P], or None for the global model; shift: [A, P] or None; prox: μ ≥ 0.
    """

    start: Tensor | None = None
    shift: Tensor | None = None
    prox: float = 0.0


@dataclass(frozen=True)
class ClientReport:
    """What A clients sent back.

    ids: int64 [A]; delta: [A, P] = w_end - start; steps, samples: int64 [A]; loss: [A], the mean over the local steps
    without the L2 term; loss_start: [A], the first batch's loss before the first step.
    """

    ids: Ids
    delta: Tensor
    steps: Tensor
    samples: Tensor
    loss: Tensor
    loss_start: Tensor

    def keep(self, mask: Tensor) -> "ClientReport":
        """The report of the clients where mask [A] is true."""
        return ClientReport(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Traffic:
    """Bytes of one round under one protocol: sent up and down in all; kept by the server; kept by each client."""

    up: int
    down: int
    server: int
    client: int


Protocols = Mapping[str, Traffic]
