"""The commands as a user types them, each in a process of its own; and configs as they see them."""

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir

from impatient.app import build
from impatient.app import config as app
from impatient.app.config import Settings
from impatient.checks import ConfigError

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "configs"
QUICK = ["num_clients=10", "logger=csv", "availability.pmin=0.5"]


def environment() -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("WANDB") and k != "IMPATIENT_ROOT"}
    return env | {"OMP_NUM_THREADS": "1", "HOME": "/nonexistent", "NETRC": "/nonexistent/netrc"}


def python(script: str, *args: str, cwd: Path = ROOT, code: int = 0) -> str:
    command = [sys.executable, str(ROOT / "src" / script), *args]
    done = subprocess.run(
        command, cwd=cwd, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )
    output = done.stdout + done.stderr
    assert done.returncode == code, output
    assert code == 1 or "Traceback" not in output, output
    return output


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "checkpoints/last.ckpt", weights_only=True)["state_dict"]


def config(*overrides: str, run_dir: str = "run") -> dict[str, Any]:
    """The resolved config of a command line, as train.py sees it."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        cfg = compose("train", overrides=[f"paths.run_dir={run_dir}", "paths.root=.", *overrides])
    return app.plain(cfg)


def settings(*overrides: str, run_dir: str = "run") -> Settings:
    return Settings.of(config(*overrides, run_dir=run_dir))


def faults(*overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        build.validated(config(*overrides))
    return caught.value.faults
