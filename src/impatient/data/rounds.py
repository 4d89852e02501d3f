"""Which samples each client sees in which local step: index tensors, a pure function of (seed, round, client)."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from impatient.data.dataset import Clients
from impatient.machine import free_bytes
from impatient.messages import Ids
from impatient.rng import stream


@dataclass(frozen=True)
class Batches:
    """The mini-batches of A clients.

    index: int64 [A, K, B] into the training arrays, padded with the client's own first sample; count: int64 [A, K],
    how many of each batch are real; 0 where a client makes fewer than K steps.
    """

    index: Tensor
    count: Tensor

    @property
    def steps(self) -> Tensor:
        """How many steps each client makes with them, int64 [A]."""
        return (self.count > 0).sum(1)

    def first(self, steps: Tensor) -> "Batches":
        """At most the first steps_i batches of client i, int64 [A] ≥ 0."""
        count = self.count * (torch.arange(self.count.shape[1]) < steps.unsqueeze(1))
        most = int((count > 0).any(0).sum())
        return Batches(self.index[:, :most], count[:, :most])


@dataclass(frozen=True)
class Batching:
    """How a client walks through its samples: reshuffled epochs cut into batches, the last one of an epoch ragged.

    `steps`, where given, takes the place of `epochs`; a batch is never larger than the client's data.
    """

    batch_size: int
    epochs: int | None = 2
    steps: int | None = None

    def check(self, samples: int, chunk: int) -> list[str]:
        """Say that the batches of `chunk` clients of `samples` samples, int64 indices, do not fit the memory."""
        steps = self.steps or (self.epochs or 1) * -(-samples // self.batch_size)
        size, free = steps * min(self.batch_size, samples) * 8 * chunk, free_bytes()
        if free is None or size <= free:
            return []
        key, value = ("steps", self.steps) if self.steps else ("epochs", self.epochs)
        return [
            f"{key}={value}: {steps:.3g} steps a round, whose batches take {size / 1e9:.3g} GB of memory; "
            f"{free / 1e9:.3g} GB are free; make fewer, or set engine.chunk=1"
        ]

    def client(self, own: np.ndarray, seed: int, round: int, client: int) -> list[np.ndarray]:
        """The batches of one client in one round, in order."""
        rng = stream(seed, "batches", round, client)
        per_epoch = math.ceil(len(own) / self.batch_size)
        epochs = self.epochs if self.steps is None else math.ceil(self.steps / per_epoch)
        batches: list[np.ndarray] = []
        for _ in range(epochs or 0):
            order = own[rng.permutation(len(own))]
            batches += [order[at : at + self.batch_size] for at in range(0, len(order), self.batch_size)]
        return batches[: self.steps]

    def draw(self, clients: Clients, ids: Ids, seed: int, round: int) -> Batches:
        """The batches of the clients `ids` in one round."""
        drawn = [self.client(clients.indices[i], seed, round, i) for i in ids.tolist()]
        k = max((len(batches) for batches in drawn), default=0)
        b = max((len(batches[0]) for batches in drawn), default=0)
        index = np.empty((len(drawn), k, b), dtype=np.int64)
        count = np.zeros((len(drawn), k), dtype=np.int64)
        for row, (i, batches) in enumerate(zip(ids.tolist(), drawn, strict=True)):
            index[row] = clients.indices[i][0]
            for step, batch in enumerate(batches):
                index[row, step, : len(batch)] = batch
                count[row, step] = len(batch)
        return Batches(torch.from_numpy(index), torch.from_numpy(count))
