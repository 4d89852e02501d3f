"""The federation's data: who owns what, who is there when."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

from impatient.availability.base import Availability
from impatient.data.dataset import Clients, Dataset, Source
from impatient.data.partition.base import Partition, partition_hash, verify
from impatient.data.rounds import Batches, Batching
from impatient.messages import Ids, Population
from impatient.round import Round


@dataclass(frozen=True)
class Seeds:
    """One seed for each purpose."""

    partition: int
    availability: int
    batches: int
    model: int
    cohort: int


class FederatedDataModule(L.LightningDataModule):
    """Yields rounds without end; per-client loaders and batches on request.

    weights: "equal" (a_i = 1/N, the paper) or "samples" (a_i = n_i/Σn); knowledge: what the rule must be told of
    availability (Aggregator.knowledge).
    """

    def __init__(
        self,
        source: Source,
        partition: Partition,
        availability: Availability,
        batching: Batching,
        num_clients: int,
        seeds: Seeds,
        weights: str = "equal",
        knowledge: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self.source, self.partition, self.availability = source, partition, availability
        self.batching, self.num_clients, self.seeds, self.weights = batching, num_clients, seeds, weights
        self.knowledge = knowledge
        self.dataset: Dataset | None = None

    def setup(self, stage: str | None = None) -> None:
        """Load the arrays, split them, and tell the availability process whom it is about; once."""
        if self.dataset is not None:
            return
        data = self.source.load(self.num_clients, self.seeds.partition)
        if self.partition.natural and data.owners is not None:
            indices = verify(data.owners, len(data.y), self.num_clients)
        else:
            indices = self.partition.split(data.y.numpy(), data.num_classes, self.num_clients, self.seeds.partition)
        self.clients = Clients.of(indices, data.y, data.num_classes)
        counts, sizes = torch.from_numpy(self.clients.labels), torch.from_numpy(self.clients.sizes)
        self.availability.setup(Population(counts, sizes), self.seeds.availability)
        share = sizes.to(torch.float64)
        share = torch.ones_like(share) if self.weights == "equal" else share
        self.weight = share / share.sum()
        self.dataset = data

    @property
    def data(self) -> Dataset:
        """The arrays; setup must have run."""
        if self.dataset is None:
            raise RuntimeError("FederatedDataModule.setup() has not run")
        return self.dataset

    def round(self, t: int) -> Round:
        """All that round t needs of availability."""
        process = self.availability
        told = {name: value for name, value in process.knows(t).items() if name in self.knowledge}
        return Round(t, process.mask(t), told, process.returns(t), process.work(t))

    def batches(self, ids: Ids, round: int) -> Batches:
        """The mini-batches of some clients in one round, as indices."""
        return self.batching.draw(self.clients, ids, self.seeds.batches, round)

    def client_loader(self, i: int, **kwargs: Any) -> DataLoader:
        """An ordinary loader over client i's own samples, as the source stores them; kwargs go to DataLoader."""
        own = torch.from_numpy(self.clients.indices[i])
        return DataLoader(TensorDataset(self.data.x[own], self.data.y[own]), **kwargs)

    def train_dataloader(self) -> "Rounds":
        """Rounds from trainer.global_step on, without end."""
        return Rounds(self)

    def test_dataloader(self) -> list[int]:
        """One empty step: the module evaluates on the resident arrays."""
        return [0]

    def val_dataloader(self) -> list[int]:
        """As test_dataloader; without effect in fit, which evaluates inside the round."""
        return [0]

    def hashes(self) -> dict[str, str]:
        """Proof of what was drawn: the partition, and the batches of the first 100 clients in round 0."""
        first = torch.arange(min(100, self.num_clients))
        return {
            "hash/partition": partition_hash(self.clients.indices),
            "hash/batches": partition_hash([row.numpy().ravel() for row in self.batches(first, 0).index]),
        }


class Rounds:
    """The endless loader: starts where the trainer stands, so a resumed run goes on with the right round."""

    def __init__(self, datamodule: FederatedDataModule) -> None:
        self.datamodule = datamodule

    def __iter__(self) -> Iterator[Round]:
        trainer = self.datamodule.trainer
        start = 0 if trainer is None else trainer.global_step
        end = math.inf if trainer is None or trainer.max_steps < 0 else trainer.max_steps
        for t in itertools.count(start):
            # Lightning asks for one round more than it runs, and a recorded trace may not have it.
            yield self.datamodule.round(t) if t < end else Round(t, torch.zeros(self.datamodule.num_clients).bool())
