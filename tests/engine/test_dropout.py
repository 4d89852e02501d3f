"""Random layers: reproducible by (seed, round), without a trace in torch's global generator."""

import pytest
import torch

from impatient.engine.local import LocalSGD, Work
from impatient.engine.loop import Loop
from impatient.engine.vmap import Vmap
from impatient.messages import ClientPlan

ENGINES = [Loop(), Vmap()]


@pytest.mark.parametrize("engine", ENGINES)
def test_same_address_same_masks(federation, engine):
    fed = federation("dropout")
    torch.manual_seed(1)
    first = fed.run(engine)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = fed.run(engine)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(again.update, first.update)
    # The batches are the same here: what differs in another round is the dropout masks alone.
    assert not torch.equal(fed.run(engine, round=4).update, first.update)


@pytest.mark.parametrize("engine", ENGINES)
def test_dropout_acts_in_training_mode_only(federation, engine):
    fed = federation("dropout")
    noisy = fed.run(engine)
    fed.task.model.module.eval()
    quiet = [fed.run(e) for e in ENGINES]
    assert not torch.allclose(noisy.update, quiet[0].update, atol=1e-3)
    torch.testing.assert_close(quiet[1].update, quiet[0].update, rtol=0, atol=1e-10)


def test_loop_client_is_alone_with_its_masks(federation):
    fed = federation("dropout")
    together = fed.run(Loop())
    for i in range(4):
        assert torch.equal(fed.run(Loop(), ids=[i]).update[0], together.update[i])
    assert torch.equal(fed.run(Loop(), ids=[3, 1]).update, together.update[[3, 1]])


@pytest.mark.parametrize("engine", ENGINES)
def test_clients_have_masks_of_their_own(federation, engine):
    # Clients 0 and 1 both walk through client 0's batches: only their dropout masks can tell them apart.
    fed = federation("dropout")
    batches = fed.draw(torch.tensor([0, 0]))
    work = Work(torch.tensor([0, 1]), batches.index, batches.count, 0.1, LocalSGD(lr=0.1), 0, 0)
    report = engine.run(fed.task, fed.params, ClientPlan(), work)
    assert not torch.equal(report.update[0], report.update[1])
