"""A whole run on scikit-learn's digits in half a second."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch

from impatient.aggregators.base import Aggregator
from impatient.aggregators.mifa import MIFA
from impatient.availability.base import Availability
from impatient.availability.label_bernoulli import LabelBernoulli
from impatient.data.digits import Digits
from impatient.data.partition.two_class import TwoClass
from impatient.data.rounds import Batching
from impatient.engine.auto import EngineChoice
from impatient.engine.local import LocalSGD
from impatient.lit.checkpoint import AtomicCheckpointIO, Checkpoint
from impatient.lit.csv_logger import CSVMetrics
from impatient.lit.datamodule import FederatedDataModule, Seeds
from impatient.lit.round_module import FederatedRound
from impatient.memory import MemorySettings
from impatient.models.logistic import Logistic
from impatient.rng import torch_stream

SGD = LocalSGD(lr=0.5, batch_size=5, epochs=2, weight_decay=1e-3)


def _server(params: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, lr=1.0)


class Run:
    """What a test asks of a finished fit."""

    def __init__(self, folder: Path, trainer: L.Trainer, module: FederatedRound, dm: FederatedDataModule) -> None:
        self.folder, self.trainer, self.module, self.dm = folder, trainer, module, dm

    @property
    def weights(self) -> torch.Tensor:
        return self.module.flat.get()

    def rows(self, *without: str) -> list[dict[str, str]]:
        import csv

        with (self.folder / "metrics.csv").open() as file:
            rows = list(csv.DictReader(file))
        return [{k: v for k, v in row.items() if k not in without} for row in rows]


@pytest.fixture
def fit(tmp_path: Path) -> Callable[..., Run]:
    """fit(rounds=…, aggregator=…, …) → Run; resume=<file> goes on from a checkpoint."""

    def run(
        rounds: int = 8,
        aggregator: Aggregator | None = None,
        availability: Availability | None = None,
        name: str = "run",
        seed: int = 0,
        n: int = 10,
        eval_every: int = 1,
        save_every: int = 1,
        server: Callable[[Any], torch.optim.Optimizer] = _server,
        resume: Path | str | None = None,
        precision: Any = "64-true",
        engine: EngineChoice | None = None,
        sgd: LocalSGD = SGD,
        weights: str = "equal",
        callbacks: tuple[L.Callback, ...] = (),
        memory: MemorySettings | None = None,
        identity: dict[str, str] | None = None,
        on_bad_update: str = "fail",
        monitor: str = "test/acc",
        before: tuple[L.Callback, ...] = (),
    ) -> Run:
        folder, rule = tmp_path / name, aggregator or MIFA()
        dm = FederatedDataModule(
            Digits(),
            TwoClass(),
            availability or LabelBernoulli(pmin=0.3),
            Batching(sgd.batch_size, sgd.epochs, sgd.steps),
            n,
            Seeds(*[seed] * 5),
            weights,
            rule.knowledge,
        )
        with torch_stream(torch.device("cpu"), seed, "model"):
            model = Logistic((1, 8, 8), 10)
        module = FederatedRound(
            model,
            rule,
            sgd,
            server,
            engine,
            memory or MemorySettings(dtype="float64"),
            eval_every,
            on_bad_update,
            identity,
        )
        trainer = L.Trainer(
            accelerator="cpu",
            devices=1,
            precision=precision,
            max_steps=rounds,
            max_epochs=-1,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            logger=[CSVMetrics(str(folder))],
            callbacks=[*before, Checkpoint(str(folder / "checkpoints"), save_every, monitor), *callbacks],
            plugins=[AtomicCheckpointIO()],
            default_root_dir=tmp_path,
        )
        trainer.fit(module, datamodule=dm, ckpt_path=resume)
        return Run(folder, trainer, module, dm)

    return run
