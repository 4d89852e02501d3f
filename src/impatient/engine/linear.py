"""Softmax regression without autograd: batched closed-form gradients in reused buffers."""

import torch
from torch import Tensor, nn

from impatient.engine.local import Engine, LocalSGD, Task, descend
from impatient.flat import FlatModel, cross_entropy
from impatient.messages import ClientPlan, ClientReport, Flat, Ids


def linear_layer(model: FlatModel) -> nn.Linear | None:
    """The one layer of a softmax regression, the model's whole content; None for any other model or loss.

    A model says that it is linear(x.flatten(1)) by the class attribute `softmax_regression`, the layer's name.
    """
    name = getattr(model.module, "softmax_regression", None)
    layer = getattr(model.module, name) if isinstance(name, str) else None
    if not isinstance(layer, nn.Linear) or layer.bias is None or model.loss is not cross_entropy:
        return None
    return layer if model.names == [f"{name}.weight", f"{name}.bias"] else None


class Linear(Engine):
    """With W [C, d], b [C] and a batch X [B, d] of one client:

        P = softmax(W·Xᵀ + b) - onehot(y)    [C, B]
        ∇W = P·X/B,  ∇b = P·1/B

    for all clients of a chunk at once. W·Xᵀ, and not X·Wᵀ: with few classes it is the faster of the two by far.
    """

    def run(
        self,
        task: Task,
        params: Flat,
        plan: ClientPlan,
        ids: Ids,
        index: Tensor,
        count: Tensor,
        lr: float,
        sgd: LocalSGD,
        address: tuple[int, int],
    ) -> ClientReport:
        """See Engine.run."""
        layer = linear_layer(task.model)
        if layer is None:
            raise ValueError("the linear engine takes softmax regression only; use engine=auto")
        a, steps = count.shape
        classes, dim = layer.weight.shape
        start = params.expand(a, -1) if plan.start is None else plan.start
        w = start.clone()
        grad = torch.empty_like(w)
        weight, bias = (w[:, : classes * dim].view(a, classes, dim), w[:, classes * dim :])
        grad_weight, grad_bias = (grad[:, : classes * dim].view(a, classes, dim), grad[:, classes * dim :])
        velocity = torch.zeros_like(w) if sgd.momentum else None
        loss, loss_start = params.new_zeros(a), params.new_zeros(a)
        samples = task.prepared.flatten(1)
        for k in range(steps):
            size = count[:, k]
            width = int(size.max())
            share = ((torch.arange(width) < size[:, None]).to(torch.float64) / size.clamp(min=1)[:, None]).to(w)
            at = index[:, k, :width].reshape(-1).to(w.device)
            x = samples.index_select(0, at).view(a, width, dim)
            y = task.y.index_select(0, at).view(a, 1, width)
            scores = torch.baddbmm(bias.unsqueeze(2), weight, x.mT)
            log_p = scores.log_softmax(1)
            value = -(log_p.gather(1, y).squeeze(1) * share).sum(1)
            p = log_p.exp_().scatter_add_(1, y, w.new_full((1,), -1.0).expand_as(y)).mul_(share.unsqueeze(1))
            torch.bmm(p, x, out=grad_weight)
            torch.sum(p, 2, out=grad_bias)
            busy = size > 0
            if bool(busy.all()):
                descend(w, grad, start, plan.shift, plan.prox, lr, sgd, velocity)
            else:
                own = busy.nonzero().flatten()
                now, moved = w[own], None if velocity is None else velocity[own]
                shift = None if plan.shift is None else plan.shift[own]
                descend(now, grad[own], start[own], shift, plan.prox, lr, sgd, moved)
                w[own] = now
                if velocity is not None and moved is not None:
                    velocity[own] = moved
            loss += value
            if k == 0:
                loss_start = value
        done = (count > 0).sum(1)
        return ClientReport(ids, w - start, done, count.sum(1), loss / done.clamp(min=1).to(loss), loss_start)
