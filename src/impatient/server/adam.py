"""FedAdam, as its paper has it."""

from torch import Tensor

from impatient.server.base import FedOpt


class FedAdam(FedOpt):
    """v ← β2·v + (1 - β2)·D². torch.optim.Adam with v = 0 at first and both moments divided by 1 - βᵗ is server=adam.

    Source: Reddi et al., ICLR 2021, Algorithm 2.
    """

    def second(self, v: Tensor, square: Tensor, beta: float) -> Tensor:
        """The moving mean of D²."""
        return beta * v + (1 - beta) * square
