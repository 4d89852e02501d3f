"""Clients with F_i(w) = ½‖w - u_i‖² and noisy gradients: all that the closed forms are about."""

from dataclasses import dataclass

import numpy as np
import torch

from impatient.data.rounds import Batches
from impatient.engine.local import Engine, LocalSGD, Task, Work, descend
from impatient.messages import ClientPlan, ClientReport, Flat, Ids
from impatient.rng import stream
from impatient.theory.simulate import Federation


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

    def federation(self, steps: int = 1, repeat: int = 0) -> Federation:
        """These clients with K local steps, for `simulate.play`: the slow twin of `batched.play` in one repeat."""

        def unread(ids: Ids, round: int) -> Batches:
            shape = (len(ids), steps)
            return Batches(torch.zeros(*shape, 1, dtype=torch.int64), torch.ones(shape, dtype=torch.int64))

        sgd = LocalSGD(1.0, epochs=None, steps=steps, batch_size=1)
        return Federation(len(self.u), QuadraticEngine(self, repeat), None, sgd, unread)


@dataclass(frozen=True)
class QuadraticEngine(Engine):
    """The local steps on quadratics."""

    clients: Quadratics
    repeat: int
    chunk = 1 << 20

    def run(self, task: Task, params: Flat, plan: ClientPlan, work: Work) -> ClientReport:
        """See Engine.run; of the batches only their number counts."""
        ids, count, (a, steps) = work.ids, work.count, work.count.shape
        u = torch.from_numpy(self.clients.u)[ids].to(params)
        drawn = self.clients.draws(work.round, self.repeat + 1, steps)[self.repeat]
        noise = torch.from_numpy(drawn)[ids].to(params)
        start = params.expand(a, -1) if plan.start is None else plan.start
        w, losses = start.clone(), []
        for k in range(steps):
            losses.append(0.5 * (w - u).square().sum(1))
            descend(w, w - u + noise[:, k], start, plan.shift, plan.prox, work.lr, work.sgd, None)
        return ClientReport(ids, w - start, (count > 0).sum(1), count.sum(1), torch.stack(losses).mean(0), losses[0])


def isotropic(num_clients: int, dim: int, spread: float = 3.0, sigma: float = 1.0, seed: int = 0) -> Quadratics:
    """Clients with centres u_i ~ U(-spread, spread)^P."""
    return Quadratics(stream(seed, "theory/centres").uniform(-spread, spread, (num_clients, dim)), sigma, seed)
