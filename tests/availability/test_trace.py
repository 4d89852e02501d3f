"""Recorded masks, from three kinds of file."""

import json
import pickle

import numpy as np
import pytest
import torch

from impatient.availability.trace import Trace, read_trace
from impatient.checks import ConfigError
from impatient.messages import Population

# Rounds x clients; client 3 never comes, and nobody does in round 2.
TABLE = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]])


def write(path, table=TABLE):
    if path.suffix == ".npy":
        np.save(path, table)
    elif path.suffix == ".csv":
        np.savetxt(path, table, fmt="%d", delimiter=",")
    else:
        path.write_text(json.dumps([np.flatnonzero(row).tolist() for row in table]))
    return str(path)


def people(num_clients):
    counts = torch.ones(num_clients, 10, dtype=torch.int64)
    return Population(counts, counts.sum(1))


def ready(path, on_end="wrap", num_clients=4):
    trace = Trace(path, on_end)
    assert trace.check(num_clients, 10) == []
    trace.setup(people(num_clients), 0)
    return trace


def fault(path, num_clients=4):
    """The one fault of a file; set-up must tell the same."""
    (said,) = Trace(path).check(num_clients, 10)
    with pytest.raises(ConfigError) as error:
        Trace(path).setup(people(num_clients), 0)
    assert error.value.faults == [said]
    assert path in said
    return said


@pytest.fixture(params=[".npy", ".csv", ".json"])
def path(request, tmp_path):
    return tmp_path / f"trace{request.param}"


@pytest.mark.parametrize(
    ("on_end", "rows"),
    [("wrap", [0, 1, 2, 0, 1, 2, 0]), ("hold", [0, 1, 2, 2, 2, 2, 2]), ("error", [0, 1, 2])],
)
def test_masks(path, on_end, rows):
    trace = ready(write(path), on_end)
    for t, row in enumerate(rows):
        assert trace.mask(t).dtype == torch.bool
        assert trace.mask(t).tolist() == TABLE[row].astype(bool).tolist()
    assert trace.prob(0) is None
    assert trace.absent().tolist() == [3]


def test_past_the_end(path):
    trace = ready(write(path), "error")
    with pytest.raises(ConfigError, match=r"ends after 3 rounds and round 3 is asked for.*on_end=wrap or hold"):
        trace.mask(3)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32])
def test_npy_of_any_number(tmp_path, dtype):
    trace = ready(write(tmp_path / "t.npy", TABLE.astype(dtype)))
    assert torch.stack([trace.mask(t) for t in range(3)]).tolist() == TABLE.astype(bool).tolist()


def test_a_mask_is_the_callers_own(path):
    trace = ready(write(path))
    trace.mask(0).fill_(False)
    assert trace.mask(0).tolist() == [True, False, True, False]


def test_one_round_and_one_client(tmp_path):
    for name in ("a.npy", "a.csv"):
        assert ready(write(tmp_path / name, TABLE[:1])).mask(5).tolist() == [True, False, True, False]
        column = ready(write(tmp_path / name, TABLE[:, :1]), num_clients=1)
        assert [column.mask(t).tolist() for t in range(3)] == [[True], [False], [False]]


@pytest.mark.parametrize("name", ["t.npy", "t.csv"])
def test_wrong_tables(tmp_path, name):
    path = write(tmp_path / name)
    assert "is about 4 clients, num_clients=5" in fault(path, 5)
    assert "is about 4 clients, num_clients=3" in fault(path, 3)
    write(tmp_path / name, TABLE * 2)
    assert "must hold only 0 and 1" in fault(path)


@pytest.mark.parametrize("value", [0.5, -1.0, np.nan])
def test_no_half_presence(tmp_path, value):
    table = TABLE.astype(np.float64)
    table[1, 2] = value
    assert "must hold only 0 and 1" in fault(write(tmp_path / "t.npy", table))


@pytest.mark.parametrize("table", [np.ones(4), np.ones((2, 4, 1)), np.float64(1), np.ones((0, 4))])
def test_no_table(tmp_path, table):
    said = fault(write(tmp_path / "t.npy", table))
    assert f"must hold a table rounds x clients, not shape {table.shape}" in said


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ([[0], [1, 4]], "round 1 names client 4; ids must be integers below num_clients=4"),
        ([[-1]], "round 0 names client -1"),
        ([[1.0]], "round 0 names client 1.0"),
        ([["1"]], "round 0 names client '1'"),
        ([[True]], "round 0 names client True"),
        ({"0": [1]}, "must be a list with a list of client ids for each round"),
        ([0, 1], "must be a list with a list of client ids for each round"),
        ([], "must hold a table rounds x clients, not shape (0, 4)"),
    ],
)
def test_wrong_ids(tmp_path, rounds, said):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(rounds))
    assert said in fault(str(path))


def test_pickles_are_not_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return pytest.fail, ("a pickle was executed",)

    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([[Bomb()]], dtype=object), allow_pickle=True)
    assert "cannot be read" in fault(str(objects))
    bare = tmp_path / "bare.npy"
    bare.write_bytes(pickle.dumps(Bomb()))
    assert "cannot be read" in fault(str(bare))


def test_records_are_no_mask(tmp_path):
    path = tmp_path / "records.npy"
    np.save(path, np.zeros((3, 4), dtype=[("a", "f4"), ("b", "i8")]))
    assert "must hold only 0 and 1" in fault(str(path))


def test_a_header_that_promises_more_than_the_file_has(tmp_path):
    path = tmp_path / "huge.npy"
    np.save(path, np.zeros((3, 2)))
    path.write_bytes(path.read_bytes().replace(b"(3, 2), }         ", b"(3000000000, 2), }"))
    assert "cannot be read" in fault(str(path))
    with path.open("wb") as file:  # beyond all integers
        np.lib.format.write_array_header_1_0(file, {"descr": "|b1", "fortran_order": False, "shape": (2**62, 4)})
    assert "cannot be read" in fault(str(path))


def test_a_table_that_is_checked_in_pieces(tmp_path):
    """More cells than are compared at once, 2^22; the last one is no presence."""
    table = np.zeros((2**21 + 1, 4), dtype=np.uint8)
    table[2**20 - 1 : 2**20 + 1] = 1  # the pieces meet between these rounds
    trace = ready(write(tmp_path / "t.npy", table))
    assert trace.table.nonzero()[:, 0].unique().tolist() == [2**20 - 1, 2**20]
    table[-1, -1] = 2
    assert "must hold only 0 and 1" in fault(write(tmp_path / "t.npy", table))


@pytest.mark.parametrize("name", ["t.npy", "t.csv", "t.json"])
def test_more_than_the_memory_is_not_read(tmp_path, monkeypatch, name):
    path = write(tmp_path / name, np.tile(TABLE, (10, 1)))
    monkeypatch.setattr("impatient.availability.trace.free_bytes", lambda: 119)  # 30 rounds x 4 clients are 120 bytes
    assert "of memory, and 1.19e-07 GB are free" in fault(path)


def test_a_small_file_of_a_large_table(tmp_path):
    """A round that nobody comes to is three characters, and 10^8 bytes of the table: looked at before it is made."""
    path = tmp_path / "t.json"
    path.write_text(json.dumps([[]] * 100_000))
    (said,) = Trace(str(path)).check(10**8, 10)
    assert "takes 1e+04 GB of memory" in said


@pytest.mark.parametrize(("name", "text"), [("t.csv", "1,0\n0,1\n"), ("t.json", "[[0], [1]]")])
def test_a_byte_order_mark_is_no_cell(tmp_path, name, text):
    """Spreadsheets begin their UTF-8 with one."""
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert read_trace(tmp_path / name, 2).tolist() == [[True, False], [False, True]]


def test_a_line_without_end(tmp_path):
    """Of a line no more is read than 4 clients can take."""
    path = tmp_path / "t.csv"
    path.write_text("0,1,0,0\n" + "0," * 1000)
    assert "has lines of more than 160 characters, num_clients=4" in fault(str(path))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.npy", b""),
        ("t.npy", b"0,1\n"),
        ("t.csv", b"0,1\n1\n"),
        ("t.csv", b"a,b\n"),
        ("t.csv", b"\xff\xfe\x00"),
        ("t.json", b"[[0], "),
        ("t.json", b""),
    ],
)
def test_broken_files(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    assert "cannot be read" in fault(str(path))


def test_no_such_file(tmp_path):
    with pytest.raises(ConfigError) as error:
        Trace(str(tmp_path / "t.npy"), "stop")
    assert error.value.faults == [
        "on_end=stop: must be one of wrap, hold, error",
        f"path={tmp_path}/t.npy: there is no such file",
    ]
    for path in (str(tmp_path / "t.txt"), str(tmp_path), 3, None):
        with pytest.raises(ConfigError, match=r"path=.*: must name a \.npy, \.csv or \.json file"):
            Trace(path)
