import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

# Page faults of twenty copies of 64 MB, 16,384 pages each, after the first ten.
PROBE = """
import resource, torch
from impatient.allocator import keep_freed_memory
keep_freed_memory()
x = torch.zeros(2**24)
for _ in range(10):
    x.clone()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    x.clone()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**environment: str) -> int:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    source = str(Path(__file__).parents[1] / "src")
    environment = {**kept, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", **environment}
    return int(subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc only")
def test_large_blocks_are_faulted_in_once_unless_the_environment_says_otherwise():
    assert faults() < 1_000
    assert faults(MALLOC_MMAP_THRESHOLD_="131072") > 20 * 64 * 2**20 / 2**21  # at least one a huge page
