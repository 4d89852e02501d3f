"""The run's own figures: on disk when it ends, and in W&B."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lightning.pytorch.loggers import WandbLogger

from impatient.lit.figures import Figures


class Recorder(WandbLogger):
    """Stands for W&B and keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    @property
    def experiment(self) -> Any:
        return SimpleNamespace(log=self.sent.append)


def test_drawn_at_the_end_and_sent(fit: Callable[..., Any], tmp_path: Path) -> None:
    figures = Figures(str(tmp_path / "run"), formats=["pdf"])
    run = fit(rounds=4, eval_every=2, callbacks=(figures,))
    names = {"curves.png", "curves.pdf", "staleness.png", "staleness.pdf"}
    assert {p.name for p in (run.folder / "plots").iterdir()} == names
    logger: Any = Recorder()
    figures.on_train_end(SimpleNamespace(is_global_zero=True, loggers=[logger], global_step=4), run.module)  # type: ignore[arg-type]
    (sent,) = logger.sent
    assert sent.keys() == {"figures/curves", "figures/staleness", "round"}
    assert sent["round"] == 3
    assert sent["figures/curves"].image.width > 400


def test_no_figure_costs_a_warning_and_not_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        trainer: Any = SimpleNamespace(is_global_zero=True, loggers=[], global_step=4)
        module: Any = None
        Figures(str(tmp_path)).on_train_end(trainer, module)
    assert "no figures" in caplog.text
    assert "no metrics.csv" in caplog.text
