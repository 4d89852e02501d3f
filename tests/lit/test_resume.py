"""A run that was stopped and resumed is the run that was never stopped."""

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch

from impatient.aggregators.fedavg_biased import FedAvgBiased
from impatient.aggregators.fedavg_is import FedAvgIS
from impatient.aggregators.fedavg_sampling import FedAvgSampling
from impatient.aggregators.mifa import MIFA
from impatient.checks import ConfigError

RULES = [MIFA(), MIFA("zero"), MIFA("average_seen", False), FedAvgBiased(), FedAvgIS(), FedAvgSampling(4)]


class PowerCutError(RuntimeError):
    """The process ends here."""


class KillIn(L.Callback):
    """Ends the process' work inside round `t`, after the model has moved and before anything is saved."""

    def __init__(self, t: int) -> None:
        self.t = t

    def on_train_batch_end(self, trainer: L.Trainer, *args: Any) -> None:
        if trainer.global_step == self.t + 1:
            raise PowerCutError


def same(a: Any, b: Any) -> None:
    assert torch.equal(a.weights, b.weights)
    assert a.module.kept.state.keys() == b.module.kept.state.keys()
    for key, value in a.module.kept.state.items():
        assert torch.equal(value, b.module.kept.state[key]), key
    for key, table in a.module.kept.memory.tables.items():
        assert torch.equal(table, b.module.kept.memory.tables[key]), key
    assert a.module.ledger.participation.mask_hash == b.module.ledger.participation.mask_hash
    assert a.trainer.global_step == b.trainer.global_step


@pytest.mark.parametrize("rule", RULES, ids=lambda r: type(r).__name__ + getattr(r, "first", ""))
def test_extended_equals_straight(fit: Callable[..., Any], rule: Any) -> None:
    straight = fit(20, rule, name="straight")
    fit(7, rule, name="short")
    longer = fit(20, rule, name="short", resume=Path(straight.folder.parent) / "short/checkpoints/last.ckpt")
    same(straight, longer)
    assert straight.rows("seconds") == longer.rows("seconds")


@pytest.mark.parametrize("server", [torch.optim.SGD, torch.optim.Adam], ids=["momentum", "adam"])
def test_killed_equals_straight(fit: Callable[..., Any], server: Any) -> None:
    options = {"lr": 0.5, "momentum": 0.9} if server is torch.optim.SGD else {"lr": 0.01}
    make = lambda params: server(params, **options)  # noqa: E731
    straight = fit(20, name="straight", server=make)
    with pytest.raises(PowerCutError):
        fit(20, name="killed", server=make, save_every=5, callbacks=(KillIn(7),))
    last = straight.folder.parent / "killed/checkpoints/last.ckpt"
    # The checkpoint is of round 4; rows 5 to 7 are in the file already and must not come twice.
    resumed = fit(20, name="killed", server=make, save_every=5, resume=last)
    same(straight, resumed)
    assert [row["round"] for row in resumed.rows()] == [str(t) for t in range(20)]
    assert straight.rows("seconds") == resumed.rows("seconds")


def test_a_torn_last_line_is_cut(fit: Callable[..., Any]) -> None:
    run = fit(5)
    path = run.folder / "metrics.csv"
    path.write_text(path.read_text() + "5,3,0.1")
    more = fit(8, resume=run.folder / "checkpoints/last.ckpt")
    assert [row["round"] for row in more.rows()] == [str(t) for t in range(8)]
    assert all(None not in row.values() for row in more.rows())


def test_a_finished_run_does_nothing(fit: Callable[..., Any]) -> None:
    run = fit(5)
    before = (run.folder / "metrics.csv").read_text()
    again = fit(5, resume=run.folder / "checkpoints/last.ckpt")
    same(run, again)
    assert (run.folder / "metrics.csv").read_text() == before
    assert again.module.summary()["test/acc"] == run.module.summary()["test/acc"]


def test_checkpoint_is_plain_and_complete(fit: Callable[..., Any]) -> None:
    run = fit(6)
    saved = torch.load(run.folder / "checkpoints/last.ckpt", weights_only=True)
    assert saved["global_step"] == 6
    assert torch.equal(saved["state_dict"]["model.linear.bias"], run.module.model.linear.bias)
    assert saved["impatient"]["memory"]["G"].shape == (10, 650)
    assert not list((run.folder / "checkpoints").glob(".*"))


def test_best_is_the_round_with_the_highest_accuracy(fit: Callable[..., Any]) -> None:
    run = fit(15)
    accuracies = [float(row["test/acc"]) for row in run.rows()]
    best = torch.load(run.folder / "checkpoints/best.ckpt", weights_only=True)
    assert best["global_step"] - 1 == accuracies.index(max(accuracies))


@pytest.mark.parametrize("at_the_end", [False, True])
def test_killed_between_the_save_and_the_copy_of_the_best(
    fit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, at_the_end: bool
) -> None:
    straight = fit(8, name="straight")
    best = torch.load(straight.folder / "checkpoints/best.ckpt", weights_only=True)["global_step"]

    def cut(source: Path, target: Path) -> None:
        if torch.load(source, weights_only=True)["global_step"] == best:
            raise PowerCutError
        shutil.copyfile(source, target)

    rounds = best if at_the_end else 8
    with monkeypatch.context() as patched:
        patched.setattr("impatient.lit.checkpoint._copy", cut)
        with pytest.raises(PowerCutError):
            fit(rounds, name="killed")
    fit(rounds, name="killed", resume=straight.folder.parent / "killed/checkpoints/last.ckpt")
    again = torch.load(straight.folder.parent / "killed/checkpoints/best.ckpt", weights_only=True)
    assert again["global_step"] == best


def test_no_best_of_what_is_not_there_or_nan(fit: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    class NaNFirst(L.Callback):
        """Before Checkpoint looks at it."""

        def on_train_batch_end(self, trainer: L.Trainer, module: Any, *args: Any) -> None:
            if trainer.global_step == 1:
                module.row["test/acc"] = float("nan")

    run = fit(4, before=(NaNFirst(),))
    accuracies = [float(row["test/acc"]) for row in run.rows()][1:]
    best = torch.load(run.folder / "checkpoints/best.ckpt", weights_only=True)
    assert best["global_step"] - 2 == accuracies.index(max(accuracies))
    assert "no best.ckpt" not in caplog.text
    run = fit(3, name="other", monitor="test/accuracy")
    assert not (run.folder / "checkpoints/best.ckpt").exists()
    assert "no best.ckpt: test/accuracy was never finite" in caplog.text


def test_the_cost_of_a_save_is_said(fit: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    run = fit(9, save_every=2)
    said = [r.getMessage() for r in caplog.records if r.getMessage().startswith("checkpoint: ")]
    size = (run.folder / "checkpoints/last.ckpt").stat().st_size / 1e6
    (found,) = [re.fullmatch(r"checkpoint: (\S+) MB in \S+ s, every 2 rounds \(save_every\)", text) for text in said]
    assert found is not None
    assert float(found[1]) == pytest.approx(size, rel=0.05)


def test_another_run_is_refused(fit: Callable[..., Any]) -> None:
    run = fit(3, identity={"algo": "mifa", "num_clients": "10"})
    with pytest.raises(ConfigError, match="algo is mifa, this run's is biased"):
        fit(6, FedAvgBiased(), resume=run.folder / "checkpoints/last.ckpt", identity={"algo": "biased"})


def test_a_failed_save_leaves_the_old_checkpoint(fit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run = fit(3)
    last = run.folder / "checkpoints/last.ckpt"
    copy = last.with_name("copy")
    shutil.copy(last, copy)

    def no_space(obj: Any, file: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", no_space)
    with pytest.raises(OSError, match="No space"):
        fit(6, resume=last)
    assert last.read_bytes() == copy.read_bytes()
    assert not list(last.parent.glob(".*"))
