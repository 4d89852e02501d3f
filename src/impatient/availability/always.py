"""Everybody, always."""

import torch
from torch import Tensor

from impatient.availability.base import Stationary
from impatient.messages import Population


class Always(Stationary):
    """p_i = 1: full participation."""

    def setup(self, population: Population, seed: int) -> None:
        """Fix p = 1."""
        super().setup(population, seed)
        self.p = torch.ones(self.num_clients, dtype=torch.float64)

    def mask(self, round: int) -> Tensor:
        """All true."""
        return torch.ones(self.num_clients, dtype=torch.bool)
