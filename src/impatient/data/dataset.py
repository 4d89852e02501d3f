"""What a data source delivers: arrays that stay resident, and who may be asked about them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from impatient.flat import PerSampleLoss, cross_entropy
from impatient.machine import free_bytes


@dataclass(frozen=True)
class Dataset:
    """Training and test arrays of one task.

    x: [n, …] uint8 images (C, H, W) or floats; y: int64 [n]; the same for the test set. Images are normalised when they
    are used, (x/255 - mean)/std per channel; floats are used as they are. `owners`, where the source knows who owns
    what, holds each client's indices.
    """

    name: str
    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: tuple[str, ...]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    loss: PerSampleLoss = cross_entropy
    owners: Sequence[np.ndarray] | None = None

    @property
    def num_classes(self) -> int:
        """Number of classes; 0 where there are none."""
        return len(self.classes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample, without the batch dimension."""
        return tuple(self.x.shape[1:])


class Source(ABC):
    """Where a data set comes from: frozen config, cheap to make; nothing is read before `load`.

    `num_classes` and `num_train` are what is known before loading, None where only loading tells.
    """

    num_classes: int | None = None
    num_train: int | None = None

    def num_bytes(self, num_clients: int) -> int:
        """What loading will take of the memory, as far as it is known before; 0 where it is not."""
        return 0

    def check(self, num_clients: int) -> list[str]:
        """Say that data that are made do not fit the memory of this machine."""
        size, free = self.num_bytes(num_clients), free_bytes()
        if free is None or size <= free:
            return []
        return [
            f"num_clients={num_clients}: their data take {size / 1e9:.3g} GB of memory and {free / 1e9:.3g} GB are "
            "free; take fewer clients, or smaller data"
        ]

    @abstractmethod
    def load(self, num_clients: int, seed: int) -> Dataset:
        """Read the arrays. Raises ConfigError where files are missing or broken, saying what to put where.

        Real data ignore both arguments; synthetic data are made for that many clients from that seed.
        """


class Normalise:
    """Turns gathered samples into model inputs: uint8 images to (x/255 - mean)/std, floats to the model's dtype."""

    def __init__(self, dataset: Dataset, device: torch.device, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.scale: Tensor | None = None
        if dataset.x.dtype == torch.uint8:
            per_channel = (len(dataset.mean), *[1] * (dataset.x.ndim - 2))
            mean = torch.tensor(dataset.mean, dtype=torch.float64).view(per_channel)
            std = torch.tensor(dataset.std, dtype=torch.float64).view(per_channel)
            self.scale = (1 / (255 * std)).to(device, dtype)
            self.shift = (-mean / std).to(device, dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """x [..., C, H, W] uint8 or [..., d] float → the same shape in the model's dtype."""
        x = x.to(self.dtype)
        return x if self.scale is None else x.mul_(self.scale).add_(self.shift)


@dataclass(frozen=True)
class Clients:
    """Who owns what: indices, one int64 array a client, into the training arrays, and labels, counts [N, C]."""

    indices: Sequence[np.ndarray]
    labels: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, indices: Sequence[np.ndarray], y: Tensor, num_classes: int) -> "Clients":
        """Count the labels of each client; without classes the table is [N, 0]."""
        y_np = y.cpu().numpy()
        labels = np.zeros((len(indices), num_classes), dtype=np.int64)
        if num_classes:
            for row, own in zip(labels, indices, strict=True):
                row += np.bincount(y_np[own], minlength=num_classes)
        return cls(indices, labels)

    def __len__(self) -> int:
        """N."""
        return len(self.indices)

    @property
    def sizes(self) -> np.ndarray:
        """n_i, int64 [N]."""
        return np.array([len(own) for own in self.indices], dtype=np.int64)
