import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def mnist_root() -> Path:
    """The folder that holds MNIST/raw: IMPATIENT_DATA_DIR, or shared/data beside the repository."""
    root = Path(os.environ.get("IMPATIENT_DATA_DIR") or Path(__file__).parents[2] / "shared" / "data")
    if not (root / "MNIST" / "raw" / "train-images-idx3-ubyte").is_file():
        pytest.skip(f"no MNIST files under {root}: set IMPATIENT_DATA_DIR")
    return root
