"""Real MNIST: the paper's experiment against the authors' own trainers."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The authors' released trainers, run on their own split (RandomState 16), p_min 0.1, learning rate 0.1, round 200:
# mean and standard deviation over their seeds 5 to 8 of train loss and test accuracy.
AUTHORS = {
    "mifa": (0.4301, 0.0022, 0.8966, 0.0009),
    "fedavg_biased": (0.4549, 0.0034, 0.8838, 0.0019),
    "fedavg_is": (0.4250, 0.0028, 0.8979, 0.0008),
    "fedavg_sampling algo.cohort_size=50": (0.7912, 0.0186, 0.8444, 0.0058),
    "fedavg_sampling algo.cohort_size=100": (0.8140, 0.0273, 0.8478, 0.0092),
}


def run(folder: Path, *overrides: str) -> list[dict[str, str]]:
    options = ["data=mnist", "availability.pmin=0.1", "seeds.partition=16", "logger=csv", f"hydra.run.dir={folder}"]
    command = [sys.executable, str(ROOT / "src/train.py"), *options, *overrides]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=600)
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.mnist
@pytest.mark.parametrize("rule", AUTHORS)
def test_the_authors_numbers(tmp_path: Path, mnist_root: Path, rule: str) -> None:
    rows = run(tmp_path / "run", f"algo={rule.split()[0]}", *rule.split()[1:], f"paths.data_dir={mnist_root}")
    loss, loss_std, acc, acc_std = AUTHORS[rule]
    # Our seed draws other masks and batches. With S devices the number of completed cohorts is itself random, 5 to 9
    # in 200 rounds (theirs: 6 in each), and moves the loss by about 0.035 each: hence the floor on the band.
    waits = rule.startswith("fedavg_sampling")
    assert float(rows[-1]["train/loss"]) == pytest.approx(loss, abs=4 * max(loss_std, 0.03 if waits else 0))
    assert float(rows[-1]["test/acc"]) == pytest.approx(acc, abs=4 * max(acc_std, 0.002))


@pytest.mark.mnist
def test_a_few_rounds(tmp_path: Path, mnist_root: Path) -> None:
    """The loss falls, and a round takes a fraction of a second."""
    rows = run(tmp_path / "run", "algo=fedavg_is", "rounds=10", f"paths.data_dir={mnist_root}")
    assert float(rows[-1]["train/loss"]) < 1.0
    assert sorted(float(row["seconds"]) for row in rows)[5] < 1.0  # generous: the machine may be busy
