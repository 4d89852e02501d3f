"""Mean and band over seeds against numbers worked out by hand."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folder import write

from impatient import records
from impatient.checks import ConfigError
from impatient.plots.bands import axis, band, value_at, visits
from impatient.plots.runs import Run, read

NAN = math.nan


def run(folder: Path, cfg: dict[str, Any] | None = None, **columns: list[Any]) -> Run:
    made, _ = read(write(folder, {k.replace("__", "/"): v for k, v in columns.items()}, cfg))
    assert made is not None
    return made


def test_mean_and_band_over_three_seeds(tmp_path: Path) -> None:
    """Round 1: 1, 2, 6: mean 3, squared deviations 4 + 1 + 9 = 14, std √(14/2) = √7. Round 3: 1, 1, 4: 2, √(6/2)."""
    values = ([None, 1, None, 1], [None, 2, None, 1], [None, 6, None, 4])
    made = band([run(tmp_path / str(i), a=list(v)) for i, v in enumerate(values)], "a")
    assert made.index.tolist() == [1, 3]
    assert made["mean"].tolist() == [3, 2]
    np.testing.assert_allclose(made["std"], [math.sqrt(7), math.sqrt(3)])


def test_one_seed_has_no_std(tmp_path: Path) -> None:
    made = band([run(tmp_path / "0", a=[1, 2])], "a")
    assert made["mean"].tolist() == [1, 2]
    assert np.isnan(made["std"]).all()


def test_another_evaluation_period_is_carried_forward(tmp_path: Path) -> None:
    """Rounds 1, 2, 3 are those in which either was evaluated and both have begun; the second holds 10 in round 2."""
    runs = [run(tmp_path / "0", a=[1, 2, 3, 4]), run(tmp_path / "1", a=[None, 10, None, 20])]
    made = band(runs, "a")
    assert made.index.tolist() == [1, 2, 3]
    assert made["mean"].tolist() == [6, 6.5, 12]


def test_as_far_as_all_runs_go(tmp_path: Path) -> None:
    made = band([run(tmp_path / "0", a=[1, 2, 3]), run(tmp_path / "1", a=[3, 4])], "a")
    assert made.index.tolist() == [0, 1]
    assert made["mean"].tolist() == [2, 3]


def test_nan_is_a_gap(tmp_path: Path) -> None:
    made = band([run(tmp_path / "0", a=[1, "nan", 3]), run(tmp_path / "1", a=[1, 2, "inf"])], "a")
    np.testing.assert_array_equal(made["mean"], [1, NAN, NAN])
    np.testing.assert_array_equal(made["std"], [0, NAN, NAN])


def test_never_evaluated_together(tmp_path: Path) -> None:
    made = band([run(tmp_path / "0", a=[1, 2]), run(tmp_path / "1", a=[None, None])], "a")
    assert len(made) == 0


def test_the_mean_of_two_step_functions(tmp_path: Path) -> None:
    """Sums of seconds: first run 1, 3, 6 with 10, 20, 30; second 2, 4, 5 with 0, 2, 4. Both have begun at 2, the second
    ends at 5. On [2,3): (10+0)/2; [3,4): (20+0)/2; [4,5): (20+2)/2; at 5: (20+4)/2."""
    runs = [run(tmp_path / "0", seconds=[1, 2, 3], a=[10, 20, 30]), run(tmp_path / "1", seconds=[2, 2, 1], a=[0, 2, 4])]
    made = band(runs, "a", "seconds")
    assert made.index.tolist() == [2, 3, 4, 5]
    assert made["mean"].tolist() == [5, 10, 11, 12]


def test_held_rounds_share_an_update_and_the_last_counts(tmp_path: Path) -> None:
    """Update 0 in rounds 0 and 1, update 1 from round 2 on: one value each, the newest."""
    made = band([run(tmp_path / "0", update=[0, 0, 1, 1], a=[7, 7, 5, 4])], "a", "update")
    assert made.index.tolist() == [0, 1]
    assert made["mean"].tolist() == [7, 4]


def test_a_step_function_goes_on_to_where_the_run_ends(tmp_path: Path) -> None:
    made = band([run(tmp_path / "0", seconds=[1, 1, 1], a=[2, 1, None])], "a", "seconds")
    assert made.index.tolist() == [1, 2, 3]
    assert made["mean"].tolist() == [2, 1, 1]


def test_bytes_are_up_and_down_summed(tmp_path: Path) -> None:
    made = run(tmp_path / "0", comm__up_bytes=[1, 2, 3], comm__down_bytes=[10, None, 30])
    assert axis(made, "bytes").tolist() == [11, 13, 46]
    with pytest.raises(ConfigError, match=r"x=seconds.*no column seconds"):
        axis(made, "seconds")


def test_visits_as_the_batches_are_drawn() -> None:
    """n = 5, batches of 2: an epoch is 2 + 2 + 1. 4 steps: 5 + 2; 3 steps: 5; 2 steps: 4."""
    assert [visits(5, 2, 3, None), *(visits(5, 2, None, k) for k in (2, 3, 4))] == [15, 4, 5, 7]
    from impatient.data.rounds import Batching

    for n, batch, steps in [(5, 2, 4), (7, 3, 8), (4, 9, 3), (6, 3, 2)]:
        drawn = Batching(batch, None, steps).client(np.arange(n), 0, 0, 0)
        assert visits(n, batch, None, steps) == sum(map(len, drawn))


def test_samples_of_equal_clients(tmp_path: Path) -> None:
    """Three samples each, two epochs: 6 a device; 2, 0, 4 devices: 12, 12, 36."""
    made = run(tmp_path / "0", active=[2, 0, 4])
    (made.folder / "partition.json").write_text(json.dumps([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]))
    assert axis(made, "samples").tolist() == [12, 12, 36]


def test_samples_of_unequal_clients_need_the_masks(tmp_path: Path) -> None:
    """1, 2, 3, 4 samples, two epochs. Clients 0 and 3, then client 1: 2·5, 2·5 + 2·2."""
    made = run(tmp_path / "0", active=[2, 1])
    with pytest.raises(ConfigError, match=r"no partition\.json"):
        axis(made, "samples")
    (made.folder / "partition.json").write_text(json.dumps([[0], [1, 2], [3, 4, 5], [6, 7, 8, 9]]))
    with pytest.raises(ConfigError, match=r"differ in size \(1 to 4 samples\).*x=round"):
        axis(made, "samples")
    records.begin_masks(made.folder, 0)
    records.append_masks(made.folder, 0, np.ones(4, bool), np.array([1, 0, 0, 1], bool))
    records.append_masks(made.folder, 1, np.ones(4, bool), np.array([0, 1, 0, 0], bool))
    assert axis(made, "samples").tolist() == [10, 14]


def test_the_value_at_a_round(tmp_path: Path) -> None:
    made = run(tmp_path / "0", a=[None, 1, None, 2])
    values = [value_at(made, "a", r) for r in (0, 1, 2, 3, 99)]
    np.testing.assert_array_equal(values, [NAN, 1, 1, 2, 2])
