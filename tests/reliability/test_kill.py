"""Killed again and again at random moments, also inside a save, a run ends as the run that was never touched."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from runs import HEAVY, assert_same_run, checkpoint, differences, finish, free, limited, rounds_in, start, wait_for

from commands import settings
from impatient.app import folder as run_folder
from impatient.checks import ConfigError
from impatient.rng import stream

LONG = [*HEAVY, "rounds=300", "save_every=1", "eval_every=7"]
KILLS = 20


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straight") / "run"
    finish(start(folder, *LONG))
    return folder


def has_moved(folder: Path, before: int) -> bool:
    return rounds_in(folder) != before


def kill_and_resume(folder: Path, number: signal.Signals, kills: int) -> dict[str, int]:
    """Resume with nothing but `ckpt_path=last`, each time, until it is done. How often it was hit, and where."""
    rng, hits = stream(0, "kill", number), {"kills": 0, "saves": 0, "starts": 0}
    options = LONG
    for attempt in range(kills + 1):
        process = start(folder, *options, "ckpt_path=last")
        if attempt == kills:
            finish(process)
            break
        before = rounds_in(folder)
        early = attempt % 5 == 4  # at any moment of the imports and the set-up
        if early or wait_for(process, partial(has_moved, folder, before)):
            time.sleep(float(rng.uniform(0, 4 if early else 0.3)))
            hits["starts"] += rounds_in(folder) == before
            process.send_signal(number)
        process.communicate(timeout=120)
        assert process.returncode in (-number, 128 + number), "it was done before it was killed: make the run longer"
        hits["kills"] += 1
        hits["saves"] += (folder / "checkpoints/.last.ckpt.part").exists()
        options = []  # its own are kept in the folder
    return hits


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("number", "kills"), [(signal.SIGKILL, KILLS), (signal.SIGTERM, 6), (signal.SIGINT, 6)])
def test_killed_at_random(tmp_path: Path, straight: Path, number: signal.Signals, kills: int) -> None:
    hits = kill_and_resume(tmp_path / "run", number, kills)
    print(hits)
    assert hits["kills"] == kills
    if number == signal.SIGKILL:
        assert hits["saves"] > 0  # some died inside a save
    assert_same_run(straight, tmp_path / "run")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 20 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("may not mount a file system here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(path: Path, leave: int) -> None:
    with contextlib.suppress(OSError):  # the run beside it may be quicker: then the disk is full as well
        path.write_bytes(bytes(max(0, free(path.parent) - leave)))


@pytest.mark.slow
@pytest.mark.parametrize("leave", [0, 1_000_000], ids=["not a byte", "rows but no checkpoint"])
def test_full_disk(tmp_path: Path, straight: Path, disk: Path, leave: int) -> None:
    folder, ballast = disk / "run", disk / "ballast"
    process = start(folder, *LONG)
    assert wait_for(process, lambda: rounds_in(folder) > 20)
    fill(ballast, leave)
    output = finish(process, code=1)
    assert "No space left on device" in output
    assert str(folder) in output
    assert "Traceback" not in output
    saved = checkpoint(folder)  # whole
    assert saved["global_step"] > 0
    ballast.unlink()
    assert "resuming at round" in finish(start(folder, "ckpt_path=last"))
    assert_same_run(straight, folder)


@pytest.mark.slow
def test_a_disk_too_small_is_found_before_training(disk: Path) -> None:
    output = finish(start(disk / "run", *LONG, "data.dim=100000"), code=1)  # three checkpoints of 8 MB
    assert "make room" in output
    assert "Traceback" not in output
    assert list((disk / "run").iterdir()) == []
    fill(disk / "ballast", 0)
    output = finish(start(disk / "run", *LONG), code=1)
    assert "cannot be written" in output
    assert "No space left on device" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_a_save_that_fails_names_the_disk_and_keeps_the_old_one(tmp_path: Path) -> None:
    """Where no file system can be mounted: a limit on the size of files does the same."""
    folder = tmp_path / "run"
    options = [*HEAVY, "save_every=2", "eval_every=1"]
    finish(start(folder, *options, "rounds=4"))
    before = checkpoint(folder)
    output = finish(start(folder, "ckpt_path=last", "rounds=8", preexec_fn=limited(3)), code=1)
    assert "cannot save" in output
    assert "File too large" in output
    assert "Traceback" not in output
    assert differences(before, checkpoint(folder)) == []
    finish(start(folder, "ckpt_path=last", "rounds=8"))
    finish(start(tmp_path / "straight", *options, "rounds=8"))
    assert_same_run(tmp_path / "straight", folder)


@pytest.mark.slow
def test_where_the_first_save_fails_it_starts_again(tmp_path: Path) -> None:
    folder, options = tmp_path / "run", [*HEAVY, "save_every=2", "eval_every=1", "rounds=4"]
    output = finish(start(folder, *options, preexec_fn=limited(3)), code=1)
    assert "none was saved before. Make room on that disk, then resume with ckpt_path=last" in output
    finish(start(folder, "ckpt_path=last"))
    finish(start(tmp_path / "straight", *options))
    assert_same_run(tmp_path / "straight", folder)


@pytest.mark.parametrize(
    ("done", "was", "now", "lost"),
    [(10, 10, 10, False), (11, 10, 10, True), (8, 10, 1, False), (8, 1, 10, False), (11, 1, 10, True), (2, 1, 1, True)],
)
def test_rounds_without_a_checkpoint(tmp_path: Path, done: int, was: int, now: int, lost: bool) -> None:
    """Killed inside its first save, a run has `save_every` rounds and starts again; with more, a checkpoint is lost."""
    (tmp_path / "overrides.json").write_text("[]")
    (tmp_path / "config.yaml").write_text(f"save_every: {was}")
    (tmp_path / "metrics.csv").write_text("round\n" + "0\n" * done)
    asked = settings("ckpt_path=last", f"save_every={now}", run_dir=str(tmp_path))
    with pytest.raises(ConfigError, match=f"has {done} rounds and no last.ckpt") if lost else contextlib.nullcontext():
        assert run_folder.checkpoint_of(asked) is None


@pytest.mark.slow
def test_a_torn_checkpoint_is_named_and_the_newest_whole_one_used(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = ["num_clients=10", "logger=csv", "availability.pmin=0.5", "eval_every=1", "save_every=1"]
    finish(start(folder, *options, "rounds=6"))
    last, best = folder / "checkpoints/last.ckpt", folder / "checkpoints/best.ckpt"
    whole = last.read_bytes()
    last.unlink()  # it may be a hard link to best.ckpt
    last.write_bytes(whole[: len(whole) // 2])
    done = checkpoint(folder, "best.ckpt")["global_step"]
    output = finish(start(folder, "ckpt_path=last", "rounds=12"))
    assert "last.ckpt: is no whole checkpoint of a run" in output
    assert f"best.ckpt, {done} rounds" in output
    finish(start(tmp_path / "straight", *options, "rounds=12"))
    assert_same_run(tmp_path / "straight", folder)
    for path in (last, best):
        path.unlink()
        path.write_bytes(whole[: len(whole) // 3])
    output = finish(start(folder, "ckpt_path=last", "rounds=14"), code=1)
    assert "last.ckpt: is no whole checkpoint" in output
    assert "best.ckpt: is no whole checkpoint" in output
