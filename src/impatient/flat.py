"""One model ⇄ one flat vector [P], as named views."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

PerSampleLoss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(out: Tensor, y: Tensor) -> Tensor:
    """Softmax cross-entropy [B] of logits [B, C] and labels [B]."""
    return F.cross_entropy(out, y, reduction="none")


def half_square(out: Tensor, y: Tensor) -> Tensor:
    """½‖out‖² [B] of outputs [B, dim]; y is not looked at."""
    return 0.5 * out.square().sum(-1)


class FlatModel:
    """A module seen as a function of one flat vector of its trainable parameters.

    The module lends its architecture, its mode (train or eval) and its constant buffers; its own parameters are only
    read by `get` and written by `set`. `loss(out, y)` maps model outputs [B, …] and targets [B] to losses [B].
    """

    def __init__(self, module: nn.Module, loss: PerSampleLoss) -> None:
        self.module, self.loss = module, loss
        trainable = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not trainable:
            raise ValueError(f"{type(module).__name__} has no trainable parameter")
        self.names = list(trainable)
        self.shapes = [p.shape for p in trainable.values()]
        self.sizes = [p.numel() for p in trainable.values()]
        self.num_params = sum(self.sizes)

    @property
    def params(self) -> list[nn.Parameter]:
        """The module's trainable parameters, in the flat vector's order."""
        by_name = dict(self.module.named_parameters())
        return [by_name[name] for name in self.names]

    def get(self) -> Tensor:
        """A copy of the module's parameters as one vector [P]."""
        return torch.cat([p.detach().reshape(-1) for p in self.params])

    def set(self, flat: Tensor) -> None:
        """Write a vector [P], in any float dtype, into the module's parameters."""
        with torch.no_grad():
            for p, value in zip(self.params, self.views(flat).values(), strict=True):
                p.copy_(value)

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Named views [..., *shape] into flat [..., P]."""
        pieces = flat.split(self.sizes, dim=-1)
        return {
            name: piece.view(flat.shape[:-1] + shape)
            for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True)
        }

    def output(self, params: dict[str, Tensor], x: Tensor) -> Tensor:
        """The model's output [B, …] at these parameters."""
        return functional_call(self.module, params, (x,))

    def losses(self, params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """The loss [B] of each sample at these parameters."""
        return self.loss(self.output(params, x), y)
