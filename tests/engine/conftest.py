"""Small federations of real digits on which both engines are run."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from impatient.data.dataset import Clients, Dataset, Normalise
from impatient.data.digits import Digits
from impatient.data.rounds import Batches, Batching
from impatient.engine.local import Engine, LocalSGD, Task, Work
from impatient.flat import FlatModel, half_square
from impatient.messages import ClientPlan, ClientReport
from impatient.models.conv import LeNet5
from impatient.models.logistic import Logistic
from impatient.models.quadratic import Quadratic
from impatient.rng import torch_stream

CPU = torch.device("cpu")
SEED, ROUND = 5, 3
BATCHING = Batching(batch_size=10, epochs=2)
# Batches of 10 and two epochs: 3+3 steps that end in a batch of 3; 1+1; 1+1 that are short from the start; 5+5. So
# clients 0, 1 and 2 are done long before client 3.
SIZES = (23, 10, 7, 41)


def _conv(channels: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, out, 3, stride=2, padding=1), nn.GroupNorm(2, out), nn.ReLU())


# Each model with the side of the images it is shown (digits are 8x8; LeNet-5 needs 16).
MODELS: dict[str, tuple[int, Callable[[], nn.Module]]] = {
    "logistic": (8, lambda: Logistic((1, 8, 8), 10)),
    "pixels": (8, lambda: Logistic((1, 8, 8), 10)),
    "colours": (8, lambda: Logistic((3, 8, 8), 10)),
    "quadratic": (8, lambda: Quadratic((64,))),
    "lenet5": (16, lambda: LeNet5((1, 16, 16), 10)),
    "groupnorm": (8, lambda: nn.Sequential(_conv(1, 4), _conv(4, 8), nn.Flatten(), nn.Linear(8 * 2 * 2, 10))),
    "dropout": (
        8,
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 10)),
    ),
}


@dataclass(frozen=True)
class Federation:
    """A model, some clients, and one round of theirs."""

    task: Task
    clients: Clients
    params: Tensor
    dataset: Dataset

    def batches_of(self, client: int) -> list[np.ndarray]:
        """One client's batches as plain index lists, not padded."""
        return BATCHING.client(self.clients.indices[client], SEED, ROUND, client)

    def draw(self, ids: Tensor) -> Batches:
        return BATCHING.draw(self.clients, ids, SEED, ROUND)

    def run(
        self,
        engine: Engine,
        sgd: LocalSGD | None = None,
        plan: ClientPlan | None = None,
        ids: list[int] | None = None,
        round: int = ROUND,
        needs: tuple[str, ...] = (),
    ) -> ClientReport:
        """One round of the clients `ids` at client step size 0.1; the batches stay those of ROUND."""
        who = torch.arange(len(self.clients)) if ids is None else torch.tensor(ids, dtype=torch.int64)
        batches, plan, sgd = self.draw(who), plan or ClientPlan(), sgd or LocalSGD(lr=0.1)
        if plan.steps is not None:
            batches = batches.first(plan.steps)
        work = Work(who, batches.index, batches.count, 0.1, sgd, SEED, round, frozenset(needs))
        return engine.run(self.task, self.params, plan.cast(self.params), work)


@pytest.fixture(scope="session")
def federation() -> Callable[..., Federation]:
    """federation(model, dtype): four clients of unequal size, the model at its seeded initial weights."""
    digits = Digits().load(len(SIZES), 0)

    def build(name: str, dtype: torch.dtype = torch.float64) -> Federation:
        side, make = MODELS[name]
        raw = digits.x[: sum(SIZES)]
        x = Normalise(digits, CPU, torch.float64)(raw)
        data = replace(digits, x=x if side == 8 else F.interpolate(x, (side, side), mode="bilinear"))
        if name == "pixels":  # uint8, as they are stored
            data = replace(digits, x=raw)
        elif name == "colours":
            three = torch.cat([raw, 255 - raw, raw // 2], 1)
            data = replace(digits, x=three, mean=(0.1, 0.5, 0.2), std=(0.3, 0.2, 0.4))
        elif name == "quadratic":
            data = replace(data, x=x.flatten(1), loss=half_square)
        owners = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
        with torch_stream(CPU, SEED, "test/init"):
            model = FlatModel(make().to(dtype), data.loss)
        task = Task(model, data.x, data.y[: sum(SIZES)], Normalise(data, CPU, dtype))
        return Federation(task, Clients.of(owners, task.y, 10), model.get(), data)

    return build


@pytest.fixture(scope="session")
def full_plan() -> Callable[[Federation], ClientPlan]:
    """A plan that uses every field, different for every client."""

    def build(fed: Federation) -> ClientPlan:
        noise = torch.Generator().manual_seed(0)
        shape = (len(fed.clients), len(fed.params))
        start = fed.params + 0.05 * torch.randn(shape, generator=noise, dtype=fed.params.dtype)
        shift = 0.02 * torch.randn(shape, generator=noise, dtype=fed.params.dtype)
        prox, rate = (torch.tensor(v, dtype=fed.params.dtype) for v in ([0.3, 0.0, 2.0, 0.1], [1.0, 0.5, 2.0, 1.5]))
        return ClientPlan(start, shift, prox, rate, steps=torch.tensor([5, 2, 1, 20]))

    return build
