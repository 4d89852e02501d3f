import pytest
import torch
from torch import nn

from impatient.checks import ConfigError
from impatient.memory import ClientMemory, MemorySettings, memory_bytes
from impatient.messages import Slot
from impatient.models.logistic import Logistic

SLOTS = {"G": Slot(), "x": Slot(fill="params")}
PARAMS = torch.tensor([1.0, -2.5, 0.1])


def ids(*who):
    return torch.tensor(who, dtype=torch.int64)


@pytest.fixture
def memory():
    return ClientMemory(SLOTS, 4, PARAMS)


def test_first_rows(memory):
    rows = memory.read(ids(0, 3), "cpu")
    assert torch.equal(rows["G"], torch.zeros(2, 3))
    assert torch.equal(rows["x"], PARAMS.expand(2, 3))
    assert ClientMemory({}, 4, PARAMS).read(ids(0), "cpu") == {}


def test_fill_is_a_copy():
    params = PARAMS.clone()
    memory = ClientMemory(SLOTS, 4, params)
    params.fill_(7)
    assert torch.equal(memory.read(ids(1), "cpu")["x"], PARAMS[None])
    memory.write(ids(1), {"x": torch.full((1, 3), 9.0)})
    assert torch.equal(params, torch.full((3,), 7.0))


def test_reads_are_copies(memory):
    for who in (ids(0, 1, 2, 3), ids(2)):
        rows = memory.read(who, "cpu")
        for row in rows.values():
            row.fill_(99)
    assert not (memory.tables["G"] == 99).any()
    assert not (memory.tables["x"] == 99).any()


def test_writes_reach_these_rows_only(memory):
    new = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    memory.write(ids(3, 1), {"G": new})
    assert memory.tables["G"].tolist() == [[0, 0, 0], [4, 5, 6], [0, 0, 0], [1, 2, 3]]
    assert torch.equal(memory.tables["x"], PARAMS.expand(4, 3))
    # Read in any order, and not tied to what was written.
    new.fill_(0)
    assert memory.read(ids(1, 3), "cpu")["G"].tolist() == [[4, 5, 6], [1, 2, 3]]


def test_nobody(memory):
    assert {name: tuple(row.shape) for name, row in memory.read(ids(), "cpu").items()} == {"G": (0, 3), "x": (0, 3)}
    memory.write(ids(), {"G": torch.empty(0, 3)})
    assert not memory.tables["G"].any()


def test_bfloat16_rounds_once():
    memory = ClientMemory(SLOTS, 2, PARAMS, dtype=torch.bfloat16)
    # bfloat16 keeps 8 bits: the neighbours of 1.01 are 1 + 1/128 = 1.0078125 and 1 + 2/128; 0.1 becomes 205/2048.
    memory.write(ids(0), {"G": torch.tensor([[1.01, 1.0, 256.0]])})
    read = memory.read(ids(0, 1), "cpu")
    assert read["G"].dtype == torch.bfloat16
    assert read["G"][0].tolist() == [1.0078125, 1.0, 256.0]
    assert read["x"][1].tolist() == [1.0, -2.5, 205 / 2048]
    # What is read and written back stays as it is: differences formed from it cannot drift.
    memory.write(ids(0), {"G": read["G"][:1].to(torch.float64)})
    assert torch.equal(memory.read(ids(0), "cpu")["G"], read["G"][:1])


def test_state_round_trip(memory):
    memory.write(ids(2), {"G": torch.ones(1, 3), "x": torch.full((1, 3), 0.3)})
    saved = {name: table.clone() for name, table in memory.state_dict().items()}
    other = ClientMemory(SLOTS, 4, torch.zeros(3))
    other.load_state_dict(saved)
    assert all(torch.equal(other.tables[name], memory.tables[name]) for name in SLOTS)
    saved["G"].fill_(5)  # what is loaded is copied
    assert torch.equal(other.tables["G"], memory.tables["G"])


@pytest.mark.parametrize(
    "state",
    [
        {"G": torch.zeros(4, 3)},
        {"G": torch.zeros(4, 3), "x": torch.zeros(5, 3)},
        {"G": torch.zeros(4, 3), "x": torch.zeros(4, 1)},  # would broadcast
        {"G": torch.zeros(4, 3), "y": torch.zeros(4, 3)},
        {"G": torch.zeros(4, 3), "x": torch.zeros(4, 3), "y": torch.zeros(4, 3)},
    ],
)
def test_foreign_state_is_refused_whole(memory, state):
    state["G"].fill_(8)
    with pytest.raises(ValueError, match=r"the checkpoint's memory .* is not this run's .*'x': \(4, 3\)"):
        memory.load_state_dict(state)
    assert not memory.tables["G"].any()


def test_size_is_known_before():
    model = Logistic((1, 28, 28), 10)  # 7,850 parameters
    # 2 slots x 100 clients x 7,850 parameters x 4 bytes, or 2 for bfloat16, or 8
    for dtype, size in (("float32", 6_280_000), ("bfloat16", 3_140_000), ("float64", 12_560_000)):
        assert memory_bytes(SLOTS, 100, model, MemorySettings(dtype=dtype)) == size
        assert memory_bytes(SLOTS, 100, model, MemorySettings(dtype=dtype, limit_gb=size / 1e9)) == size
    assert memory_bytes({}, 100, model, MemorySettings(limit_gb=0)) == 0
    tables = ClientMemory(SLOTS, 100, torch.zeros(7_850)).tables.values()
    assert sum(table.numel() * table.element_size() for table in tables) == 6_280_000
    # A frozen layer needs no memory.
    frozen = nn.Sequential(model, nn.Linear(10, 10).requires_grad_(False))
    assert memory_bytes(SLOTS, 100, frozen, MemorySettings()) == 6_280_000


def test_too_large_is_refused():
    with pytest.raises(
        ConfigError, match=r"100 clients x 7850 parameters need 0\.00628 GB, above memory\.limit_gb=0\.006;"
    ):
        memory_bytes(SLOTS, 100, Logistic((1, 28, 28), 10), MemorySettings(limit_gb=0.006))


def test_bad_settings():
    with pytest.raises(ConfigError) as error:
        MemorySettings(dtype="int8", limit_gb=-1)
    assert error.value.faults == [
        "dtype=int8: must be one of float32, bfloat16, float64",
        "limit_gb=-1: must be a number >= 0",
    ]
    with pytest.raises(ConfigError, match="device=gpu: must be auto, cpu"):
        MemorySettings(device="gpu")
