"""Processes with a history."""

from abc import abstractmethod
from typing import Any

from torch import Tensor

from impatient.availability.base import Availability
from impatient.messages import Population


class Chain(Availability):
    """A process whose next state is made of the last one and of fresh coins.

        state_0 = first(coins_0),   state_t = next(state_{t-1}, coins_t),   mask_t = present(state_t)

    A state is a tensor, or a tuple or dict of tensors; `next` gives a new one and leaves the old one as it is. `first`
    draws from the stationary law, so that no round is special. In order, a round costs one step; a run that goes on at
    round t, or somebody who goes back, pays t steps once.
    """

    def setup(self, population: Population, seed: int) -> None:
        """Learn whom it is about, and forget any history."""
        super().setup(population, seed)
        # No state of the process: what is kept follows from (seed, round) alone, and to lose it costs time only. Two
        # rounds, because a loader asks for the masks of round t + 1 before round t is over.
        self._kept: dict[int, Any] = {}

    @abstractmethod
    def first(self, coins: Tensor) -> Any:
        """The state in round 0, from coins float64 [N]."""

    @abstractmethod
    def next(self, state: Any, coins: Tensor) -> Any:
        """The state a round later, from coins float64 [N] of that round."""

    def present(self, state: Any) -> Tensor:
        """Who is there: bool [N]; by default the state itself."""
        return state

    def state(self, round: int) -> Any:
        """The state in a round."""
        start = max((t for t in self._kept if t <= round), default=None)
        state = self.first(self.coins(0)) if start is None else self._kept[start]
        for t in range((start or 0) + 1, round + 1):
            before, state = state, self.next(state, self.coins(t))
            self._kept = {t - 1: before, t: state}
        return state

    def mask(self, round: int) -> Tensor:
        """Who is there."""
        return self.present(self.state(round)).clone()
