"""Multinomial logistic regression."""

import math
from collections.abc import Sequence

from torch import Tensor, nn


class Logistic(nn.Module):
    """Softmax regression on the flattened input: one linear layer with bias, [B, *input_shape] → [B, C]."""

    softmax_regression = "linear"  # for the closed-form engine: the name of the one layer

    def __init__(self, input_shape: Sequence[int], num_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(math.prod(input_shape), num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.linear(x.flatten(1))
