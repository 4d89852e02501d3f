"""Several ranks train the model that one trains, and a checkpoint moves between them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from commands import ROOT, environment, python, rows

FEDERATION = ["num_clients=11", "logger=csv", "availability.pmin=0.3", "eval_every=1", "save_every=5", "seeds.cohort=1"]
EXACT = [*FEDERATION, "trainer.accelerator=cpu", "+trainer.precision=64-true", "memory.dtype=float64"]
TWO = ["trainer=ddp", "trainer.devices=2"]


def checkpoint(folder: Path) -> dict:
    return torch.load(folder / "checkpoints/last.ckpt", weights_only=True)


def assert_same(a: Path, b: Path) -> None:
    """Weights, state and memory up to the order of summation; the same rows."""
    one, two = checkpoint(a), checkpoint(b)
    for part in (("state_dict",), ("impatient", "state"), ("impatient", "memory")):
        x, y = one, two
        for key in part:
            x, y = x[key], y[key]
        assert x.keys() == y.keys()
        for key in x:
            torch.testing.assert_close(x[key], y[key], rtol=0, atol=1e-12)
    for left, right in zip(rows(a), rows(b), strict=True):
        for key, value in left.items():
            assert float(value) == pytest.approx(float(right[key]), abs=1e-9, nan_ok=True), key


@pytest.mark.parametrize("rule", ["mifa", "fedavg_biased", "fedavg_all", "fedavg_is", "fedavg_sampling"])
@pytest.mark.slow
def test_two_ranks_equal_one(tmp_path: Path, rule: str) -> None:
    options = [*EXACT, "rounds=20", f"algo={rule}", *(["algo.cohort_size=4"] if rule == "fedavg_sampling" else [])]
    python("train.py", *options, f"hydra.run.dir={tmp_path}/one")
    python("train.py", *options, *TWO, f"hydra.run.dir={tmp_path}/two")
    assert_same(tmp_path / "one", tmp_path / "two")


def assert_moves(tmp_path: Path, *options: str) -> None:
    """One rank, then two, then one again end where one rank alone does."""
    straight, moved = tmp_path / "straight", tmp_path / "moved"
    python("train.py", *EXACT, *options, "rounds=21", f"hydra.run.dir={straight}")
    python("train.py", *EXACT, *options, "rounds=7", f"hydra.run.dir={moved}")
    again = [f"hydra.run.dir={moved}", "ckpt_path=last"]
    python("train.py", *again, "rounds=14", *TWO)
    python("train.py", *again, "rounds=21", "trainer=cpu", "trainer.devices=1")
    assert_same(straight, moved)


def test_a_run_moves_between_one_rank_and_two(tmp_path: Path) -> None:
    assert_moves(tmp_path)


def test_several_ranks_do_not_sweep(tmp_path: Path) -> None:
    output = python("train.py", "-m", *FEDERATION, *TWO, "seed=0,1", f"hydra.sweep.dir={tmp_path}", code=1)
    assert "start one command a run" in output


@pytest.mark.slow
def test_a_dead_rank_ends_the_job(tmp_path: Path) -> None:
    options = [*FEDERATION, "client.lr=1e30", "client.lr_decay=none", "client.weight_decay=1", "rounds=30"]
    output = python("train.py", *options, *TWO, f"hydra.run.dir={tmp_path}/run", code=1)
    assert "is not finite" in output


@pytest.mark.slow
def test_ctrl_c_reaches_every_rank_and_saves(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = [*FEDERATION, *TWO, "rounds=100000", f"hydra.run.dir={folder}"]
    command = [sys.executable, str(ROOT / "src/train.py"), *options]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    process = subprocess.Popen(command, env=environment(), **quiet)
    deadline = time.monotonic() + 120
    while not (folder / "checkpoints/last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of the group
    assert process.wait(60) == 130
    done = checkpoint(folder)["global_step"]
    assert len(rows(folder)) == done
    python("train.py", f"hydra.run.dir={folder}", "ckpt_path=last", f"rounds={done + 5}")
    assert [int(row["round"]) for row in rows(folder)] == list(range(done + 5))
