"""An availability process on trial, and the clients it meets."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from impatient.availability.base import Availability
from impatient.checks import ConfigError
from impatient.messages import Population


@dataclass(frozen=True)
class ProcessTrial:
    """A process and whom it is tried on.

    make: a process that is not set up yet, a fresh one at each call; num_classes: C, 0 for data without classes.
    """

    make: Callable[[], Availability]
    num_clients: int = 10
    num_classes: int = 10

    def population(self, num_clients: int) -> Population:
        """Clients with one or two classes and unequal sizes; fewer of them are the first of more."""
        ids, classes = torch.arange(num_clients), self.num_classes
        counts, sizes = torch.zeros(num_clients, classes, dtype=torch.int64), 10 + ids % 7
        if classes:
            counts[ids, 3 * ids % classes] += sizes - 4
            counts[ids, (7 * ids + 1) % classes] += 4
        return Population(counts, sizes, [f"device {i}" for i in range(num_clients)])

    def process(self, seed: int = 0, num_clients: int | None = None) -> Availability:
        """A fresh process, set up."""
        made = self.make()
        made.setup(self.population(num_clients or self.num_clients), seed)
        return made

    def seeds(self, count: int) -> Iterator[Availability]:
        """The process under seeds 0, 1, …; made once, because a config takes longer to make than to set up."""
        made, population = self.make(), self.population(self.num_clients)
        for seed in range(count):
            process = copy.deepcopy(made)
            process.setup(population, seed)
            yield process

    def rounds(self, most: int) -> int:
        """How many rounds there are, at most so many: a recording may end."""
        process = self.process()
        for t in range(most):
            try:
                process.mask(t)
            except ConfigError:
                return t
        return most


ROUNDS = 40
IN_A_ROUND = ("mask", "prob", "returns", "work", "knows")


def answers(process: Availability, round: int, names: Sequence[str] = IN_A_ROUND) -> dict[str, Tensor]:
    """Copies of what a process says of a round, by the name of the method."""
    said = {name: getattr(process, name)(round) for name in names}
    told = {f"knows {name}": value for name, value in said.pop("knows", {}).items()}
    return {name: value.clone() for name, value in (said | told).items() if value is not None}
