"""clients.csv and participation.csv: what is written is what is read, whatever stopped the run."""

from pathlib import Path

import numpy as np
import pytest

from impatient import records
from impatient.plots import clients


def masks(n: int, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    available = rng.random((rounds, n)) < 0.6
    return available, available & (rng.random((rounds, n)) < 0.5)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 100])
def test_masks_return(tmp_path: Path, n: int) -> None:
    available, reported = masks(n, 5)
    records.begin_masks(tmp_path, 0)
    for t in range(5):
        records.append_masks(tmp_path, t, available[t], reported[t])
    back = clients.masks(tmp_path, n)
    assert back is not None
    assert back.rounds.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(back.available, available)
    np.testing.assert_array_equal(back.reported, reported)


def test_the_bits_by_hand(tmp_path: Path) -> None:
    """Clients 0 and 9 of 10: 1000 0000 | 01, padded to 0100 0000: 80 40."""
    available = np.zeros(10, bool)
    available[[0, 9]] = True
    records.begin_masks(tmp_path, 0)
    records.append_masks(tmp_path, 3, available, np.zeros(10, bool))
    assert (tmp_path / "participation.csv").read_text() == "round,available,reported\n3,8040,0000\n"


def test_resuming_cuts_what_will_be_run_again(tmp_path: Path) -> None:
    available, reported = masks(9, 6)
    records.begin_masks(tmp_path, 0)
    for t in range(5):
        records.append_masks(tmp_path, t, available[t], reported[t])
    with (tmp_path / "participation.csv").open("a") as file:
        file.write("5,ff")
    assert len(getattr(clients.masks(tmp_path, 9), "rounds", [])) == 5
    records.begin_masks(tmp_path, 3)
    for t in range(3, 6):
        records.append_masks(tmp_path, t, available[t], reported[t])
    back = clients.masks(tmp_path, 9)
    assert back is not None
    np.testing.assert_array_equal(back.available, available)
    records.begin_masks(tmp_path, 0)
    assert clients.masks(tmp_path, 9) is None


def test_masks_of_another_federation_are_not_taken(tmp_path: Path) -> None:
    records.begin_masks(tmp_path, 0)
    records.append_masks(tmp_path, 0, np.ones(9, bool), np.ones(9, bool))
    assert clients.masks(tmp_path, 100) is None


def test_clients_return(tmp_path: Path) -> None:
    labels = np.array([[3, 0], [1, 4]])
    records.write_clients(tmp_path, [3, 5], [0.1, 0.9], ["cat", "dog, hot"], labels)
    back = clients.read(tmp_path)
    assert back is not None
    assert (back.samples.tolist(), back.probability.tolist()) == ([3, 5], [0.1, 0.9])
    assert list(back.labels) == ["cat", "dog, hot"]
    np.testing.assert_array_equal(back.labels, labels)
    assert [p.name for p in tmp_path.iterdir()] == ["clients.csv"]


def test_unknown_probability_and_no_classes(tmp_path: Path) -> None:
    records.write_clients(tmp_path, [3, 5], None, [], np.zeros((2, 0), int))
    back = clients.read(tmp_path)
    assert back is not None
    assert np.isnan(back.probability).all()
    assert back.labels.shape == (2, 0)


@pytest.mark.parametrize("text", [None, "", "client,samples\n", "client,samples,probability\n0,x,\n", "a,b,c\n1,2,3\n"])
def test_a_client_table_that_is_none(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "clients.csv").write_text(text)
    assert clients.read(tmp_path) is None


def test_sizes_from_either_file(tmp_path: Path) -> None:
    assert clients.sizes(tmp_path) is None
    (tmp_path / "partition.json").write_text("[[4], [0, 1, 2]]")
    assert getattr(clients.sizes(tmp_path), "tolist", list)() == [1, 3]
    records.write_clients(tmp_path, [3, 5], None, [], np.zeros((2, 0), int))
    assert getattr(clients.sizes(tmp_path), "tolist", list)() == [3, 5]
    (tmp_path / "clients.csv").unlink()
    (tmp_path / "partition.json").write_text("7")
    assert clients.sizes(tmp_path) is None
