"""Independent coins of given bias."""

from collections.abc import Sequence

from impatient.availability.base import Independent
from impatient.availability.chances import Chances
from impatient.checks import check
from impatient.messages import Population


class Bernoulli(Independent):
    """Client i is there with probability p_i in every round, independently.

    p: one number for all, or a list of N; or p_range: [low, high], from which each p_i is drawn uniformly, once.
    """

    def __init__(self, p: float | Sequence[float] | None = 0.5, p_range: Sequence[float] | None = None) -> None:
        self.chances = Chances(p, p_range)
        check(*self.chances.faults())

    def check(self, num_clients: int, num_classes: int | None) -> list[str]:
        """A list must have an entry for each client."""
        return self.chances.misfits(num_clients)

    def setup(self, population: Population, seed: int) -> None:
        """Fix p [N]."""
        super().setup(population, seed)
        self.p = self.chances.draw(self.num_clients, seed)
