"""What a client computes: SGD on its own batches. Gradient and step are written once, for every engine."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from impatient.checks import check, integer, number, one_of
from impatient.flat import FlatModel
from impatient.messages import ClientPlan, ClientReport, Flat, Ids


@dataclass(frozen=True)
class LocalSGD:
    """The clients' optimizer: made afresh for every client and round, so nothing of it lasts.

    The step size is lr·decay(k), decay inverse 1/(k+1), inverse_sqrt 1/√(k+1) or none 1, where k counts updates of the
    model or communication rounds (lr_clock). A client makes `steps` steps, or, with steps None, `epochs` passes over
    its data. ∇(loss) of a batch is scaled down to the norm `clip` where it is longer; then comes weight decay, part of
    the gradient: ∇F_i = ∇(loss) + weight_decay·w.
    """

    lr: float
    lr_decay: str = "inverse"
    lr_clock: str = "update"
    batch_size: int = 100
    epochs: int | None = 2
    steps: int | None = None
    weight_decay: float = 0.0
    momentum: float = 0.0
    clip: float | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError with every value out of range."""
        check(
            number("lr", self.lr, 0, open_low=True),
            one_of("lr_decay", self.lr_decay, ("inverse", "inverse_sqrt", "none")),
            one_of("lr_clock", self.lr_clock, ("update", "round")),
            integer("batch_size", self.batch_size, 1),
            None if self.epochs is None else integer("epochs", self.epochs, 1),
            None if self.steps is None else integer("steps", self.steps, 1),
            "epochs=None, steps=None: give one of them" if self.epochs is None and self.steps is None else None,
            number("weight_decay", self.weight_decay, 0),
            number("momentum", self.momentum, 0, 1),
            None if self.clip is None else number("clip", self.clip, 0, open_low=True),
        )

    def rate(self, round: int, update: int) -> float:
        """η of this round."""
        k = update if self.lr_clock == "update" else round
        return self.lr / {"inverse": k + 1, "inverse_sqrt": (k + 1) ** 0.5, "none": 1}[self.lr_decay]


@dataclass(frozen=True)
class Task:
    """The training data beside the model: resident arrays, gathered by index and made into inputs on the fly."""

    model: FlatModel
    x: Tensor
    y: Tensor
    normalise: Callable[[Tensor], Tensor]

    @cached_property
    def one_channel(self) -> tuple[float, float] | None:
        """s, m with s·x + m the inputs of images of one channel; None for all else."""
        scale = getattr(self.normalise, "scale", None)
        if scale is None or scale.numel() != 1:
            return None
        return float(scale), float(self.normalise.shift)  # type: ignore[attr-defined]

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets at an index of any shape [...]: [..., *sample], [...]."""
        flat = index.reshape(-1).to(self.x.device)
        x = self.normalise(gather(self.x, flat))
        return x.unflatten(0, index.shape), self.y.index_select(0, flat).view(index.shape)


def gather(x: Tensor, index: Tensor) -> Tensor:
    """x[index] along the first dimension, in x's own memory order (index_select alone would undo channels last)."""
    if x.ndim == 4 and not x.is_contiguous():
        return x.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
    return x.index_select(0, index)


@dataclass(frozen=True)
class Work:
    """What A clients are to do in one round.

    ids: int64 [A]; index: int64 [A, K, B] and count: int64 [A, K], their batches (see data.rounds.Batches); lr: this
    round's step size; sgd: the rest of it; seed and round: where a model that draws (dropout) finds its random stream;
    needs: which fields of ClientReport the rule asks for, of "grad" and "grad_last".
    """

    ids: Ids
    index: Tensor
    count: Tensor
    lr: float
    sgd: LocalSGD
    seed: int
    round: int
    needs: frozenset[str] = frozenset()


class Engine(ABC):
    """Runs the local steps of A clients; frozen config. All engines agree up to floating-point order."""

    chunk = 16
    """How many clients at a time it is fastest with on a CPU, as measured on the logistic regression."""

    @abstractmethod
    def run(self, task: Task, params: Flat, plan: ClientPlan, work: Work) -> ClientReport:
        """From the model [P], what the server told the clients and what they are to do, to what they send back.

        The plan is `cast` to the model, and its `steps` are taken out of the batches already (Batches.first).
        """


def own_gradient(w: Tensor, grad: Tensor, sgd: LocalSGD) -> Tensor:
    """∇F_i on [P] or [A, P]: min(1, clip/(‖∇‖ + 1e-6))·∇ + weight_decay·w, the 1e-6 as in torch's clip_grad_norm_."""
    if sgd.clip is not None:
        grad = grad * (sgd.clip / (torch.linalg.vector_norm(grad, dim=-1, keepdim=True) + 1e-6)).clamp(max=1.0)
    return grad.add(w, alpha=sgd.weight_decay) if sgd.weight_decay else grad


def descend(w: Tensor, grad: Tensor, plan: ClientPlan, work: Work, velocity: Tensor | None) -> None:
    """In place, on [P] or [A, P], with grad = ∇F_i and the plan's start set where its prox is:

    v ← momentum·v + ∇F_i + shift + prox·(w - start);  w ← w - lr·rate·v
    """
    if plan.shift is not None:
        grad = grad + plan.shift
    if plan.start is not None and (isinstance(plan.prox, Tensor) or plan.prox):
        grad = grad + _column(plan.prox) * (w - plan.start)
    if velocity is not None:
        grad = velocity.mul_(work.sgd.momentum).add_(grad)
    if plan.rate is not None:
        grad = _column(plan.rate) * grad
    w.sub_(grad, alpha=work.lr)


def _column(value: float | Tensor) -> float | Tensor:
    """[A] → [A, 1], beside rows [A, P]; [] → [1]."""
    return value.unsqueeze(-1) if isinstance(value, Tensor) else value


def flatten(grads: tuple[Tensor, ...], lead: int) -> Tensor:
    """Gradients [*lead dims, *shape] of every parameter → [*lead dims, P]."""
    return torch.cat([g.flatten(lead) if g.ndim > lead else g.unsqueeze(-1) for g in grads], dim=-1)
