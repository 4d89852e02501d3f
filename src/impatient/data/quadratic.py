"""A synthetic task whose optimum is known in closed form."""

import numpy as np
import torch
from torch import Tensor

from impatient.checks import ConfigError, check, integer, number
from impatient.data.dataset import Dataset, Source
from impatient.flat import half_square
from impatient.rng import stream


class Quadratic(Source):
    """Client i holds m points x_ij = u_i + noise·N(0, I) around its own centre u_i ~ U(-spread, spread)^dim.

    With a model that answers w - x and the loss ½‖·‖², client i minimises

        F_i(w) = 1/m Σ_j ½‖w - x_ij‖² = ½‖w - x̄_i‖² + const,   ∇F_i(w) = w - x̄_i,

    so Σ_i a_i F_i(w) + λ/2 ‖w‖² with Σ_i a_i = 1 has its minimum at w* = Σ_i a_i x̄_i / (1 + λ).

    x: float64 [N·m, dim], client after client; y: zeros; the test set is the training set. Adding a client, or
    a point, leaves the others as they are.
    """

    num_classes = 0

    def __init__(self, dim: int = 10, samples: int = 20, spread: float = 3.0, noise: float = 1.0) -> None:
        check(
            integer("dim", dim, 1),
            integer("samples", samples, 1),
            number("spread", spread, 0),
            number("noise", noise, 0),
        )
        self.dim, self.samples, self.spread, self.noise = dim, samples, spread, noise

    def num_bytes(self, num_clients: int) -> int:
        """The points twice (while they are put together), their indices, and an array's head for each client."""
        return num_clients * (self.samples * (2 * 8 * self.dim + 8) + 256)

    def load(self, num_clients: int, seed: int) -> Dataset:
        """Draw the points of that many clients; owners are consecutive index lists."""
        x = torch.from_numpy(np.concatenate([self._points(seed, client) for client in range(num_clients)]))
        y = torch.zeros(len(x), dtype=torch.int64)
        owners = np.split(np.arange(len(x), dtype=np.int64), num_clients)
        return Dataset("quadratic", x, y, x, y, classes=(), loss=half_square, owners=owners)

    def _points(self, seed: int, client: int) -> np.ndarray:
        rng = stream(seed, "quadratic", client)
        centre = rng.uniform(-self.spread, self.spread, self.dim)
        return centre + self.noise * rng.standard_normal((self.samples, self.dim))


def optimum(dataset: Dataset, weight: Tensor, weight_decay: float) -> Tensor:
    """w* [dim] = Σ_i a_i x̄_i / (Σ_i a_i + λ) for weights a [N] and weight decay λ.

    Raises ConfigError for a data set without owners.
    """
    if dataset.owners is None:
        raise ConfigError(f"data={dataset.name}: has no closed-form optimum; use data=quadratic")
    means = torch.stack([dataset.x[torch.from_numpy(own)].mean(0) for own in dataset.owners])
    weight = weight.to(means)
    return weight @ means / (weight.sum() + weight_decay)
