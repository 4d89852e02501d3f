"""The local steps of many clients at once. Engines differ in how the gradients of a step are made."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from impatient.engine.local import Engine, Task, Work, descend, own_gradient
from impatient.messages import ClientPlan, ClientReport, Flat

Gradients = Callable[[int, Tensor | None], tuple[Tensor, Tensor]]
"""Step k, and the places, int64 [B] on the CPU, of the clients that make it (None: of all A) → their ∇(loss) [B, P],
which the next call may overwrite, and their losses [B]."""


class Batched(Engine):
    """Step by step, all clients of a chunk together; a client that has made its steps sits out."""

    @abstractmethod
    def gradients(self, task: Task, work: Work, w: Tensor) -> Gradients:
        """What makes the gradients at w [A, P], which moves between the calls."""

    def run(self, task: Task, params: Flat, plan: ClientPlan, work: Work) -> ClientReport:
        """See Engine.run."""
        count, device = work.count, params.device
        a, steps = count.shape
        start = params.expand(a, -1) if plan.start is None else plan.start
        plan, w = replace(plan, start=start, steps=None), start.clone()  # the steps are in count
        velocity = torch.zeros_like(w) if work.sgd.momentum else None
        total = torch.zeros_like(w) if "grad" in work.needs else None
        last = torch.zeros_like(w) if "grad_last" in work.needs else None
        loss, loss_start = params.new_zeros(a), params.new_zeros(a)
        gradients = self.gradients(task, work, w)
        for k in range(steps):
            busy = None if bool(count[:, k].all()) else count[:, k].nonzero().flatten()
            grad, value = gradients(k, busy)
            if busy is None:
                grad = own_gradient(w, grad, work.sgd)
                descend(w, grad, plan, work, velocity)
                at: Tensor | slice = slice(None)
            else:
                at = busy.to(device)
                now, speed = w[at], None if velocity is None else velocity[at]
                grad = own_gradient(now, grad, work.sgd)
                descend(now, grad, plan.at(at), work, speed)
                w[at] = now
                if velocity is not None and speed is not None:
                    velocity[at] = speed
            if total is not None:
                total[at] += grad
            if last is not None:
                last[at] = grad
            if k == 0:
                loss_start[at] = value
            if busy is None:
                loss += value
            else:
                loss[at] += value
        done = (count > 0).sum(1).to(device)
        divisor = done.clamp(min=1).to(loss)
        mean = None if total is None else total / divisor.unsqueeze(1)
        samples = count.sum(1).to(device)
        return ClientReport(work.ids, start - w, done, samples, loss / divisor, loss_start, mean, last)
