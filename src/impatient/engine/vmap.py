"""Many clients at once: one batched forward and backward for a chunk of them."""

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

from impatient.engine.batched import Batched, Gradients
from impatient.engine.local import Task, Work, flatten
from impatient.messages import ClientPlan, ClientReport, Flat
from impatient.rng import torch_stream


class Vmap(Batched):
    """vmap over the gradient (the gradient of a vmap is silently wrong for padded embeddings).

    Ragged batches are padded and their padding has weight 0; clients that are done sit out. Random layers draw from one
    stream for each (seed, round, first client of the chunk), so their masks depend on the chunking.
    """

    chunk = 32

    def run(self, task: Task, params: Flat, plan: ClientPlan, work: Work) -> ClientReport:
        """See Engine.run."""
        first = int(work.ids[0]) if len(work.ids) else 0
        with torch_stream(params.device, work.seed, "local", work.round, first):
            return super().run(task, params, plan, work)

    def gradients(self, task: Task, work: Work, w: Tensor) -> Gradients:
        """See Batched.gradients."""
        model = task.model

        def objective(leaves: dict[str, Tensor], x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
            return (model.losses(leaves, x, y) * weight).sum()

        gradient = vmap(grad_and_value(objective), randomness="different")

        def some(k: int, busy: Tensor | None) -> tuple[Tensor, Tensor]:
            at = slice(None) if busy is None else busy
            size = work.count[at, k]
            width = int(size.max())
            weight = (torch.arange(width) < size[:, None]).to(torch.float64) / size[:, None]
            x, y = task.batch(work.index[at, k, :width])
            grads, value = gradient(model.views(w[at]), x, y, weight.to(w))
            return flatten(tuple(grads.values()), 1), value

        return some
