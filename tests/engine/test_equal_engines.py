"""Every fast path has a slow twin: vmap and linear against loop."""

from dataclasses import fields, replace

import pytest
import torch
from torch import nn

from impatient.data.dataset import cross_entropy
from impatient.engine.linear import Linear
from impatient.engine.local import LocalSGD, Task, Work
from impatient.engine.loop import Loop
from impatient.engine.vmap import Vmap
from impatient.flat import FlatModel
from impatient.messages import ClientPlan
from test_flat import Tempered

ENGINES = [Loop(), Vmap()]
FAST = [("logistic", Vmap()), ("lenet5", Vmap()), ("groupnorm", Vmap()), ("logistic", Linear())]
FAST += [(name, Linear()) for name in ("pixels", "colours", "quadratic")]
PLAIN, HEAVY = LocalSGD(lr=0.1), LocalSGD(lr=0.1, momentum=0.9, weight_decay=0.05, clip=0.5)
GRADS = ("grad", "grad_last")
CASES = {
    "plain": (PLAIN, ()),
    "momentum": (LocalSGD(lr=0.1, momentum=0.9), ()),
    "weight_decay": (LocalSGD(lr=0.1, weight_decay=0.05), ()),
    "start": (PLAIN, ("start",)),
    "shift": (PLAIN, ("shift",)),
    "clip": (LocalSGD(lr=0.1, clip=0.5), ()),
    "prox": (PLAIN, ("prox",)),
    "rate": (PLAIN, ("rate",)),
    "steps": (PLAIN, ("steps",)),
    "all": (HEAVY, ("start", "shift", "prox", "rate", "steps")),
}


def assert_same(a, b, atol):
    for field in fields(a):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if one is None and other is None:
            continue
        torch.testing.assert_close(one, other, rtol=0, atol=atol)


def some_of(report, ids):
    return type(report)(*(None if (v := getattr(report, f.name)) is None else v[ids] for f in fields(report)))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("name", "engine"), FAST)
def test_equal_in_float64(federation, full_plan, name, engine, case):
    fed = federation(name)
    sgd, wanted = CASES[case]
    full = full_plan(fed)
    plan = ClientPlan(**{field: getattr(full, field) for field in wanted})
    loop, fast = (fed.run(e, sgd, plan, needs=GRADS) for e in (Loop(), engine))
    assert loop.update.abs().max() > 0.01
    assert loop.grad is not None
    assert loop.grad_last is not None
    assert_same(fast, loop, 1e-12)
    if wanted or sgd is not PLAIN:  # each of them matters
        plain = fed.run(engine, PLAIN, needs=GRADS)
        assert not torch.allclose(plain.update, fast.update, atol=1e-4)


@pytest.mark.parametrize("engine", [*ENGINES, Linear()])
def test_without_momentum_the_update_is_the_sum_of_gradients(federation, engine):
    """w_K = w_0 - lr·rate·Σ_k ∇_k, so update = lr·rate·K·grad; and one step's gradient is its first and its last."""
    fed = federation("logistic")
    rate = torch.tensor([1.0, 0.5, 2.0, 0.1], dtype=torch.float64)
    report = fed.run(engine, LocalSGD(lr=0.1, weight_decay=0.05), ClientPlan(rate=rate), needs=GRADS)
    scale = 0.1 * rate * report.steps
    torch.testing.assert_close(report.update, scale.unsqueeze(1) * report.grad, rtol=0, atol=1e-12)
    once = fed.run(engine, PLAIN, ClientPlan(steps=torch.ones(4, dtype=torch.int64)), needs=GRADS)
    assert torch.equal(once.grad, once.grad_last)
    assert once.steps.tolist() == [1] * 4
    assert not torch.allclose(report.grad, report.grad_last, atol=1e-3)
    assert fed.run(engine).grad is fed.run(engine).grad_last is None


@pytest.mark.parametrize("engine", [*ENGINES, Linear()])
def test_steps_are_cut(federation, engine):
    """Clients 0 to 3 have 6, 2, 2 and 10 batches: at most steps_i of them are walked through, none for 0."""
    fed = federation("logistic")
    report = fed.run(engine, PLAIN, ClientPlan(steps=torch.tensor([4, 0, 7, 1])), needs=GRADS)
    assert report.steps.tolist() == [4, 0, 2, 1]
    assert report.samples.tolist() == [10 + 10 + 3 + 10, 0, 14, 10]
    assert not any(getattr(report, name)[1].any() for name in ("update", "loss", *GRADS))
    nobody = fed.run(engine, PLAIN, ClientPlan(steps=torch.zeros(4, dtype=torch.int64)), needs=GRADS)
    assert not nobody.update.any()


@pytest.mark.parametrize(("name", "engine"), FAST)
def test_close_in_float32(federation, full_plan, name, engine):
    fed = federation(name, torch.float32)
    loop, fast = (fed.run(e, HEAVY, full_plan(fed)) for e in (Loop(), engine))
    assert loop.update.dtype == fast.update.dtype == torch.float32
    # The median: single entries may differ by more where a ReLU or a maximum sits on the edge.
    assert (loop.update - fast.update).abs().median() < 1e-5


@pytest.mark.parametrize(("name", "engine"), [*FAST, ("logistic", Loop()), ("groupnorm", Loop())])
def test_order_and_chunks_do_not_matter(federation, engine, name):
    fed = federation(name)
    whole = fed.run(engine, HEAVY, needs=GRADS)
    order = [2, 3, 0, 1]
    turned = fed.run(engine, HEAVY, ids=order, needs=GRADS)
    assert turned.ids.tolist() == order
    assert_same(turned, some_of(whole, order), 1e-12)
    for ids in ([0, 2], [1], [3]):
        some = fed.run(engine, HEAVY, ids=ids, needs=GRADS)
        assert_same(some, some_of(whole, ids), 1e-12)


@pytest.mark.parametrize("engine", [*ENGINES, Linear()])
def test_nobody(federation, engine):
    fed = federation("logistic")
    before = torch.get_rng_state()
    report = fed.run(engine, HEAVY, ids=[])
    assert report.update.shape == (0, 650)
    assert report.update.dtype == torch.float64
    for name in ("ids", "steps", "samples"):
        assert getattr(report, name).shape == (0,)
        assert getattr(report, name).dtype == torch.int64
    assert report.loss.shape == report.loss_start.shape == (0,)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_given_is_changed(federation, full_plan, engine):
    fed = federation("logistic")
    plan = full_plan(fed)
    ids = torch.arange(4)
    batches = fed.draw(ids)
    given = [fed.params, plan.start, plan.shift, plan.prox, plan.rate]
    given += [ids, batches.index, batches.count, fed.task.x, fed.task.y]
    copies = [tensor.clone() for tensor in given]
    module = fed.task.model.module
    for told in (plan, replace(plan, start=None)):
        report = engine.run(fed.task, fed.params, told, Work(ids, batches.index, batches.count, 0.1, HEAVY, 0, 0))
        report.update.add_(1)  # the answer is the caller's own: it shares no storage with what was given
        assert not report.update.requires_grad
        assert all(torch.equal(now, before) for now, before in zip(given, copies, strict=True))
        assert not any(tensor.requires_grad for tensor in given)
        assert torch.equal(fed.task.model.get(), fed.params)
        assert all(p.grad is None for p in module.parameters())


class Bag(nn.Module):
    """Pixel intensities 0..16 as words; the blank background is the padding word. One layer is never used."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(17, 4, padding_idx=0)
        self.idle = nn.Linear(3, 3)
        self.out = nn.Linear(4, 10)

    def forward(self, x):
        return self.out(self.words(x.flatten(1)).mean(1))


def test_padding_row_and_unused_layers_stay(federation):
    fed = federation("logistic")
    pixels = (fed.dataset.x[:81] * fed.dataset.std[0] + fed.dataset.mean[0]).mul(16).round().to(torch.int64)
    assert (pixels.min(), pixels.max()) == (0, 16)
    torch.manual_seed(0)
    model = FlatModel(Bag().to(torch.float64), cross_entropy)
    task = Task(model, pixels, fed.task.y, lambda x: x)
    # The padding row of a trained model need not be zero: a filled one tells "no gradient" from "no weight".
    params = model.get()
    model.views(params)["words.weight"][0] = 1.0
    bags = replace(fed, task=task, params=params)
    loop, vmap = (bags.run(engine) for engine in ENGINES)
    for report in (loop, vmap):
        moved = model.views(report.update)
        assert not moved["words.weight"][:, 0].any()
        assert moved["words.weight"][:, 1:].any(-1).all(0).any()
        assert not moved["idle.weight"].any()
        assert moved["out.weight"].any()
    assert_same(vmap, loop, 1e-10)


def test_scalar_parameter(federation):
    fed = federation("logistic")
    model = FlatModel(Tempered().to(torch.float64), cross_entropy)
    tempered = replace(fed, task=replace(fed.task, model=model), params=model.get())
    vmap, loop = tempered.run(Vmap(), HEAVY), tempered.run(Loop(), HEAVY)
    assert bool(model.views(loop.update)["scale"].all())
    assert_same(vmap, loop, 1e-10)
