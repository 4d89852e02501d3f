"""Devices that stay on or off for a while."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from impatient.availability.base import Stationary
from impatient.availability.chain import Chain
from impatient.availability.chances import Chances
from impatient.checks import check, number
from impatient.messages import Population


class Markov(Chain, Stationary):
    """Client i is there with probability p_i in every round, and two rounds k apart have correlation λ^k.

        P(on | on) = λ + (1-λ) p_i,   P(on | off) = (1-λ) p_i,   round 0: P(on) = p_i

    Clients are independent. Absences get longer by 1/(1-λ): E τ = (1-p_i)/((1-λ) p_i); λ = 0 is Bernoulli(p), coin for
    coin. p, p_range: as in `Bernoulli`; correlation: λ in [0, 1). Source: Rodio, Faticanti, Marfoq, Neglia, Leonardi,
    "Federated Learning under Heterogeneous and Correlated Client Availability", INFOCOM 2023 (CA-Fed).
    """

    def __init__(
        self,
        p: float | Sequence[float] | None = 0.5,
        p_range: Sequence[float] | None = None,
        correlation: float = 0.5,
    ) -> None:
        self.chances, self.correlation = Chances(p, p_range), correlation
        frozen = f"correlation={correlation}: must be below 1, or nobody would ever come or go"
        check(
            *self.chances.faults(),
            number("correlation", correlation, 0, 1) or (frozen if correlation == 1 else None),
        )

    def check(self, num_clients: int, num_classes: int | None) -> list[str]:
        """A list must have an entry for each client."""
        return self.chances.misfits(num_clients)

    def setup(self, population: Population, seed: int) -> None:
        """Fix p [N]."""
        super().setup(population, seed)
        self.p = self.chances.draw(self.num_clients, seed)

    def first(self, coins: Tensor) -> Tensor:
        """coin < p_i."""
        return coins < self.p

    def next(self, state: Tensor, coins: Tensor) -> Tensor:
        """coin < P(on | state)."""
        return coins < self.p + self.correlation * (state.double() - self.p)

    def knows(self, round: int) -> Mapping[str, Tensor]:
        """Also λ, float64 [N]."""
        return {**super().knows(round), "correlation": torch.full_like(self.p, self.correlation)}
