"""When devices are there: the plug-in API of an availability process."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor

from impatient.messages import Ids, Population
from impatient.rng import stream


class Availability(ABC):
    """A process of masks, a pure function of (seed, round) once it is set up.

    A longer run begins with the masks of a shorter one; adding a client keeps those of the others.
    """

    num_clients: int
    seed: int

    def setup(self, population: Population, seed: int) -> None:
        """Learn whom it is about, and the seed. Raises ConfigError where the config and the clients do not fit."""
        self.num_clients, self.seed = len(population.sizes), seed

    def check(self, num_clients: int, num_classes: int | None) -> list[str]:
        """Faults that show before any data is read; none by default."""
        return []

    @abstractmethod
    def mask(self, round: int) -> Tensor:
        """Who is there: bool [N]."""

    def prob(self, round: int) -> Tensor | None:
        """The true p_i(t), float64 [N], where the process has one."""
        return None

    def knows(self, round: int) -> Mapping[str, Tensor]:
        """What a rule that asks may be told; prob, where there is one."""
        prob = self.prob(round)
        return {} if prob is None else {"prob": prob}

    def returns(self, round: int) -> Tensor:
        """Whose answer gets through, if asked: bool [N]; everybody's by default."""
        return torch.ones(self.num_clients, dtype=torch.bool)

    def work(self, round: int) -> Tensor | None:
        """The share of its local steps that a device makes: float64 [N] in [0, 1]; None, by default: all of them."""
        return None

    def absent(self) -> Ids:
        """The clients that can never come; nobody by default."""
        return torch.empty(0, dtype=torch.int64)

    def coins(self, round: int) -> Tensor:
        """Independent uniforms on [0, 1), float64 [N], one draw a client."""
        return torch.from_numpy(stream(self.seed, "availability", round).random(self.num_clients))


class Independent(Availability):
    """Coins with fixed probabilities: client i is there with p_i, independently of all else."""

    p: Tensor

    def mask(self, round: int) -> Tensor:
        """coin < p_i."""
        return self.coins(round) < self.p

    def prob(self, round: int) -> Tensor | None:
        """p_i, the same in every round."""
        return self.p

    def absent(self) -> Ids:
        """Those with p_i = 0."""
        return (self.p == 0).nonzero().flatten()
