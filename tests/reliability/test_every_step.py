"""Whatever file operation a run does not survive, resumed it ends as the run that was never touched."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from runs import assert_same_run

from commands import environment

OPTIONS = ["data=quadratic", "num_clients=8", "logger=csv", "rounds=5", "save_every=2", "eval_every=1"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("how", "ends"),
    [
        ("SIGKILL", {-signal.SIGKILL}),
        ("resume", {-signal.SIGKILL}),
        ("SIGTERM", {-signal.SIGTERM, 143}),
        ("SIGINT", {130, 0}),  # 0 after the last round
        ("fail", {1, 0}),  # it can do without some: a hard link, a folder that is there
    ],
)
def test_every_step(tmp_path: Path, how: str, ends: set[int]) -> None:
    """Killed before it, also in a run that resumes another, stopped before it, or failing at it with a full disk."""
    script = Path(__file__).with_name("every_step.py")
    subprocess.run([sys.executable, str(script), how, str(tmp_path), *OPTIONS], env=environment(), check=True)
    statuses = json.loads((tmp_path / "statuses.json").read_text())
    steps = len(statuses["hit"])
    assert steps > 50
    assert statuses["straight"] == 0
    assert statuses["resumed"] == [0] * steps
    assert set(statuses["hit"]) == ends
    assert statuses["hit"].count(0) < steps / 2
    for step, status in enumerate(statuses["hit"], 1):
        assert_same_run(tmp_path / "straight", tmp_path / f"step{step}")
        output = (tmp_path / f"step{step}.out").read_text()
        assert "Traceback" not in output
        assert how != "fail" or status == 0 or "No space left on device" in output
