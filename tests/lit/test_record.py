"""clients.csv and participation.csv against the data module and against metrics.csv."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from impatient.aggregators.fedavg_sampling import FedAvgSampling
from impatient.availability.base import Availability
from impatient.lit.record import Record
from impatient.plots import clients
from impatient.plots.staleness import tau
from impatient.tables import show_federation


def recorded(folder: Path) -> clients.Masks:
    masks = clients.masks(folder, 10)
    assert masks is not None
    return masks


def test_what_is_recorded_is_what_happened(fit: Callable[..., Any], tmp_path: Path) -> None:
    run = fit(rounds=12, aggregator=FedAvgSampling(4), callbacks=(Record(str(tmp_path / "run")),))
    masks, rows = recorded(run.folder), run.rows()
    np.testing.assert_array_equal(masks.available, [run.dm.availability.mask(t).numpy() for t in range(12)])
    assert masks.reported.sum(1).tolist() == [int(row["active"]) for row in rows]
    assert not (masks.reported & ~masks.available).any()
    assert masks.reported.sum(0).tolist() == run.module.ledger.participation.count.tolist()
    assert 0 < masks.reported.sum() < masks.available.sum()
    assert tau(masks.available).mean() == pytest.approx(run.module.summary()["staleness/tau_bar"], abs=1e-12)
    table = clients.read(run.folder)
    assert table is not None
    np.testing.assert_array_equal(table.labels, run.dm.clients.labels)
    np.testing.assert_array_equal(table.probability, run.dm.availability.prob(0).numpy())
    assert [f"test/acc/{name}" for name in table.labels] == [k for k in rows[0] if k.startswith("test/acc/")]


def test_a_resumed_run_records_what_a_straight_one_does(fit: Callable[..., Any], tmp_path: Path) -> None:
    fit(rounds=9, name="straight", callbacks=(Record(str(tmp_path / "straight")),))
    short = fit(rounds=5, name="short", callbacks=(Record(str(tmp_path / "short")),))
    with (tmp_path / "short/participation.csv").open("a") as file:
        file.write("5,ffff,ffff\n6,f")  # as if it had been killed before the checkpoint of round 5
    fit(rounds=9, name="short", callbacks=(Record(str(tmp_path / "short")),),
        resume=short.folder / "checkpoints/last.ckpt")  # fmt: skip
    for name in ("participation.csv", "clients.csv"):
        assert (tmp_path / "straight" / name).read_text() == (tmp_path / "short" / name).read_text()


class Fades(Availability):
    """p_i(t) = 1/(t+1)."""

    def mask(self, round: int) -> torch.Tensor:
        return self.coins(round) < self.prob(round)

    def prob(self, round: int) -> torch.Tensor:
        return torch.full((self.num_clients,), 1 / (round + 1), dtype=torch.float64)


def test_a_probability_that_changes_is_not_shown(
    fit: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fit(rounds=2, availability=Fades(), callbacks=(Record(str(tmp_path / "run")),))
    table = clients.read(run.folder)
    assert table is not None
    assert np.isnan(table.probability).all()
    assert len(table.labels) == 10
    capsys.readouterr()
    show_federation(run.dm.data, run.dm.clients, run.dm.availability)
    assert "p_i" not in capsys.readouterr().out
