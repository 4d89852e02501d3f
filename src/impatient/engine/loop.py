"""The slow twin: one client after the other, as a device would do it."""

from dataclasses import replace

import torch

from impatient.engine.local import Engine, Task, Work, descend, flatten, own_gradient
from impatient.messages import ClientPlan, ClientReport, Flat
from impatient.rng import torch_stream


class Loop(Engine):
    """Clients in turn, batch by batch. Random layers draw from a stream of their own for each (seed, round, client)."""

    def run(self, task: Task, params: Flat, plan: ClientPlan, work: Work) -> ClientReport:
        """See Engine.run."""
        ids, count, sgd = work.ids, work.count, work.sgd
        update = params.new_zeros(len(ids), params.numel())
        grad = torch.zeros_like(update) if "grad" in work.needs else None
        grad_last = torch.zeros_like(update) if "grad_last" in work.needs else None
        loss, loss_start = params.new_zeros(len(ids)), params.new_zeros(len(ids))
        for a, client in enumerate(ids.tolist()):
            start = params if plan.start is None else plan.start[a]
            told = replace(plan.at(a), start=start)
            w = start.clone()
            velocity = torch.zeros_like(w) if sgd.momentum else None
            leaves = {name: view.requires_grad_() for name, view in task.model.views(w).items()}
            steps = 0
            with torch_stream(params.device, work.seed, "local", work.round, client):
                for own, size in zip(work.index[a], count[a].tolist(), strict=True):
                    if size == 0:
                        continue
                    mean = task.model.losses(leaves, *task.batch(own[:size])).mean()
                    grads = torch.autograd.grad(mean, tuple(leaves.values()), allow_unused=True, materialize_grads=True)
                    with torch.no_grad():
                        own_grad = own_gradient(w, flatten(grads, 0), sgd)
                        descend(w, own_grad, told, work, velocity)
                        if grad is not None:
                            grad[a] += own_grad
                        if grad_last is not None:
                            grad_last[a] = own_grad
                        loss[a] += mean.detach()
                        if steps == 0:
                            loss_start[a] = mean.detach()
                    steps += 1
            update[a] = start - w.detach()
            loss[a] /= max(steps, 1)
            if grad is not None:
                grad[a] /= max(steps, 1)
        done, samples = ((count > 0).sum(1).to(params.device), count.sum(1).to(params.device))
        return ClientReport(ids, update, done, samples, loss, loss_start, grad, grad_last)
