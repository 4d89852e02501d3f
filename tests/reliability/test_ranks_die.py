"""Several ranks: one that dies takes the job with it, with an error and at once; a checkpoint moves between them."""

import os
import signal
import time
from pathlib import Path

import pytest
from runs import finish, start, wait_for

from test_ranks import FEDERATION, TWO, assert_moves

RULES = ["mifa", "mifa algo.init=zero", "mifa algo.init=average_seen", "fedavg_biased", "fedavg_all", "fedavg_is"]
RULES += ["fedavg_sampling algo.cohort_size=4"]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_is_killed_ends_the_job(tmp_path: Path, victim: int) -> None:
    folder = tmp_path / "run"
    process = start(folder, *FEDERATION, *TWO, "trainer.accelerator=cpu", "rounds=100000", start_new_session=True)
    assert wait_for(process, (folder / "checkpoints/last.ckpt").exists)
    (child,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    started = time.monotonic()
    if victim == 0:
        process.send_signal(signal.SIGKILL)
        finish(process, code=-signal.SIGKILL, seconds=60)  # the other one holds the pipe until it ends
    else:
        os.kill(child, signal.SIGKILL)
        output = finish(process, code=1, seconds=60)
        assert "lost another one" in output
        assert "Traceback" not in output
    while Path(f"/proc/{child}").exists():
        assert time.monotonic() - started < 60, "the other rank hangs"
        time.sleep(0.1)
    done = finish(start(folder, "ckpt_path=last", "rounds=5"))  # one save at least
    assert "nothing to do" in done


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_moves_from_one_rank_to_two_and_back(tmp_path: Path, rule: str) -> None:
    assert_moves(tmp_path, *f"algo={rule}".split())
