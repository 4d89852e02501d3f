"""Everybody, always."""

import torch
from torch import Tensor

from impatient.availability.base import Availability


class Always(Availability):
    """p_i = 1: full participation."""

    def mask(self, round: int) -> Tensor:
        """All true."""
        return torch.ones(self.num_clients, dtype=torch.bool)

    def prob(self, round: int) -> Tensor | None:
        """All one."""
        return torch.ones(self.num_clients, dtype=torch.float64)
