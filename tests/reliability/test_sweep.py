"""One job that fails leaves the others running, says so in its own log, and fails the sweep."""

import json
import os
import re
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import HEAVY, assert_same_run, checkpoint, finish, rounds_in, start, wait_for

from commands import QUICK, python, rows

SWEEP = ["-m", "num_clients=10", "availability.pmin=0.5", "rounds=4", "client.lr=0.5,1e30,0.25"]
DIVERGES = ["client.weight_decay=1", "client.lr_decay=none"]


def exit_codes(folder: Path) -> list[int]:
    """What W&B's own file says of how its run ended."""
    from wandb.proto.wandb_internal_pb2 import Record

    codes = []
    for path in folder.glob("wandb/offline-run-*/*.wandb"):
        for data in wandb_records(path.read_bytes()):
            record = Record()
            record.ParseFromString(data)
            if record.HasField("exit"):
                codes.append(record.exit.exit_code)
    return codes


def wandb_records(data: bytes) -> Iterator[bytes]:
    """LevelDB's log format behind 7 bytes of W&B's own: blocks of 32 kB, pieces (crc, length, type) of records."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = 2**15 - at % 2**15
        if left < 7:  # a block's padding
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        piece = data[at + 7 : at + 7 + length]
        at += 7 + length
        whole = piece if kind in (1, 2) else whole + piece
        if kind in (1, 4):  # full, or the last of several
            yield whole


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["basic", "joblib"])
def test_one_of_three_diverges(tmp_path: Path, launcher: str) -> None:
    extra = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"] if launcher == "joblib" else []
    output = python("train.py", *SWEEP, *DIVERGES, *extra, f"hydra.sweep.dir={tmp_path}", code=1)
    assert f"1 of 3 jobs are not done; each has its own train.log:\n  #1  {tmp_path}/1\n" in output
    said = r"round \d+: the update of client [0-9, ]+ is not finite"
    assert len(re.findall(rf"^#1  failed: {said}.*\({tmp_path}/1\)$", output, re.MULTILINE)) == 1
    assert "Traceback" not in output
    for job in (0, 2):
        assert len(rows(tmp_path / str(job))) == 4
        assert json.loads((tmp_path / str(job) / "summary.json").read_text())["round"] == 3
        assert exit_codes(tmp_path / str(job)) == [0]
    failed = tmp_path / "1"
    assert not (failed / "summary.json").exists()
    note = (failed / "train.log").read_text()
    assert re.search(said, note)
    assert "Traceback" in note
    assert exit_codes(failed) == [1]
    assert "Traceback" not in (tmp_path / "0/train.log").read_text()


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file: what is in it, and when it was written."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [["sweep=joblib", "hydra.launcher.n_jobs=2"], ["-m", "hydra.sweep.subdir='${hydra.job.override_dirname}'"]],
    ids=["joblib", "named"],
)
def test_a_finished_sweep_is_left_as_it_is(tmp_path: Path, kind: list[str]) -> None:
    sweep = [*kind, *QUICK, "rounds=3", "seed=0,1", f"hydra.sweep.dir={tmp_path}/m"]
    python("train.py", *sweep)
    before = content(tmp_path)
    output = python("train.py", *sweep, "ckpt_path=last")
    assert len(re.findall(r"^#[01]  3 rounds are done already: nothing to do", output, re.MULTILINE)) == 2
    after = content(tmp_path)
    for files in (before, after):
        files.pop("m/multirun.yaml")  # Hydra's own, of the sweep
    assert after == before


@pytest.mark.parametrize(
    "args",
    [
        ["ckpt_path=last", "algo=fedavg_is"],
        pytest.param([], marks=pytest.mark.slow),  # holds a run already
        pytest.param(["ckpt_path=last", "rounds=-1"], marks=pytest.mark.slow),
        pytest.param(["ckpt_path=last", "roundss=3"], marks=pytest.mark.slow),
    ],
)
def test_a_refused_command_changes_no_file(tmp_path_factory: pytest.TempPathFactory, args: list[str]) -> None:
    folder = tmp_path_factory.getbasetemp() / "a_run"
    if not folder.exists():
        python("train.py", *QUICK, "rounds=3", f"hydra.run.dir={folder}")
    before = content(folder)
    python("train.py", f"hydra.run.dir={folder}", *args, code=1)
    assert content(folder) == before


def test_a_foreign_folder_is_left_as_it_is(tmp_path: Path) -> None:
    """One of another program that uses Hydra, in a run and in a sweep."""
    for name in ("config.yaml", "hydra.yaml", "overrides.yaml"):
        (tmp_path / "0/.hydra").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"0/.hydra/{name}").write_text("theirs")
    before = content(tmp_path)
    output = python("train.py", *QUICK, f"hydra.run.dir={tmp_path}/0", code=1)
    assert "has a .hydra and no overrides.json, so it is no run's" in output
    assert content(tmp_path) == before
    output = python("train.py", "-m", *QUICK, "rounds=1,2", f"hydra.sweep.dir={tmp_path}", code=1)
    assert "#0  failed: hydra.run.dir" in output
    assert f"1 of 2 jobs are not done; each has its own train.log:\n  #0  {tmp_path}/0\n" in output
    assert before.items() <= content(tmp_path).items()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["foreign", "link", "file", "under a file"])
def test_a_sweep_in_a_foreign_folder(tmp_path: Path, what: str) -> None:
    folder, precious = tmp_path / "m", tmp_path / "precious"
    precious.write_text("theirs")
    if what in ("foreign", "link"):
        folder.mkdir()
        there = folder / "multirun.yaml"
        there.write_text("theirs") if what == "foreign" else there.symlink_to(precious)
    elif what == "file":
        folder.write_text("theirs")
    else:
        folder = precious / "m"
    before = content(tmp_path)
    output = python("train.py", "-m", *QUICK, "rounds=1,2", f"hydra.sweep.dir={folder}", code=1)
    a_file = folder if what == "file" else precious
    why = f"cannot be written, for {a_file} is a file" if "file" in what else "has a multirun.yaml of another program"
    assert f"hydra.sweep.dir={folder}: {why}; name another folder" in output
    assert content(tmp_path) == before


@pytest.mark.slow
def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    python("train.py", *QUICK, "rounds=3", f"hydra.run.dir={folder}")
    before = content(folder)
    assert {"summary.json", "checkpoints/last.ckpt", "train.log", ".hydra/hydra.yaml"} <= before.keys()
    output = python("train.py", f"hydra.run.dir={folder}", "ckpt_path=last")
    assert "3 rounds are done already: nothing to do" in output
    assert content(folder) == before
    # Killed after its last save and before its summary: that is what is left to do.
    (folder / "summary.json").unlink()
    python("train.py", f"hydra.run.dir={folder}", "ckpt_path=last")
    summaries = [json.loads(text) for text in (before["summary.json"][0], (folder / "summary.json").read_text())]
    for summary in summaries:
        del summary["wall_seconds"]
    assert summaries[0] == summaries[1]


@pytest.mark.slow
def test_what_will_fail_is_said_before_anything_runs(tmp_path: Path) -> None:
    sweep = ["-m", *QUICK, "rounds=3", "seed=0,1", f"hydra.sweep.dir={tmp_path}/m"]
    output = python("train.py", *sweep, "availability.pmin=0.5,2", code=1)
    said = "2 of 4 jobs will fail, the others run:\n  availability.pmin=2: must be a number in [0, 1] (#2, #3)"
    assert said in output
    assert sorted(path.parent.name for path in tmp_path.glob("m/*/summary.json")) == ["0", "1"]
    assert "pmin=2" in (tmp_path / "m/2/train.log").read_text()


@pytest.mark.slow
def test_where_no_job_can_run_none_is_started(tmp_path: Path) -> None:
    output = python("train.py", "-m", *QUICK, "rounds=-3,0", f"hydra.sweep.dir={tmp_path}/m", code=1)
    assert "rounds=-3: must be an integer >= 1\n  rounds=0: must be" in output
    assert not list(tmp_path.glob("**/train.log"))


@pytest.mark.slow
def test_ctrl_c_in_a_sweep(tmp_path: Path) -> None:
    """Running jobs save and stop, no other is started; the same command again ends as if it had been left alone."""
    folder, rest = tmp_path / "m", [*HEAVY, "rounds=300", "seed=0,1,2", "sweep=joblib", "hydra.launcher.n_jobs=2"]

    def runs() -> list[Path]:
        return sorted(path.parent for path in folder.glob("*/metrics.csv"))

    process = start(tmp_path / "unused", *rest, f"hydra.sweep.dir={folder}", start_new_session=True)
    assert wait_for(process, lambda: [rounds_in(run) > 20 for run in runs()] == [True, True])
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    output = finish(process, 130)
    assert "Traceback" not in output
    assert "stopped; each run that had begun goes on with ckpt_path=last" in output
    assert [20 < checkpoint(run)["global_step"] < 300 for run in runs()] == [True, True]
    finish(start(tmp_path / "unused", *rest, f"hydra.sweep.dir={folder}"))
    straight = tmp_path / "straight"
    finish(start(straight, *HEAVY, "rounds=300", "seed=1"))
    assert [rounds_in(run) for run in runs()] == [300, 300, 300]
    assert_same_run(runs()[1], straight)


WATCH = """
import os
from pathlib import Path

import lightning as L


class Watch(L.Callback):
    def on_train_end(self, *args):
        megabytes = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        with open("watched", "a") as file:
            file.write(f"{megabytes} {len(os.listdir('/proc/self/fd'))}\\n")
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts pages in /proc")
def test_a_hundred_runs_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "watch.py").write_text(WATCH)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    sweep = ["-m", *QUICK, "rounds=3", "seed=range(0,100)", f"hydra.sweep.dir={tmp_path}/m"]
    python("train.py", *sweep, "+callbacks.watch._target_=watch.Watch", cwd=tmp_path)
    assert len(list(tmp_path.glob("m/*/summary.json"))) == 100
    lines = (tmp_path / "watched").read_text().splitlines()
    memory, files = zip(*(map(float, line.split()) for line in lines), strict=True)
    assert set(files[1:]) == {files[1]}
    # After 40 runs of warm-up. Hydra's record of a job alone, kept until the end, was 0.22 MB: 13 in 60 runs.
    assert memory[-1] - memory[40] < 6
