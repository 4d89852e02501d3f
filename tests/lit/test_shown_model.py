"""What is evaluated is the rule's choice, in training and from a checkpoint alike."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch

from impatient.aggregators.fedavg_biased import FedAvgBiased
from impatient.lit.round_module import FederatedRound


class Halved(FedAvgBiased):
    """Shows the mean of the model that trains and the one before the round, which only State knows."""

    def init(self, params: Any, num_clients: int) -> Any:
        return {"before": params.to(torch.float64)}

    def step(self, state: Any, sums: Any, params: Any, reported: Any, info: Any) -> Any:
        direction, _ = super().step(state, sums, params, reported, info)
        return direction, {"before": params.to(torch.float64)}

    def model(self, state: Any, params: Any) -> Any:
        return (state["before"] + params) / 2


def test_the_rule_chooses_what_is_evaluated(fit: Callable[..., Any]) -> None:
    plain, halved = fit(6, FedAvgBiased(), name="plain"), fit(6, Halved(), name="halved")
    assert torch.equal(plain.weights, halved.weights)  # showing another model trains the same
    last = {key: float(value) for key, value in halved.rows()[-1].items() if key.startswith(("train/", "test/"))}
    assert last["train/loss"] != float(plain.rows()[-1]["train/loss"])
    five = fit(5, FedAvgBiased(), name="five")
    plain.module.flat.set((five.weights + plain.weights) / 2)
    assert plain.module.evaluator() == pytest.approx(last, abs=1e-12)


@pytest.mark.filterwarnings("ignore:.*callbacks used to create the checkpoint")
def test_a_checkpoint_shows_the_same(fit: Callable[..., Any], tmp_path: Path) -> None:
    run = fit(6, Halved())
    last = run.module.evaluated
    module = FederatedRound(run.module.model, Halved(), run.module.client, run.module.server)
    trainer = L.Trainer(
        accelerator="cpu", devices=1, precision="64-true", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.test(module, datamodule=run.dm, ckpt_path=run.folder / "checkpoints/last.ckpt", verbose=False)
    assert module.evaluated == last
