import pytest
import torch
import torch.nn.functional as F
from torch import nn

from impatient.data.dataset import cross_entropy
from impatient.data.digits import Digits
from impatient.flat import FlatModel
from impatient.models.conv import LeNet5
from impatient.models.logistic import Logistic


@pytest.fixture(scope="module")
def digits():
    """Sixteen digits as floats in [0, 1], with labels."""
    data = Digits().load(1, 0)
    return data.x[:16].to(torch.float32) / 255, data.y[:16]


class Tied(nn.Module):
    """An encoder whose decoder is the same matrix, a bias that is never trained, and a constant buffer."""

    def __init__(self):
        super().__init__()
        self.down = nn.Linear(64, 64, bias=False)
        self.up = nn.Linear(64, 64)
        self.up.weight = self.down.weight
        self.up.bias.requires_grad_(False)
        self.register_buffer("mean", torch.full((64,), 0.3))

    def forward(self, x):
        return self.up(torch.tanh(self.down(x.flatten(1) - self.mean)))[:, :10]


@pytest.mark.parametrize("make", [lambda: Logistic((1, 8, 8), 10), lambda: LeNet5((1, 16, 16), 10), Tied])
def test_round_trip(make):
    module = make()
    model = FlatModel(module, cross_entropy)
    flat = model.get()
    assert flat.shape == (model.num_params,)
    views = model.views(flat)
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    assert list(views) == list(trained)
    assert all(torch.equal(views[name], p) for name, p in trained.items())
    assert sum(p.numel() for p in trained.values()) == model.num_params


def test_get_is_a_copy_and_views_are_not():
    module = Logistic((1, 8, 8), 10)
    model = FlatModel(module, cross_entropy)
    flat = model.get()
    assert not flat.requires_grad
    before = module.linear.bias.detach().clone()
    model.views(flat)["linear.bias"].fill_(9)
    assert bool((flat[-10:] == 9).all())  # 640 weights, then 10 biases
    assert torch.equal(module.linear.bias, before)


def test_views_of_many_clients():
    model = FlatModel(Logistic((1, 8, 8), 10), cross_entropy)
    flat = torch.arange(3.0 * model.num_params).view(3, -1)
    views = model.views(flat)
    assert {name: tuple(v.shape) for name, v in views.items()} == {"linear.weight": (3, 10, 64), "linear.bias": (3, 10)}
    for i in range(3):
        alone = model.views(flat[i])
        assert all(torch.equal(views[name][i], alone[name]) for name in views)
    assert views["linear.bias"].untyped_storage().data_ptr() == flat.untyped_storage().data_ptr()


class Tempered(nn.Module):
    """Logistic regression with a learnable temperature, a parameter of shape []."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 10)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.scale * self.linear(x.flatten(1))


def test_scalar_parameter(digits):
    module = Tempered()
    model = FlatModel(module, cross_entropy)
    flat = model.get()
    assert flat.shape == (651,)
    assert model.views(flat.expand(3, -1))["scale"].tolist() == [1.5] * 3
    views = model.views(flat)
    assert views["scale"].shape == ()
    assert torch.equal(model.output(views, digits[0]), module(digits[0]))


def test_tied_counted_once_frozen_not_at_all(digits):
    x, y = digits
    module = Tied()
    model = FlatModel(module, cross_entropy)
    # One shared matrix; neither the second name of the matrix, nor the frozen bias, nor the buffer.
    assert model.num_params == 64 * 64
    assert model.names == ["down.weight"]
    assert [p.shape for p in model.params] == model.shapes
    flat = model.get()
    new = model.views(flat + 0.01)
    both = x.flatten(1) - 0.3
    weight = new["down.weight"]
    by_hand = (torch.tanh(both @ weight.T) @ weight.T + module.up.bias)[:, :10]
    torch.testing.assert_close(model.output(new, x), by_hand)
    torch.testing.assert_close(model.losses(new, x, y), F.cross_entropy(by_hand, y, reduction="none"))
    # The module's own weights have not moved, and both names are still one.
    assert torch.equal(model.get(), flat)
    assert module.up.weight is module.down.weight


def test_output_at_its_own_parameters_is_the_module(digits):
    x, y = digits
    module = Logistic((1, 8, 8), 10)
    model = FlatModel(module, cross_entropy)
    views = model.views(model.get())
    assert torch.equal(model.output(views, x), module(x))
    assert model.losses(views, x, y).shape == (16,)


def test_params_follow_a_replaced_parameter():
    # Moving a module to another dtype may replace its parameters: names are kept, not objects.
    module = Logistic((1, 8, 8), 10)
    model = FlatModel(module, cross_entropy)
    module.linear.bias = nn.Parameter(torch.ones(10))
    assert bool((model.get()[-10:] == 1).all())


def test_nothing_to_train():
    with pytest.raises(ValueError, match="Logistic has no trainable parameter"):
        FlatModel(Logistic((1, 8, 8), 10).requires_grad_(False), cross_entropy)
