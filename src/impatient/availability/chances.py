"""The p_i that a config gives: a number, a list, or a range to draw from."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from impatient.checks import number
from impatient.rng import stream


@dataclass(frozen=True)
class Chances:
    """p: one number for all, or a list of N; or p_range: [low, high], from which each p_i is drawn uniformly, once."""

    p: float | Sequence[float] | None
    p_range: Sequence[float] | None

    def faults(self) -> list[str]:
        """What is no probability, or no range."""
        given, bounds = self.p, self.p_range
        if bounds is None:
            listed = enumerate(given) if isinstance(given, Sequence) and not isinstance(given, str) else None
            found = [number("p", given, 0, 1)] if listed is None else [number(f"p[{i}]", p, 0, 1) for i, p in listed]
        elif isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
            found = [f"p_range={bounds}: must be two numbers, [low, high]"]
        else:
            found = [number("p_range low", bounds[0], 0, 1), number("p_range high", bounds[1], 0, 1)]
            if not any(found) and bounds[0] > bounds[1]:
                found = [f"p_range={list(bounds)}: low is above high; swap them"]
        return [fault for fault in found if fault]

    def misfits(self, num_clients: int) -> list[str]:
        """That a list has not an entry for each client."""
        if self.p_range is not None or not isinstance(self.p, Sequence) or len(self.p) == num_clients:
            return []
        return [
            f"p: has {len(self.p)} entries for num_clients={num_clients}: give {num_clients} entries, or one number"
        ]

    def draw(self, num_clients: int, seed: int) -> Tensor:
        """p, float64 [N]."""
        if self.p_range is not None:
            low, high = self.p_range
            return torch.from_numpy(stream(seed, "availability/p").uniform(low, high, num_clients))
        if isinstance(self.p, Sequence):
            return torch.tensor(list(self.p), dtype=torch.float64)
        return torch.full((num_clients,), float(self.p or 0), dtype=torch.float64)
