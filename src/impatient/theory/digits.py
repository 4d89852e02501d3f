"""Real data for the studies: scikit-learn's digits, dealt out by classes, in float64, with the exact objective."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from impatient.availability.label_bernoulli import LabelBernoulli
from impatient.data.dataset import Clients, Normalise
from impatient.data.digits import Digits
from impatient.data.partition.two_class import TwoClass
from impatient.data.rounds import Batches, Batching
from impatient.engine.auto import EngineChoice
from impatient.engine.local import Engine, LocalSGD, Task
from impatient.flat import FlatModel, cross_entropy
from impatient.messages import Ids, Population
from impatient.models.logistic import Logistic
from impatient.rng import torch_stream
from impatient.theory.simulate import Devices

CPU = torch.device("cpu")


@dataclass(frozen=True)
class DigitsTask:
    """N devices with two classes each; F_i is the mean cross-entropy on device i's samples + decay/2·‖w‖²."""

    task: Task
    engine: Engine
    owners: Clients
    decay: float
    start: Tensor

    @classmethod
    def make(cls, num_clients: int, decay: float, hidden: int = 0, seed: int = 0) -> "DigitsTask":
        """Softmax regression, or with `hidden` units a network of one layer of tanh. Starts at 0, or at torch's draw.

        Raises ConfigError for more devices than there are samples for.
        """
        data = Digits().load(num_clients, seed)
        indices = TwoClass().split(data.y.numpy(), data.num_classes, num_clients, seed)
        with torch_stream(CPU, seed, "model"):
            net: nn.Module = (
                nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.Tanh(), nn.Linear(hidden, 10))
                if hidden
                else Logistic(data.input_shape, data.num_classes)
            ).double()
        model = FlatModel(net, cross_entropy)
        task = Task(model, data.x, data.y, Normalise(data, CPU, torch.float64))
        start = model.get() if hidden else torch.zeros(model.num_params, dtype=torch.float64)
        # One network after the other: this small, batching them costs more than it saves.
        engine = EngineChoice("loop" if hidden else "auto").pick(task, CPU)
        return cls(task, engine, Clients.of(indices, data.y, data.num_classes), decay, start)

    def availability(self, pmin: float) -> np.ndarray:
        """p_i = p_min + (1 - p_min)·(smallest label)/9, float64 [N], as in the paper."""
        process = LabelBernoulli(pmin)
        process.setup(Population(torch.from_numpy(self.owners.labels), torch.from_numpy(self.owners.sizes)), 0)
        return process.p.numpy()

    def federation(self, batch: int, steps: int, seed: int) -> Devices:
        """These devices with K local steps on mini-batches, through the engine that fits the model."""
        batching = Batching(batch, None, steps)
        sgd = LocalSGD(1.0, epochs=None, steps=steps, batch_size=batch, weight_decay=self.decay)

        def draw(ids: Ids, round: int) -> Batches:
            return batching.draw(self.owners, ids, seed, round)

        return Devices(len(self.owners), self.engine, self.task, sgd, draw)

    def objective(self, w: Tensor, weight: np.ndarray | None = None) -> tuple[float, Tensor]:
        """Σ_i weight_i F_i(w), by default their mean, and its gradient [P]."""
        index = torch.from_numpy(np.concatenate(self.owners.indices))
        share = np.full(len(self.owners), 1 / len(self.owners)) if weight is None else weight
        each = torch.from_numpy(np.repeat(share / self.owners.sizes, self.owners.sizes))
        w = w.detach().requires_grad_()
        x, y = self.task.batch(index)
        value = each @ self.task.model.losses(self.task.model.views(w), x, y) + self.decay / 2 * w.square().sum()
        (grad,) = torch.autograd.grad(value, w)
        return value.item(), grad

    def optimum(self, weight: np.ndarray | None = None) -> Tensor:
        """w* [P] of Σ_i weight_i F_i if convex, else a stationary point: full-batch L-BFGS to ‖∇‖∞ < 1e-6."""
        w = self.start.clone()
        exact: Any = {"tolerance_grad": 1e-9, "tolerance_change": 1e-15, "line_search_fn": "strong_wolfe"}
        solver = torch.optim.LBFGS([w], max_iter=3000, max_eval=6000, history_size=30, **exact)

        def closure() -> float:
            value, w.grad = self.objective(w, weight)
            return value

        solver.step(closure)
        left = float(self.objective(w, weight)[1].abs().max())
        if left > 1e-6:
            raise RuntimeError(f"L-BFGS stopped at a gradient of {left:.1e}")
        return w
