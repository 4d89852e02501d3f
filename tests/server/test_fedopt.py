"""The adaptive server optimizers against their recursion in numpy, coordinate by coordinate."""

import numpy as np
import pytest
import torch
from torch import nn

from impatient.checks import ConfigError
from impatient.rng import stream
from impatient.server.adam import FedAdam
from impatient.server.yogi import FedYogi

LR, BETA1, BETA2, EPS = 0.1, 0.9, 0.99, 1e-3
OPTIMIZERS = {"adam": FedAdam, "yogi": FedYogi, "adagrad": torch.optim.Adagrad}
OPTIONS = {"lr": LR, "betas": (BETA1, BETA2), "eps": EPS}


def make(name, p, lr=LR):
    options = {"lr": lr, "eps": EPS, "initial_accumulator_value": EPS**2} if name == "adagrad" else OPTIONS | {"lr": lr}
    return OPTIMIZERS[name]([p], **options)


def recursion(name, w, directions):
    """Algorithm 2 of Reddi et al., line by line; FedAdagrad has no momentum."""
    m, v, path = np.zeros_like(w), np.full_like(w, EPS**2), []
    for d in directions:
        m = d if name == "adagrad" else BETA1 * m + (1 - BETA1) * d
        v = {
            "adagrad": v + d**2,
            "adam": BETA2 * v + (1 - BETA2) * d**2,
            "yogi": v - (1 - BETA2) * d**2 * np.sign(v - d**2),
        }[name]
        w = w - LR * m / (np.sqrt(v) + EPS)
        path.append(w)
    return np.stack(path)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_recursion(name):
    rng = stream(0, "test/server")
    # Sizes over six orders of magnitude, so that D² lies on both sides of v.
    start, directions = rng.standard_normal(5), rng.standard_normal((40, 5)) * 10.0 ** rng.integers(-4, 2, (40, 5))
    p = nn.Parameter(torch.from_numpy(start.copy()))
    optimizer, path = make(name, p), []
    for d in directions:
        p.grad = torch.from_numpy(d.copy())
        optimizer.step()
        path.append(p.detach().numpy().copy())
    np.testing.assert_allclose(np.stack(path), recursion(name, start, directions), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_held_round_changes_nothing(name):
    p = nn.Parameter(torch.ones(3))
    optimizer = make(name, p)
    for _ in range(2):
        p.grad = torch.full((3,), 0.5)
        optimizer.step()
    before, was = p.detach().clone(), {k: v.clone() for k, v in optimizer.state[p].items()}
    p.grad = None
    for _ in range(5):
        optimizer.step()
    assert torch.equal(p, before)
    assert all(torch.equal(optimizer.state[p][k], v) for k, v in was.items())


@pytest.mark.parametrize("name", ["adam", "yogi"])
def test_saved_and_loaded_it_goes_on(name):
    def run(rounds, start, state=None):
        p = nn.Parameter(start.clone())
        optimizer = make(name, p)
        if state is not None:
            optimizer.load_state_dict(state)
        for t in rounds:
            p.grad = torch.tensor([0.1, -1.0]) * t
            optimizer.step()
        return p.detach(), optimizer.state_dict()

    half, state = run(range(1, 4), torch.ones(2))
    assert torch.equal(run(range(4, 7), half, state)[0], run(range(1, 7), torch.ones(2))[0])


def test_the_closure_is_called_with_gradients_on():
    p = nn.Parameter(torch.ones(1))
    seen = []
    assert FedYogi([p]).step(lambda: seen.append(torch.is_grad_enabled()) or 3) == 3
    assert seen == [True]


def test_options_are_checked():
    with pytest.raises(ConfigError) as error:
        FedAdam([nn.Parameter(torch.ones(1))], lr=0, betas=(2, -1), eps=0)
    assert [fault.split("=")[0] for fault in error.value.faults] == ["lr", "betas[0]", "betas[1]", "eps"]
