"""A model whose optimum is known."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Quadratic(nn.Module):
    """w - x for samples x [B, d]: with the loss ½‖·‖² client i minimises ½‖w - x̄_i‖² up to a constant."""

    mean_estimation = "w"  # for the closed-form engine: the name of the one parameter

    def __init__(self, input_shape: Sequence[int]) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(*input_shape))

    def forward(self, x: Tensor) -> Tensor:
        """The distance vectors [B, d]."""
        return self.w - x
