"""Whole rounds through src/train.py: seconds a round without evaluation, start-up, peak memory; scaling over N and P.

python benchmarks/rounds.py --data-dir data

Every line is a process of its own. MNIST is left out where its files are not in --data-dir.
"""

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workloads import default_data_dir

TRAIN = Path(__file__).parents[1] / "src" / "train.py"


def measure(name: str, *overrides: str) -> float:
    """Run once and print a line; gives back the median seconds of a round."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(TRAIN), f"hydra.run.dir={folder}/run", *overrides]
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        if status:
            raise SystemExit(f"{name}: {' '.join(command)} ended with status {status}")
        with Path(folder, "run", "metrics.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    seconds = [float(row["seconds"]) for row in rows]
    active = statistics.mean(int(row["active"]) for row in rows)
    median, rest = statistics.median(seconds), wall - sum(seconds)
    print(
        f"{name:34}{median * 1e3:10.1f}{active:9.1f}{len(rows):8}{rest:10.1f}{usage.ru_maxrss / 1e6:8.2f}", flush=True
    )
    return median


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=default_data_dir())
    args = parser.parse_args()
    print(f"{'':34}{'ms/round':>10}{'active':>9}{'rounds':>8}{'other s':>10}{'GB':>8}")
    if (args.data_dir / "MNIST" / "raw").is_dir():
        mnist = ["data=mnist", f"paths.data_dir={args.data_dir}", "algo.init=zero", "eval_every=10", "rounds=100"]
        measure("W1, CSV and W&B", *mnist)
        measure("W1, CSV", *mnist, "logger=csv")
        for engine in ("vmap", "loop"):
            measure(f"W1, CSV, engine={engine}", *mnist, "logger=csv", f"engine={engine}")
    tiny = ["data=quadratic", "algo.init=zero", "rounds=300", "eval_every=300", "save_every=300", "logger=csv"]
    medians = [
        measure(f"quadratic, N = {n:,}", *tiny, f"num_clients={n}", f"availability.p={40 / n}") for n in (1_000, 20_000)
    ]
    print(f"N = 20,000 over N = 1,000 at 40 active: {medians[1] / medians[0]:.2f}")
    big = ["data=quadratic", "data.samples=1", "num_clients=40", "availability.p=0.4", "algo.init=zero", "rounds=60"]
    medians = [
        measure(f"quadratic, P = {p:,}", *big, f"data.dim={p}", "eval_every=60", "save_every=60", "logger=csv")
        for p in (10_000, 100_000, 1_000_000)
    ]
    print(f"P = 1,000,000 over P = 100,000 at 16 active: {medians[2] / medians[1]:.2f}")


if __name__ == "__main__":
    main()
