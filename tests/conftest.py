import os
from pathlib import Path

import pytest
import torch

# Two threads on a busy machine wait for each other: one is faster here, and the same in every child process.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def mnist_root() -> Path:
    """The folder that holds MNIST/raw: IMPATIENT_DATA_DIR, or shared/data beside the repository."""
    root = Path(os.environ.get("IMPATIENT_DATA_DIR") or Path(__file__).parents[2] / "shared" / "data")
    if not (root / "MNIST" / "raw" / "train-images-idx3-ubyte").is_file():
        pytest.skip(f"no MNIST files under {root}: set IMPATIENT_DATA_DIR")
    return root
