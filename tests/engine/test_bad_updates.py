"""The clients' half of a round, where one client answers nonsense."""

import logging
from dataclasses import replace

import pytest
import torch

from impatient.aggregators.mifa import MIFA
from impatient.engine.local import LocalSGD
from impatient.engine.loop import Loop
from impatient.engine.vmap import Vmap
from impatient.memory import ClientMemory
from impatient.round import BadUpdateError, Federation, Round, ServerState

ENGINES = [Loop(), Vmap()]
SGD = LocalSGD(lr=0.1, lr_decay="none")
BAD = 2


@pytest.fixture
def spoiled(federation):
    """A broken sensor: one pixel of one sample of client 2 is not a number."""
    fed = federation("logistic")
    x = fed.task.x.clone()
    x[fed.clients.indices[BAD][3], 0, 4, 4] = torch.nan
    return replace(fed, task=replace(fed.task, x=x))


def ask(fed, engine, ids, chunk=3, skip_bad=False, fill=0.25):
    rule = MIFA("zero")
    memory = ClientMemory(rule.slots, 4, fed.params, dtype=torch.float64)
    memory.tables["G"].fill_(fill)
    weight = torch.full((4,), 0.25, dtype=torch.float64)
    federation = Federation(rule, engine, fed.task, SGD, weight, lambda some, round: fed.draw(some), 5, chunk, skip_bad)
    server = ServerState(rule.init(fed.params, 4), memory, update=1)
    now = Round(3, torch.ones(4, dtype=torch.bool))
    answers = federation.ask(server, now, fed.params, torch.tensor(ids, dtype=torch.int64))
    return answers, memory.tables["G"]


@pytest.mark.parametrize("engine", ENGINES)
def test_refused_by_name(spoiled, engine):
    with pytest.raises(BadUpdateError, match=r"round 3: the update of client 2 is not finite .*step size 0\.1"):
        ask(spoiled, engine, [0, 1, 2, 3])


@pytest.mark.parametrize("chunk", [1, 2, 4])
@pytest.mark.parametrize("engine", ENGINES)
def test_skipped_as_if_absent(spoiled, engine, chunk, caplog):
    caplog.set_level(logging.WARNING)
    answers, table = ask(spoiled, engine, [0, 1, 2, 3], chunk, skip_bad=True)
    without, clean = ask(spoiled, engine, [0, 1, 3], chunk)
    assert "round 3: the update of client 2" in caplog.text
    assert answers.reported.tolist() == [0, 1, 3]
    assert (answers.skipped, without.skipped) == (1, 0)
    assert torch.equal(table[BAD], torch.full_like(table[BAD], 0.25))
    torch.testing.assert_close(table, clean, rtol=0, atol=1e-12)
    torch.testing.assert_close(answers.sums["change"], without.sums["change"], rtol=0, atol=1e-12)
    assert answers.loss == pytest.approx(without.loss, abs=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_only_bad_and_nobody_are_alike(spoiled, engine):
    for ids, skipped in (([BAD], 1), ([], 0)):
        answers, table = ask(spoiled, engine, ids, skip_bad=True)
        assert answers.reported.shape == (0,)
        assert answers.skipped == skipped
        assert answers.loss != answers.loss  # nan: there is no loss to tell
        assert not answers.sums["change"].any()
        assert bool((table == 0.25).all())


@pytest.mark.parametrize("engine", ENGINES)
def test_good_answers_are_folded_and_kept(federation, engine):
    fed = federation("logistic")
    answers, table = ask(fed, engine, [0, 1, 3], chunk=2)
    update = fed.run(engine, SGD, ids=[0, 1, 3]).update
    # MIFA keeps G = update/lr and sums a_i·(G_new - G_old), with a_i = 1/4 and G_old = 0.25.
    torch.testing.assert_close(table[[0, 1, 3]], update / 0.1, rtol=0, atol=1e-10)
    torch.testing.assert_close(answers.sums["change"], ((update / 0.1 - 0.25) / 4).sum(0), rtol=0, atol=1e-10)
    assert bool((table[2] == 0.25).all())
