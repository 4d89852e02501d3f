"""Softmax regression without autograd: batched closed-form gradients in reused buffers."""

import torch
from torch import nn

from impatient.engine.local import Engine, Task, Work, descend_some
from impatient.flat import FlatModel, cross_entropy
from impatient.messages import ClientPlan, ClientReport, Flat


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

    chunk = 8  # more do not fit the cache

    def run(self, task: Task, params: Flat, plan: ClientPlan, work: Work) -> ClientReport:
        """See Engine.run."""
        layer = linear_layer(task.model)
        if layer is None:
            raise ValueError("the linear engine takes softmax regression only; use engine=auto")
        index, count, sgd = work.index, work.count, work.sgd
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
        # Everything that does not depend on w, for all steps at once: what is left in the loop is mostly arithmetic.
        by_step = index.transpose(0, 1).to(w.device).contiguous()
        labels = task.y[by_step].unsqueeze(2)
        real = torch.arange(index.shape[2]) < count.T.unsqueeze(2)
        share = (real.to(torch.float64) / count.T.clamp(min=1).unsqueeze(2)).unsqueeze(2).to(w)
        minus_one = w.new_full((1,), -1.0)
        for k in range(steps):
            width = int(count[:, k].max())
            x = samples.index_select(0, by_step[k, :, :width].reshape(-1)).view(a, width, dim)
            y, part = labels[k, :, :, :width], share[k, :, :, :width]
            log_p = torch.baddbmm(bias.unsqueeze(2), weight, x.mT).log_softmax(1)
            value = -(log_p.gather(1, y) * part).sum((1, 2))
            p = log_p.exp_().scatter_add_(1, y, minus_one.expand_as(y)).mul_(part)
            torch.bmm(p, x, out=grad_weight)
            torch.sum(p, 2, out=grad_bias)
            busy = None if bool(count[:, k].all()) else count[:, k].nonzero().flatten()
            descend_some(busy, w, grad, start, plan, work.lr, sgd, velocity)
            loss += value
            if k == 0:
                loss_start = value
        done = (count > 0).sum(1)
        return ClientReport(work.ids, w - start, done, count.sum(1), loss / done.clamp(min=1).to(loss), loss_start)
