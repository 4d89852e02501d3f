"""A save streams its tables to the disk: it needs little memory beside them."""

import subprocess
import sys
from pathlib import Path

import pytest

from commands import environment

SCRIPT = """
import re, sys
from pathlib import Path
import torch
from impatient.lit.checkpoint import AtomicCheckpointIO
from impatient.memory import ClientMemory
from impatient.messages import Slot

def megabytes(name):
    return int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

small = ClientMemory({"G": Slot()}, 2, torch.zeros(10))
AtomicCheckpointIO().save_checkpoint({"memory": small.state_dict()}, sys.argv[1] + "/small")  # imports, first buffers
before = megabytes("VmRSS")
memory = ClientMemory({"G": Slot()}, 100, torch.zeros(1_250_000))
memory.tables["G"] += 1
Path("/proc/self/clear_refs").write_text("5")
AtomicCheckpointIO().save_checkpoint({"memory": memory.state_dict()}, sys.argv[1] + "/large")
print((megabytes("VmHWM") - before) / (500e6 / 2**20))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads /proc")
def test_peak_memory_of_a_save(tmp_path: Path) -> None:
    env = environment() | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    ratio = float(done.stdout)
    print(f"peak of a save: {ratio:.3f} times the 500 MB table")
    assert 1 <= ratio < 1.6
