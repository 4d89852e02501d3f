"""Models that are linear in their parameters, without autograd: batched closed-form gradients of many clients."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from impatient.engine.batched import Batched, Gradients
from impatient.engine.local import Task, Work
from impatient.flat import FlatModel, cross_entropy, half_square

Gradient = Callable[[int], Tensor]
"""Step k: writes the gradients of all clients at hand into the table given before; → their losses [A]."""


def closed_form(model: FlatModel) -> Callable[..., Gradient] | None:
    """What makes this model's gradients, or None for any other model or loss.

    A model says what it is by a class attribute: softmax_regression, the name of the one layer of linear(x.flatten(1)),
    or mean_estimation, the name of the one parameter of w - x.
    """
    module = model.module
    name = getattr(module, "mean_estimation", None)
    if name is not None and model.names == [name] and len(model.shapes[0]) == 1 and model.loss is half_square:
        return mean_estimation
    name = getattr(module, "softmax_regression", None)
    layer = getattr(module, name) if isinstance(name, str) else None
    if isinstance(layer, nn.Linear) and layer.bias is not None and model.loss is cross_entropy:
        return softmax_regression if model.names == [f"{name}.weight", f"{name}.bias"] else None
    return None


class Linear(Batched):
    """All clients of a chunk in closed form, in reused buffers."""

    chunk = 12  # more do not fit the cache

    def gradients(self, task: Task, work: Work, w: Tensor) -> Gradients:
        """See Batched.gradients; clients that are done are computed too, and left out."""
        form = closed_form(task.model)
        if form is None:
            raise ValueError("the linear engine takes softmax regression and model=quadratic only; use engine=auto")
        grad = torch.empty_like(w)
        gradient = form(task, work, w, grad)

        def some(k: int, busy: Tensor | None) -> tuple[Tensor, Tensor]:
            value = gradient(k)
            return (grad, value) if busy is None else (grad[busy], value[busy])

        return some


def softmax_regression(task: Task, work: Work, w: Tensor, grad: Tensor) -> Gradient:
    """With W [C, d], b [C] and a batch X [B, d] of one client:

        P = softmax(W·Xᵀ + b) - onehot(y)    [C, B]
        ∇W = P·X/B,  ∇b = P·1/B

    W·Xᵀ, and not X·Wᵀ: with few classes it is the faster of the two by far. Images of one channel are normalised behind
    the product, X = s·Z + m with Z the pixels: W·Xᵀ = s·W·Zᵀ + m·W·1·1ᵀ and P·X = s·P·Z + m·P·1·1ᵀ. So uint8 is all
    that is read, a quarter of the bytes.
    """  # fmt: skip
    a, classes = len(w), task.model.shapes[0][0]
    samples = task.x.flatten(1)
    dim = samples.shape[1]
    weight, bias = w[:, : classes * dim].view(a, classes, dim), w[:, classes * dim :]
    grad_weight, grad_bias = grad[:, : classes * dim].view(a, classes, dim), grad[:, classes * dim :]
    one_channel = task.one_channel
    scale, shift = one_channel or (1.0, 0.0)
    # Everything that does not depend on w, for all steps at once: what is left in a step is mostly arithmetic.
    by_step, share = _by_step(task, work, w)
    labels, share = task.y[by_step].unsqueeze(2), share.unsqueeze(2)
    minus_one = w.new_full((1,), -1.0)

    def gradient(k: int) -> Tensor:
        width = int(work.count[:, k].max())
        x = samples.index_select(0, by_step[k, :, :width].reshape(-1))
        x = (x.to(w.dtype) if one_channel else task.normalise(x.unflatten(1, task.x.shape[1:]))).view(a, width, dim)
        y, part = labels[k, :, :, :width], share[k, :, :, :width]
        level = (bias + weight.sum(2) * shift if shift else bias).unsqueeze(2)
        log_p = torch.baddbmm(level, weight, x.mT, alpha=scale).log_softmax(1)
        value = -(log_p.gather(1, y) * part).sum((1, 2))
        p = log_p.exp_().scatter_add_(1, y, minus_one.expand_as(y)).mul_(part)
        torch.sum(p, 2, out=grad_bias)
        torch.baddbmm(grad_bias.unsqueeze(2), p, x, beta=shift, alpha=scale, out=grad_weight)
        return value

    return gradient


def mean_estimation(task: Task, work: Work, w: Tensor, grad: Tensor) -> Gradient:
    """With the model w - x, the loss ½‖·‖² and x̄ the mean of a batch:  ∇ = w - x̄,  loss ½‖w - x̄‖² + ½·mean‖x - x̄‖²."""
    by_step, share = _by_step(task, work, w)

    def gradient(k: int) -> Tensor:
        width = int(work.count[:, k].max())
        index, part = by_step[k, :, :width], share[k, :, :width].unsqueeze(2)
        x = task.normalise(task.x.index_select(0, index.reshape(-1))).view(*index.shape, -1)
        mean = (x * part).sum(1)
        # A client that is done has x̄ = 0 here; its row is not used, and its loss counts for nothing.
        torch.sub(w, mean, out=grad)
        busy = (work.count[:, k] > 0).to(w)
        spread = ((x - mean.unsqueeze(1)).square() * part).sum((1, 2))
        return 0.5 * (grad.square().sum(1) + spread) * busy

    return gradient


def _by_step(task: Task, work: Work, w: Tensor) -> tuple[Tensor, Tensor]:
    """Batch indices [K, A, B], and each sample's share 1/size in its batch's mean, 0 for padding."""
    by_step, count = work.index.transpose(0, 1).to(w.device).contiguous(), work.count.T.unsqueeze(2)
    real = torch.arange(work.index.shape[2]) < count
    return by_step, (real.to(torch.float64) / count.clamp(min=1)).to(w)
