"""The two convolutional networks of the MIFA experiments."""

from collections.abc import Sequence
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn


def _side(size: int) -> int:
    """One side of a square image after two 5x5 convolutions, each followed by 2x2 pooling."""
    return ((size - 4) // 2 - 4) // 2


class _TwoConv(nn.Module):
    """conv 5x5 → ReLU → max-pool 2x2, twice, then fully connected layers with ReLU between them."""

    def __init__(self, input_shape: Sequence[int], channels: tuple[int, int], widths: Sequence[int]) -> None:
        super().__init__()
        if len(input_shape) != 3:
            raise ValueError(f"{type(self).__name__} needs images, not samples of shape {tuple(input_shape)}")
        depth, height, width = input_shape
        if min(height, width) < 16:
            raise ValueError(f"{type(self).__name__} needs images of at least 16 x 16, not {height} x {width}")
        self.conv1 = nn.Conv2d(depth, channels[0], 5)
        self.conv2 = nn.Conv2d(channels[0], channels[1], 5)
        sizes = [channels[1] * _side(height) * _side(width), *widths]
        self.dense = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, C] of images [B, channels, height, width]."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        for layer in self.dense[:-1]:
            x = F.relu(layer(x))
        return self.dense[-1](x)


class LeNet5(_TwoConv):
    """LeNet-5 with ReLU and max-pooling: 6 and 16 channels, 120 and 84 units (62,006 parameters on CIFAR-10).

    Source: LeCun et al., Proc. IEEE 1998, in the variant that the MIFA paper names for CIFAR-10.
    """

    def __init__(self, input_shape: Sequence[int], num_classes: int) -> None:
        super().__init__(input_shape, (6, 16), (120, 84, num_classes))


class CNN(_TwoConv):
    """The wider net of the MIFA authors' scripts: 32 and 64 channels, 512 units (878,538 parameters on CIFAR-10)."""

    def __init__(self, input_shape: Sequence[int], num_classes: int) -> None:
        super().__init__(input_shape, (32, 64), (512, num_classes))
