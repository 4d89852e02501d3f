"""The loop engine against torch.optim.SGD on an nn.Module: nothing here knows of flat vectors or padded batches."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from impatient.engine.local import LocalSGD, Work
from impatient.engine.loop import Loop
from impatient.messages import ClientPlan

LR = 0.1
SGD = {
    "plain": LocalSGD(lr=LR),
    "momentum": LocalSGD(lr=LR, momentum=0.9),
    "weight_decay": LocalSGD(lr=LR, weight_decay=0.05),
    "both": LocalSGD(lr=LR, momentum=0.9, weight_decay=0.05),
    "clip": LocalSGD(lr=LR, momentum=0.9, weight_decay=0.05, clip=0.5),
}


def train_alone(module, x, y, batches, start, sgd, shift, prox, rate):
    """One client by the book. Shift and prox enter as terms of the loss: <shift, w> + prox/2·||w - start||².

    With clip their gradient is added after that of the loss has been clipped.
    """
    net = copy.deepcopy(module)
    vector_to_parameters(start.clone(), net.parameters())
    optimizer = torch.optim.SGD(net.parameters(), lr=LR * rate, momentum=sgd.momentum, weight_decay=sgd.weight_decay)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x[batch]), y[batch])
        loss.backward()
        if sgd.clip is not None:
            torch.nn.utils.clip_grad_norm_(net.parameters(), sgd.clip)
        w = parameters_to_vector(net.parameters())
        (shift @ w + prox / 2 * (w - start).square().sum()).backward()
        optimizer.step()
        losses.append(loss.item())
    return start - parameters_to_vector(net.parameters()).detach(), losses


def expect_like_reference(fed, sgd, plan):
    report = fed.run(Loop(), sgd, plan)
    a, p = len(fed.clients), len(fed.params)
    start = fed.params.expand(a, p) if plan.start is None else plan.start
    shift = torch.zeros(a, p, dtype=torch.float64) if plan.shift is None else plan.shift
    for i, own in enumerate(fed.clients.indices):
        batches = fed.batches_of(i)[: None if plan.steps is None else plan.steps[i]]
        prox = float(plan.prox[i]) if isinstance(plan.prox, torch.Tensor) else plan.prox
        rate = 1.0 if plan.rate is None else float(plan.rate[i])
        update, losses = train_alone(
            fed.task.model.module, fed.task.x, fed.task.y, batches, start[i], sgd, shift[i], prox, rate
        )
        torch.testing.assert_close(report.update[i], update, rtol=0, atol=1e-12)
        assert report.loss[i].item() == pytest.approx(sum(losses) / len(losses), abs=1e-12)
        assert report.loss_start[i].item() == pytest.approx(losses[0], abs=1e-12)
        assert report.steps[i] == len(batches)
        assert report.samples[i] == sum(map(len, batches))
        assert plan.steps is not None or report.samples[i] == 2 * len(own)  # two epochs


@pytest.mark.parametrize("sgd", SGD.values(), ids=SGD)
@pytest.mark.parametrize("name", ["logistic", "lenet5", "groupnorm"])
def test_loop_is_torch_sgd(federation, name, sgd):
    expect_like_reference(federation(name), sgd, ClientPlan())


@pytest.mark.parametrize("sgd", SGD.values(), ids=SGD)
def test_loop_follows_the_plan(federation, full_plan, sgd):
    fed = federation("logistic")
    expect_like_reference(fed, sgd, full_plan(fed))


def test_one_step_by_hand(federation):
    # Prox pulls towards the client's own start, so it is silent in the first step; shift and weight decay are not.
    fed = federation("logistic")
    ids = torch.tensor([1])
    index = torch.tensor([[[40, 41]]])
    shift = torch.full((1, len(fed.params)), 0.5, dtype=torch.float64)
    sgd = LocalSGD(lr=LR, weight_decay=0.1, momentum=0.9)
    work = Work(ids, index, torch.tensor([[2]]), LR, sgd, 0, 0)
    report = Loop().run(fed.task, fed.params, ClientPlan(shift=shift, prox=7.0), work)
    # Softmax regression: the gradient is (softmax - onehot) xᵀ for the weights [10, 64], softmax - onehot for the bias.
    x, y = fed.task.x[[40, 41]].flatten(1), fed.task.y[[40, 41]]
    weight, bias = fed.params[:640].view(10, 64), fed.params[640:]
    error = (x @ weight.T + bias).softmax(1) - F.one_hot(y, 10)
    grad = torch.cat([(error.T @ x).flatten(), error.sum(0)]) / 2
    torch.testing.assert_close(report.update[0], LR * (grad + 0.1 * fed.params + 0.5), rtol=0, atol=1e-12)
