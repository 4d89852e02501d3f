"""The slow twin: one client after the other, as a device would do it."""

import torch

from impatient.engine.local import Engine, Task, Work, descend, flatten
from impatient.messages import ClientPlan, ClientReport, Flat
from impatient.rng import torch_stream


class Loop(Engine):
    """Clients in turn, batch by batch. Random layers draw from a stream of their own for each (seed, round, client)."""

    def run(self, task: Task, params: Flat, plan: ClientPlan, work: Work) -> ClientReport:
        """See Engine.run."""
        ids, count, sgd = work.ids, work.count, work.sgd
        delta = params.new_zeros(len(ids), params.numel())
        loss, loss_start = params.new_zeros(len(ids)), params.new_zeros(len(ids))
        for a, client in enumerate(ids.tolist()):
            start = params if plan.start is None else plan.start[a]
            shift = None if plan.shift is None else plan.shift[a]
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
                        descend(w, flatten(grads, 0), start, shift, plan.prox, work.lr, sgd, velocity)
                        loss[a] += mean.detach()
                        if steps == 0:
                            loss_start[a] = mean.detach()
                    steps += 1
            delta[a] = w.detach() - start
            loss[a] /= max(steps, 1)
        return ClientReport(ids, delta, (count > 0).sum(1), count.sum(1), loss, loss_start)
