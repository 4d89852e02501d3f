"""When devices are there: the plug-in API of an availability process, and processes whose p_i are fixed."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor

from impatient.messages import Ids, Population
from impatient.rng import stream


class Availability(ABC):
    """A process of masks: once it is set up, all it gives is a function of (seed, round).

    A longer run begins with the masks of a shorter one; adding a client keeps those of the others. All tensors are on
    the CPU. A process writes `mask`, and `prob` where it knows it; its laws are in contract/process_laws.py.
    """

    num_clients: int
    seed: int

    def setup(self, population: Population, seed: int) -> None:
        """Learn whom it is about, and the seed. Raises ConfigError where the config and the clients do not fit."""
        self.num_clients, self.seed = len(population.sizes), seed

    def check(self, num_clients: int, num_classes: int | None) -> list[str]:
        """Faults that show before any data is read, each beginning with its key; None: not known yet. None by default.

        num_classes is 0 where the data has no classes.
        """
        return []

    @abstractmethod
    def mask(self, round: int) -> Tensor:
        """Who is there: bool [N]. Raises ConfigError where a recording has no such round."""

    def prob(self, round: int) -> Tensor | None:
        """The true p_i(t), the chance to be there in this round: float64 [N]; None where it is not known."""
        return None

    def stationary(self) -> Tensor | None:
        """p_i where it is the same in every round: float64 [N]; None where it changes or is not known."""
        return None

    def knows(self, round: int) -> Mapping[str, Tensor]:
        """What a rule that asks may be told.

        prob: float64 [N], where there is one; a process may add correlation: float64 [N], of being there in one round
        and in the next (λ; after k rounds at most λ^k); period: int64 [], after so many rounds p_i(t) comes again.
        """
        prob = self.prob(round)
        return {} if prob is None else {"prob": prob}

    def returns(self, round: int) -> Tensor:
        """Whose answer gets through, if asked: bool [N]; everybody's by default."""
        return torch.ones(self.num_clients, dtype=torch.bool)

    def work(self, round: int) -> Tensor | None:
        """The share of its local steps that a device makes: float64 [N] in [0, 1]; None, by default: all of them."""
        return None

    def absent(self) -> Ids:
        """The clients that can never come: int64; nobody by default."""
        return torch.empty(0, dtype=torch.int64)

    def coins(self, round: int) -> Tensor:
        """Independent uniforms on [0, 1), float64 [N], one draw a client."""
        return torch.from_numpy(stream(self.seed, "availability", round).random(self.num_clients))


class Stationary(Availability):
    """Client i is there with probability p_i in every round; `setup` fixes p, float64 [N]."""

    p: Tensor

    def prob(self, round: int) -> Tensor | None:
        """p_i, the same in every round."""
        return self.p

    def stationary(self) -> Tensor | None:
        """p_i."""
        return self.p

    def absent(self) -> Ids:
        """Those with p_i = 0."""
        return (self.p == 0).nonzero().flatten()


class Independent(Stationary):
    """Coins with fixed probabilities: client i is there with p_i, independently of all else."""

    def mask(self, round: int) -> Tensor:
        """coin < p_i."""
        return self.coins(round) < self.p

    def knows(self, round: int) -> Mapping[str, Tensor]:
        """Also that no round tells of the next: correlation 0."""
        return {**super().knows(round), "correlation": torch.zeros_like(self.p)}
