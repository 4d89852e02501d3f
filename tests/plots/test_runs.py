"""Finding and reading run folders; whatever is wrong with one is named."""

import math
from pathlib import Path

import numpy as np
import pytest
from run_folder import config, write

from impatient.checks import ConfigError
from impatient.plots.comparison import comparisons
from impatient.plots.runs import Run, find, read

LOSS = {"train/loss": [None, 2.0, None, 1.0]}


def good(folder: Path) -> tuple[Run, list[str]]:
    run, notes = read(folder)
    assert run is not None
    return run, notes


def test_runs_are_found_once_at_any_depth(tmp_path: Path) -> None:
    a, b = write(tmp_path / "x/y/algo=mifa,seed=0", LOSS), write(tmp_path / "z", LOSS)
    (a / "wandb/files").mkdir(parents=True)
    (a / "wandb/files/config.yaml").write_text("not: ours")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/metrics.csv").write_text("round\n0\n")
    found, notes = find([tmp_path, a, tmp_path / "x"])
    assert sorted(found) == sorted([a, b])
    assert notes == []


def test_folders_that_hold_nothing_are_named(tmp_path: Path) -> None:
    write(tmp_path / "sweep/0", LOSS)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    found, notes = find([tmp_path / "swep", tmp_path / "empty", tmp_path / "file", tmp_path / "sweep"])
    assert [p.name for p in found] == ["0"]
    assert "swep: there is no such folder; did you mean" in notes[0]
    assert notes[0].endswith("sweep?")
    assert "empty: holds no run" in notes[1]
    assert notes[2].endswith(f"file: is a file; give the folder it lies in: {tmp_path}")
    with pytest.raises(ConfigError, match="holds no run"):
        find([tmp_path / "empty"])
    with pytest.raises(ConfigError, match="at least one folder"):
        find([])
    with pytest.raises(ConfigError, match="'': names no folder"):
        find([""])


def test_empty_and_nan_cells_differ(tmp_path: Path) -> None:
    run, notes = good(write(tmp_path / "r", {"a": [None, "nan", 3, "inf"]}))
    assert notes == []
    assert run.finished
    np.testing.assert_array_equal(run.table["a"], [math.nan, math.inf, 3, math.inf])
    assert run.evaluated("a").to_dict() == {1: math.inf, 2: 3, 3: math.inf}
    assert run.evaluated("b").empty


def test_of_two_columns_of_one_name_the_first_counts(tmp_path: Path) -> None:
    (write(tmp_path / "r", {"a": [1]}, config(rounds=1)) / "metrics.csv").write_text("round,a,a\n0,1,2\n")
    assert good(tmp_path / "r")[0].evaluated("a").tolist() == [1]


def test_a_run_that_never_began(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job/train.log").touch()
    (found,), _ = find([tmp_path])
    run, notes = read(found)
    assert run is None
    assert len(notes) == 1
    assert "job: no metrics.csv" in notes[0]


@pytest.mark.parametrize("tail", ["4,0.", "4,0.5,6\n", "2,0.5\n", "x,0.5\n"], ids=["torn", "long", "again", "odd"])
def test_odd_lines_are_left_out_and_said(tmp_path: Path, tail: str) -> None:
    run, notes = good(write(tmp_path / "r", LOSS, tail=tail))
    assert len(run.table) == 4
    assert ["r/metrics.csv: has 1 torn or odd line," in note for note in notes] == [True]


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "is empty"), ("\n", "is empty"), ("round,tr", "its first line is torn"), ("a,b\n1,2\n", "no column `round`"),
     ("round,a\n", "has no row yet, its header alone"), ("round,a\n0", "has no whole row, 1 torn or odd"),
     (f"round,{'x' * 200_000}\n", "is no table")],
)  # fmt: skip
def test_files_without_a_row(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path / "r", LOSS)
    (tmp_path / "r/metrics.csv").write_text(text)
    run, notes = read(tmp_path / "r")
    assert run is None
    (note,) = notes
    assert note.startswith(f"{tmp_path}/r/metrics.csv: ")
    assert said in note
    assert "run it again" in note or "give other folders" in note


def test_unfinished_runs_are_named(tmp_path: Path) -> None:
    short, notes = good(write(tmp_path / "short", LOSS, config(rounds=9)))
    assert not short.finished
    assert "short: unfinished: 4 of 9 rounds" in notes[0]
    killed, notes = good(write(tmp_path / "killed", LOSS, finished=False))
    assert not killed.finished
    assert "no summary.json" in notes[0]
    _, notes = read(tmp_path / "killed", ended=False)
    assert notes == []


@pytest.mark.parametrize(("last", "said"), [(0, True), (1, False)])
def test_a_model_that_never_moved_is_said(tmp_path: Path, last: int, said: bool) -> None:
    _, notes = good(write(tmp_path / "r", {"update": [0, 0, 0, last]}))
    assert notes == ([f"{tmp_path}/r: no update in 4 rounds: the model is as it was initialised"] if said else [])


@pytest.mark.parametrize("text", [None, "- 1\n", "a: [\n", "!!python/object/apply:os.getcwd []\n"])
def test_a_config_that_cannot_be_read_is_said(tmp_path: Path, text: str | None) -> None:
    folder = write(tmp_path / "r", LOSS)
    (folder / "config.yaml").unlink()
    if text is not None:
        (folder / "config.yaml").write_text(text)
    run, notes = good(folder)
    assert run.config == {}
    assert len(notes) == 1
    assert "drawn under its folder's name" in notes[0]


def test_the_nearest_metric(tmp_path: Path) -> None:
    run, _ = good(write(tmp_path / "r", {"train/loss": [1], "test/acc": [1]}, config(rounds=1)))
    _, notes = comparisons([run], ["train/loss", "trian/los", "zzzz"])
    assert len(notes) == 2
    assert "did you mean train/loss?" in notes[0]
    assert "there are round, train/loss, test/acc" in notes[1]
