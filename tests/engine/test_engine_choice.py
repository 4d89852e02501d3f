import logging

import pytest
import torch
from torch import nn

from impatient.checks import ConfigError
from impatient.engine.auto import EngineChoice, refuse_batch_norm
from impatient.engine.linear import Linear
from impatient.engine.local import LocalSGD, Task
from impatient.engine.loop import Loop
from impatient.engine.vmap import Vmap
from impatient.flat import FlatModel, cross_entropy, half_square
from impatient.models.conv import LeNet5
from impatient.models.logistic import Logistic
from impatient.models.quadratic import Quadratic

CPU, CUDA = torch.device("cpu"), torch.device("cuda")  # a device is only looked at: no GPU is needed
LOGISTIC = Logistic((1, 8, 8), 10)
QUADRATIC = Quadratic((4,))
LENET = LeNet5((1, 16, 16), 10)
MLP = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
DEEP_DROPOUT = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Dropout(0.1)))


class Branching(nn.Module):
    """Control flow that depends on the data: no batching rule can follow it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x) if x.sum().item() > 0 else -self.layer(x)


class Tied(nn.Module):
    """One layer under two names."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = self.first

    def forward(self, x):
        return self.second(self.first(x).relu())


def task(model, loss=cross_entropy):
    """One sample of the shape the model takes."""
    shapes = {LOGISTIC: (1, 8, 8), LENET: (1, 16, 16)}
    loss = half_square if model is QUADRATIC else loss
    x = torch.zeros(1, *shapes.get(model, (4,)))
    return Task(FlatModel(model, loss), x, torch.zeros(1, dtype=torch.int64), lambda x: x)


@pytest.mark.parametrize(
    ("model", "device", "engine", "why"),
    [
        (QUADRATIC, CPU, Linear, "mean estimation"),
        (LOGISTIC, CPU, Linear, "softmax regression"),
        (LOGISTIC, CUDA, Linear, "softmax regression"),
        (MLP, CPU, Vmap, "clients batched together"),
        (Branching(), CPU, Loop, "vmap cannot run this model"),
        (Tied(), CUDA, Loop, "tied weights"),
        (LENET, CPU, Loop, "convolutions on a CPU"),
        (LENET, CUDA, Vmap, "clients batched together"),
        (nn.Conv1d(1, 1, 3), CPU, Loop, "convolutions on a CPU"),
        (DEEP_DROPOUT, CPU, Loop, "dropout"),
        (DEEP_DROPOUT, CUDA, Loop, "dropout"),
        (nn.Sequential(nn.Linear(2, 2), nn.Dropout2d()), CUDA, Loop, "dropout"),
        (nn.LSTM(3, 3), CUDA, Loop, "recurrent"),
        (nn.GRU(3, 3), CPU, Loop, "recurrent"),
    ],
)
def test_auto(model, device, engine, why, caplog):
    caplog.set_level(logging.INFO)
    assert isinstance(EngineChoice().pick(task(model), device), engine)
    assert why in caplog.text


def test_linear_takes_closed_forms_only():
    squared = task(LOGISTIC, lambda out, y: out.square().sum(1))
    frozen = Logistic((4,), 2)
    frozen.linear.bias.requires_grad_(False)
    for model in (squared, task(LENET), task(frozen)):
        with pytest.raises(ConfigError, match=r"takes softmax regression .* only"):
            EngineChoice("linear").pick(model, CPU)
        assert not isinstance(EngineChoice().pick(model, CPU), Linear)


@pytest.mark.parametrize(("name", "engine"), [("loop", Loop), ("vmap", Vmap)])
def test_what_is_asked_is_given(name, engine, caplog):
    caplog.set_level(logging.INFO)
    choice = EngineChoice(name, chunk=7)
    for model in (LOGISTIC, LENET, DEEP_DROPOUT):
        assert isinstance(choice.pick(task(model), CPU), engine)
    assert f"engine: {name} (as asked), 7 clients at a time" in caplog.text


def test_bad_engine_settings():
    with pytest.raises(ConfigError) as error:
        EngineChoice("fast", 0)
    assert error.value.faults == [
        "name=fast: must be one of auto, loop, vmap, linear",
        "chunk=0: must be an integer >= 1",
    ]


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(4), nn.BatchNorm2d(4), nn.SyncBatchNorm(4)])
def test_batch_norm_is_refused(layer):
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), layer))
    with pytest.raises(ValueError, match=rf"layer '1\.1' is {type(layer).__name__}.*GroupNorm or LayerNorm"):
        refuse_batch_norm(model)


def test_other_norms_are_welcome():
    refuse_batch_norm(nn.Sequential(nn.GroupNorm(2, 4), nn.LayerNorm(4)))


def test_step_size():
    # η_0 = 0.6 and k = 2: 0.6/3, 0.6/√3, 0.6. k is `update` unless lr_clock says `round`.
    assert LocalSGD(0.6).rate(round=8, update=2) == pytest.approx(0.2)
    assert LocalSGD(0.6, "inverse_sqrt").rate(round=8, update=2) == pytest.approx(0.6 / 3**0.5)
    assert LocalSGD(0.6, "none").rate(round=8, update=2) == 0.6
    assert LocalSGD(0.6, lr_clock="round").rate(round=2, update=1) == pytest.approx(0.2)
    assert LocalSGD(0.6).rate(round=0, update=0) == 0.6


def test_bad_sgd_settings_are_told_at_once():
    with pytest.raises(ConfigError) as error:
        LocalSGD(0.0, "exp", "epoch", 0, 0, None, -0.1, 1.5)
    assert [fault.split("=")[0] for fault in error.value.faults] == [
        "lr", "lr_decay", "lr_clock", "batch_size", "epochs", "weight_decay", "momentum",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="epochs=None, steps=None: give one of them"):
        LocalSGD(0.1, epochs=None)
