"""Many clients at once: one batched forward and backward for a chunk of them."""

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

from impatient.engine.local import Engine, Task, Work, descend_some, flatten
from impatient.messages import ClientPlan, ClientReport, Flat
from impatient.rng import torch_stream


class Vmap(Engine):
    """vmap over the gradient (the gradient of a vmap is silently wrong for padded embeddings).

    Ragged batches are padded and their padding has weight 0; clients that are done sit out. Random layers draw from one
    stream for each (seed, round, first client of the chunk), so their masks depend on the chunking.
    """

    chunk = 32

    def run(self, task: Task, params: Flat, plan: ClientPlan, work: Work) -> ClientReport:
        """See Engine.run."""
        model, ids, count, sgd = task.model, work.ids, work.count, work.sgd

        def objective(leaves: dict[str, Tensor], x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
            return (model.losses(leaves, x, y) * weight).sum()

        gradients = vmap(grad_and_value(objective), randomness="different")

        a, steps = count.shape
        start = params.expand(a, -1) if plan.start is None else plan.start
        w = start.clone()
        velocity = torch.zeros_like(w) if sgd.momentum else None
        loss, loss_start = params.new_zeros(a), params.new_zeros(a)
        with torch_stream(params.device, work.seed, "local", work.round, int(ids[0]) if a else 0):
            for k in range(steps):
                size = count[:, k]
                busy = None if bool(size.all()) else size.nonzero().flatten()
                at = slice(None) if busy is None else busy
                width = int(size.max())
                weight = (torch.arange(width) < size[at, None]).to(torch.float64) / size[at, None]
                x, y = task.batch(work.index[at, k, :width])
                grads, value = gradients(model.views(w[at]), x, y, weight.to(params))
                grad = flatten(tuple(grads.values()), 1)
                if busy is not None:
                    grad = torch.zeros_like(w).index_copy_(0, busy.to(w.device), grad)
                descend_some(busy, w, grad, start, plan, work.lr, sgd, velocity)
                loss[at] += value
                if k == 0:
                    loss_start[at] = value
        done = (count > 0).sum(1)
        return ClientReport(ids, w - start, done, count.sum(1), loss / done.clamp(min=1).to(loss), loss_start)
