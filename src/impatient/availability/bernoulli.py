"""Independent coins of given bias."""

from collections.abc import Sequence

import torch

from impatient.availability.base import Independent
from impatient.checks import ConfigError, check, number
from impatient.messages import Population
from impatient.rng import stream


class Bernoulli(Independent):
    """Client i is there with probability p_i in every round, independently.

    p: one number for all, or a list of N; or p_range: [low, high], from which each p_i is drawn uniformly, once.
    """

    def __init__(self, p: float | Sequence[float] | None = 0.5, p_range: Sequence[float] | None = None) -> None:
        if p_range is not None:
            if isinstance(p_range, str) or not isinstance(p_range, Sequence) or len(p_range) != 2:
                raise ConfigError(f"p_range={p_range}: must be two numbers, [low, high]")
            check(number("p_range low", p_range[0], 0, 1), number("p_range high", p_range[1], 0, 1))
            if p_range[0] > p_range[1]:
                raise ConfigError(f"p_range={list(p_range)}: low is above high; swap them")
        elif isinstance(p, Sequence) and not isinstance(p, str):
            check(*(number(f"p[{i}]", value, 0, 1) for i, value in enumerate(p)))
        else:
            check(number("p", p, 0, 1))
        self.given, self.p_range = p, p_range

    def check(self, num_clients: int, num_classes: int | None) -> list[str]:
        """A list must have an entry for each client."""
        if self.p_range is None and isinstance(self.given, Sequence) and len(self.given) != num_clients:
            return [f"availability.p has {len(self.given)} entries: give num_clients={num_clients}, or one number"]
        return []

    def setup(self, population: Population, seed: int) -> None:
        """Fix p [N]."""
        super().setup(population, seed)
        if self.p_range is not None:
            low, high = self.p_range
            self.p = torch.from_numpy(stream(seed, "availability/p").uniform(low, high, self.num_clients))
        elif isinstance(self.given, Sequence):
            self.p = torch.tensor(list(self.given), dtype=torch.float64)
        else:
            self.p = torch.full((self.num_clients,), float(self.given or 0), dtype=torch.float64)
