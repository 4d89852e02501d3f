"""Clients with F_i(w) = ½‖w - u_i‖² and noisy gradients: all that the closed forms are about."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from impatient.data.rounds import Batches
from impatient.engine.batched import Batched, Gradients
from impatient.engine.local import LocalSGD, Task, Work
from impatient.messages import Ids
from impatient.rng import stream
from impatient.theory.simulate import Devices


@dataclass(frozen=True)
class Quadratics:
    """F_i(w) = ½‖w - u_i‖²; a gradient carries sigma·N(0, I). u: float64 [N, P]."""

    u: np.ndarray
    sigma: float = 1.0
    seed: int = 0

    @property
    def optimum(self) -> np.ndarray:
        """w* [P] of the mean of the F_i."""
        return self.u.mean(0)

    @property
    def gap(self) -> np.ndarray:
        """D_i = ‖∇F_i(w*)‖², [N]."""
        return np.square(self.optimum - self.u).sum(1)

    @property
    def noise(self) -> float:
        """σ² = E‖gradient noise‖²."""
        return self.sigma**2 * self.u.shape[1]

    def draws(self, round: int, repeats: int, steps: int) -> np.ndarray:
        """The gradient noise of a round, [R, N, K, P]; more repeats begin with those of fewer."""
        shape = (repeats, len(self.u), steps, self.u.shape[1])
        return self.sigma * stream(self.seed, "theory/noise", round).standard_normal(shape)

    def federation(self, steps: int = 1, repeat: int = 0) -> Devices:
        """These clients with K local steps, for `simulate.play`: the slow twin of `batched.play` in one repeat."""

        def unread(ids: Ids, round: int) -> Batches:
            shape = (len(ids), steps)
            return Batches(torch.zeros(*shape, 1, dtype=torch.int64), torch.ones(shape, dtype=torch.int64))

        sgd = LocalSGD(1.0, epochs=None, steps=steps, batch_size=1)
        return Devices(len(self.u), QuadraticEngine(self, repeat), None, sgd, unread)


@dataclass(frozen=True)
class QuadraticEngine(Batched):
    """The local steps on quadratics."""

    clients: Quadratics
    repeat: int
    chunk = 1 << 20

    def gradients(self, task: Task, work: Work, w: Tensor) -> Gradients:
        """See Batched.gradients; of the batches only their number counts."""
        u = torch.from_numpy(self.clients.u)[work.ids].to(w)
        drawn = self.clients.draws(work.round, self.repeat + 1, work.count.shape[1])[self.repeat]
        noise = torch.from_numpy(drawn)[work.ids].to(w)

        def gradient(k: int, busy: Tensor | None) -> tuple[Tensor, Tensor]:
            at = slice(None) if busy is None else busy
            off = w[at] - u[at]
            return off + noise[at, k], 0.5 * off.square().sum(1)

        return gradient


def isotropic(num_clients: int, dim: int, spread: float = 3.0, sigma: float = 1.0, seed: int = 0) -> Quadratics:
    """Clients with centres u_i ~ U(-spread, spread)^P."""
    return Quadratics(stream(seed, "theory/centres").uniform(-spread, spread, (num_clients, dim)), sigma, seed)
