import pytest
import torch
import torch.nn.functional as F
from torch import nn

from impatient.data.digits import Digits
from impatient.data.quadratic import Quadratic as QuadraticData
from impatient.data.quadratic import half_square
from impatient.models.conv import CNN, LeNet5
from impatient.models.logistic import Logistic
from impatient.models.quadratic import Quadratic

MNIST, CIFAR = (1, 28, 28), (3, 32, 32)


@pytest.fixture(scope="module")
def digits():
    """Eight digits as floats in [0, 1]."""
    return Digits().load(1, 0).x[:8].to(torch.float32) / 255


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (Logistic(MNIST, 10), 7_850),  # 784·10 + 10
        # 6·(3·25+1) + 16·(6·25+1) + (16·5·5+1)·120 + 121·84 + 85·10 = 456 + 2416 + 48120 + 10164 + 850
        (LeNet5(CIFAR, 10), 62_006),
        # 32·(3·25+1) + 64·(32·25+1) + (64·5·5+1)·512 + 513·10 = 2432 + 51264 + 819712 + 5130
        (CNN(CIFAR, 10), 878_538),
        # 28 → 24 → 12 → 8 → 4: 6·26 + 2416 + (16·4·4+1)·120 + 10164 + 850 = 156 + 2416 + 30840 + 10164 + 850
        (LeNet5(MNIST, 10), 44_426),
        (Logistic(CIFAR, 100), 307_300),  # 3072·100 + 100
        (Quadratic((7,)), 7),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else str(value),
)
def test_parameter_counts(model, count):
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == count
    assert not list(model.buffers())


@pytest.mark.parametrize("make", [LeNet5, CNN])
@pytest.mark.parametrize("side", [(16, 16), (17, 19), (28, 28), (32, 16)])
def test_image_shapes(make, side, digits):
    images = F.interpolate(digits, side, mode="bilinear")
    out = make((1, *side), 7)(images)
    assert out.shape == (8, 7)
    assert bool(out.isfinite().all())
    # Images are told apart: no layer swallows everything.
    assert not torch.allclose(out[0], out[1])


@pytest.mark.parametrize("make", [LeNet5, CNN])
@pytest.mark.parametrize("side", [(15, 15), (8, 8), (32, 15), (15, 32)])
def test_too_small_images(make, side):
    said = rf"{make.__name__} needs images of at least 16 x 16, not {side[0]} x {side[1]}"
    with pytest.raises(ValueError, match=said):
        make((1, *side), 10)


def test_logistic_by_hand(digits):
    model = Logistic((1, 8, 8), 10)
    weight, bias = model.linear.weight, model.linear.bias
    by_hand = torch.stack([weight @ image.reshape(-1) + bias for image in digits])
    torch.testing.assert_close(model(digits), by_hand)


def test_lenet_layer_by_layer(digits):
    images = F.interpolate(digits, (32, 32), mode="bilinear").expand(-1, 3, -1, -1)
    model = LeNet5(CIFAR, 10)
    plain = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    with torch.no_grad():
        for mine, its in zip(plain.parameters(), model.parameters(), strict=True):
            mine.copy_(its)
    torch.testing.assert_close(plain(images), model(images))


def test_quadratic_gradient():
    # F_i(w) = mean_j ½‖w - x_ij‖², so ∇F_i = w - x̄_i.
    data = QuadraticData(dim=5, samples=6).load(3, 0)
    model = Quadratic(data.input_shape).to(torch.float64)
    assert not model.w.any()
    with torch.no_grad():
        model.w.copy_(torch.linspace(-1, 1, 5))
    for own in data.owners:
        points = data.x[torch.from_numpy(own)]
        loss = half_square(model(points), data.y[: len(own)]).mean()
        (gradient,) = torch.autograd.grad(loss, [model.w])
        torch.testing.assert_close(gradient, model.w.detach() - points.mean(0), rtol=0, atol=1e-12)
