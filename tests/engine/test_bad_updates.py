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
from impatient.messages import RoundInfo
from impatient.round import BadUpdateError, ask_clients

ENGINES = [Loop(), Vmap()]
SGD = LocalSGD(lr=0.1)
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
    info = RoundInfo(3, 1, 0.1, 4, torch.ones(4, dtype=torch.bool), torch.full((4,), 0.25, dtype=torch.float64))
    state = rule.init(fed.params, 4)
    answers = ask_clients(
        rule, state, memory, engine, fed.task, SGD, fed.params, torch.tensor(ids, dtype=torch.int64), fed.draw, info,
        5, chunk, skip_bad,
    )  # fmt: skip
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
    delta = fed.run(engine, SGD, ids=[0, 1, 3]).delta
    # MIFA keeps G = -delta/lr and sums a_i·(G_new - G_old), with a_i = 1/4 and G_old = 0.25.
    torch.testing.assert_close(table[[0, 1, 3]], -delta / 0.1, rtol=0, atol=1e-10)
    torch.testing.assert_close(answers.sums["change"], ((-delta / 0.1 - 0.25) / 4).sum(0), rtol=0, atol=1e-10)
    assert bool((table[2] == 0.25).all())
