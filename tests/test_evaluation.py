import copy
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, recall_score
from torch import nn

import impatient.evaluation
from impatient.data.dataset import Clients, Dataset
from impatient.data.digits import Digits
from impatient.data.quadratic import Quadratic
from impatient.evaluation import Evaluator
from impatient.flat import FlatModel
from impatient.models.logistic import Logistic
from impatient.models.quadratic import Quadratic as QuadraticModel

CPU = torch.device("cpu")
DIGITS = Digits().load(1, 0)
WEIGHT_DECAY = 0.3


def trained(*extra):
    """Logistic regression after ten gradient steps in one big batch: some digits right, some wrong."""
    module = nn.Sequential(nn.Flatten(), *extra, nn.Linear(64, 10)).to(torch.float64)
    with torch.no_grad():
        for p in module.parameters():
            p.zero_()
    x = inputs(DIGITS.x)
    for _ in range(10):
        loss = nn.functional.cross_entropy(module(x), DIGITS.y)
        for p, g in zip(module.parameters(), torch.autograd.grad(loss, list(module.parameters())), strict=True):
            p.data -= 0.03 * g
    return module


def inputs(x):
    return (x.to(torch.float64) / 255 - DIGITS.mean[0]) / DIGITS.std[0]


def losses_by_hand(module, x, y):
    """-log softmax at the label, one by one."""
    out = module(inputs(x)).detach().numpy()
    return np.array([math.log(np.exp(row).sum()) - row[label] for row, label in zip(out, y.numpy(), strict=True)])


def evaluator(module, sizes, weight=None, data=DIGITS, weight_decay=WEIGHT_DECAY, dtype=torch.float64):
    owners = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    clients = Clients.of(owners, data.y, data.num_classes)
    if weight is None:
        weight = torch.full((len(sizes),), 1 / len(sizes), dtype=torch.float64)
    return Evaluator(FlatModel(module, data.loss), data, clients, weight, weight_decay, CPU, dtype)


def test_pooled_loss_and_weighted_objective_differ():
    module = trained()
    metrics = evaluator(module, (1, 99))()
    losses = losses_by_hand(module, DIGITS.x[:100], DIGITS.y[:100])
    # The pooled mean gives the lonely sample weight 1/100, the objective with a_i = 1/2 gives it 1/2.
    pooled, halves = losses.mean(), (losses[0] + losses[1:].mean()) / 2
    squares = sum(float(p.detach().square().sum()) for p in module.parameters())
    assert abs(pooled - halves) > 0.05
    assert metrics["train/loss"] == pytest.approx(pooled, abs=1e-12)
    assert metrics["train/objective"] == pytest.approx(halves + WEIGHT_DECAY / 2 * squares, abs=1e-12)
    # Weights by samples make the two agree but for the L2 term.
    by_samples = evaluator(module, (1, 99), torch.tensor([0.01, 0.99], dtype=torch.float64))()
    assert by_samples["train/objective"] == pytest.approx(pooled + WEIGHT_DECAY / 2 * squares, abs=1e-12)


@pytest.mark.parametrize(("clients", "worst"), [(1, 1), (10, 1), (11, 2), (12, 2), (20, 2), (21, 3)])
def test_worst_decile(clients, worst):
    # A tenth of the clients, rounded up.
    module = trained()
    sizes = [5 + i % 3 for i in range(clients)]
    losses = losses_by_hand(module, DIGITS.x[: sum(sizes)], DIGITS.y[: sum(sizes)])
    per_client = sorted((own.mean() for own in np.split(losses, np.cumsum(sizes)[:-1])), reverse=True)
    found = evaluator(module, sizes)()["train/loss_worst_decile"]
    assert found == pytest.approx(np.mean(per_client[:worst]), abs=1e-12)


def test_test_set_as_sklearn_sees_it():
    module = trained()
    metrics = evaluator(module, (1, 99))()
    guess = module(inputs(DIGITS.x_test)).argmax(1).numpy()
    accuracy = accuracy_score(DIGITS.y_test.numpy(), guess)
    recall = recall_score(DIGITS.y_test.numpy(), guess, average=None)
    assert 0.5 < accuracy < 0.98  # something to tell apart
    assert len(set(recall)) > 5
    assert metrics["test/acc"] == pytest.approx(accuracy, abs=1e-15)
    assert [metrics[f"test/acc/{name}"] for name in "0123456789"] == pytest.approx(recall.tolist(), abs=1e-15)
    assert metrics["test/loss"] == pytest.approx(losses_by_hand(module, DIGITS.x_test, DIGITS.y_test).mean(), abs=1e-12)


def test_names_are_the_columns():
    evaluate = evaluator(trained(), (1, 99))
    assert list(evaluate()) == evaluate.names
    assert evaluate.names[:5] == [
        "train/loss", "train/objective", "train/loss_worst_decile", "test/loss", "test/acc",
    ]  # fmt: skip
    assert evaluate.names[5:] == [f"test/acc/{name}" for name in "0123456789"]


def test_batch_size_changes_nothing(monkeypatch):
    module = trained()
    whole = evaluator(module, (1, 99, 37))()
    # Seven images of 64 numbers at a time: neither 137 nor 450 is a multiple of seven.
    monkeypatch.setattr(impatient.evaluation, "BATCH_ELEMENTS", 7 * 64)
    assert evaluator(module, (1, 99, 37))() == pytest.approx(whole, abs=1e-12)
    # An image larger than a batch is evaluated alone.
    monkeypatch.setattr(impatient.evaluation, "BATCH_ELEMENTS", 10)
    assert evaluator(module, (1, 9))()["test/acc"] == whole["test/acc"]


def test_a_class_without_test_images():
    keep = DIGITS.y_test != 3
    data = Dataset(
        "digits", DIGITS.x, DIGITS.y, DIGITS.x_test[keep], DIGITS.y_test[keep], DIGITS.classes, DIGITS.mean, DIGITS.std
    )
    metrics = evaluator(trained(), (1, 99), data=data)()
    assert math.isnan(metrics["test/acc/3"])
    assert all(math.isfinite(value) for name, value in metrics.items() if name != "test/acc/3")


@pytest.mark.parametrize("training", [True, False])
def test_evaluating_leaves_no_trace(training):
    module = trained(nn.Dropout(0.5))
    module.train(training)
    evaluate = evaluator(module, (1, 99))
    before = copy.deepcopy(module.state_dict())
    generator = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = evaluate()
    assert first == evaluate()  # dropout is off, whatever the mode was
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert all(p.grad is None and p.requires_grad and not p.is_inference() for p in module.parameters())
    assert [m.training for m in module.modules()] == [training] * len(list(module.modules()))
    assert torch.equal(generator[0], torch.get_rng_state())
    assert np.array_equal(generator[1], np.random.get_state()[1])
    module.eval()
    guess = module(inputs(DIGITS.x_test)).argmax(1)
    assert first["test/acc"] == pytest.approx(accuracy_score(DIGITS.y_test, guess), abs=1e-15)


def test_mode_comes_back_after_an_error():
    module = trained()
    module.train()
    evaluate = evaluator(module, (1, 99))
    evaluate.y = evaluate.y + 100
    with pytest.raises(IndexError):
        evaluate()
    assert module.training


def test_float32_is_summed_in_float64():
    module = trained()
    exact = evaluator(module, (1, 99, 500))()
    rough = evaluator(copy.deepcopy(module).to(torch.float32), (1, 99, 500), dtype=torch.float32)()
    assert rough == pytest.approx(exact, rel=1e-5)


def test_frozen_parameters_are_not_penalised():
    module = trained()
    bias = module[-1].bias.requires_grad_(False)
    with torch.no_grad():
        bias.add_(10.0)  # equal for all classes: no loss changes
    metrics = evaluator(module, (1, 99), torch.tensor([0.01, 0.99], dtype=torch.float64))()
    penalty = WEIGHT_DECAY / 2 * float(module[-1].weight.detach().square().sum())
    assert metrics["train/objective"] - metrics["train/loss"] == pytest.approx(penalty, abs=1e-12)


def test_data_without_classes():
    data = Quadratic(dim=3, samples=4).load(5, 0)
    model = FlatModel(QuadraticModel((3,)).to(torch.float64), data.loss)
    clients = Clients.of(data.owners, data.y, 0)
    evaluate = Evaluator(model, data, clients, torch.full((5,), 0.2, dtype=torch.float64), 0.0, CPU, torch.float64)
    metrics = evaluate()
    assert list(metrics) == evaluate.names == ["train/loss", "train/objective", "train/loss_worst_decile", "test/loss"]
    # At w = 0 the loss of a point is half its square.
    half = data.x.square().sum(1) / 2
    assert metrics["train/loss"] == pytest.approx(half.mean().item())
    assert metrics["train/loss_worst_decile"] == pytest.approx(half.view(5, 4).mean(1).max().item())


def test_logistic_model_is_evaluated_alike():
    flat = trained()
    module = Logistic((1, 8, 8), 10).to(torch.float64)
    module.linear.load_state_dict(flat[-1].state_dict())
    assert evaluator(module, (1, 99))() == evaluator(flat, (1, 99))()
