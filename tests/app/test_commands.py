"""The commands as a user types them, each in a process of its own."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from commands import QUICK, ROOT, environment, python, rows, weights


def test_no_argument_but_fewer_rounds(tmp_path: Path) -> None:
    """With W&B, no key, no terminal, from another folder: what a run leaves behind."""
    folder = tmp_path / "run"
    output = python("train.py", "rounds=30", f"hydra.run.dir={folder}", cwd=tmp_path)
    for text in ("digits: 100 clients", "round 30/30", "Results", f"written to {folder}"):
        assert text in output
    left = {p.name for p in folder.iterdir()}
    assert {"config.yaml", "metrics.csv", "partition.json", "summary.json", "checkpoints", "train.log", "wandb"} <= left
    assert list((folder / "wandb").glob("offline-run-*"))
    summary = json.loads((folder / "summary.json").read_text())
    last = rows(folder)[-1]
    assert summary["test/acc"] == float(last["test/acc"])
    assert {"hash/partition", "hash/masks", "staleness/tau_bar", "versions"} <= summary.keys()
    assert [p.name for p in tmp_path.iterdir()] == ["run"]

    output = python("eval.py", str(folder), cwd=tmp_path)
    shown = re.search(r"test/acc\s+│\s+([0-9.]+)", output)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(float(last["test/acc"]), abs=1e-6)


def test_faults_come_at_once_and_before_data(tmp_path: Path) -> None:
    args = ["data=mnist", f"paths.data_dir={tmp_path}", "availability.pmin=two", "client.lr=-1", "+algo.foo=1"]
    output = python("train.py", *args, f"hydra.run.dir={tmp_path}/r", code=1)
    assert "Traceback" not in output
    assert "3 faults" in output
    for text in ("availability.pmin=two", "client.lr=-1", "algo.foo"):
        assert text in output


def test_who_never_comes_and_who_must_know(tmp_path: Path) -> None:
    output = python("train.py", *QUICK, "availability.pmin=0", f"hydra.run.dir={tmp_path}/a", code=1)
    assert re.search(r"device\(s\) [0-9, ]+ can never come.*algo.init=zero", output)
    trace = tmp_path / "mask.csv"
    trace.write_text("\n".join([",".join(["1"] * 10)] * 2))
    args = ["availability=trace", f"availability.path={trace}", "logger=csv", "num_clients=10", "rounds=3"]
    output = python("train.py", *args, "algo=fedavg_is", f"hydra.run.dir={tmp_path}/b", code=1)
    assert "must know p_i" in output
    python("train.py", *args, f"hydra.run.dir={tmp_path}/c")
    output = python("train.py", *args, "availability.on_end=error", f"hydra.run.dir={tmp_path}/d", code=1)
    assert "ends after 2 rounds" in output


JOBLIB = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")


@pytest.mark.parametrize("launcher", [(), pytest.param(JOBLIB, marks=pytest.mark.slow)], ids=["basic", "joblib"])
def test_multirun_same_world_for_every_rule(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    sweep = ["-m", *launcher, "rounds=4", "algo=mifa,fedavg_biased", "seed=0,1", f"hydra.sweep.dir={tmp_path}"]
    python("train.py", *sweep, *QUICK)
    summaries = [json.loads((tmp_path / str(job) / "summary.json").read_text()) for job in range(4)]
    for key in ("hash/partition", "hash/masks", "hash/batches"):
        values = [s[key] for s in summaries]
        assert values[0] == values[2] != values[1] == values[3]


def test_resume_from_the_folder_alone(tmp_path: Path) -> None:
    straight, short = tmp_path / "straight", tmp_path / "short"
    options = [*QUICK, "eval_every=1", "algo.init=zero", "client.epochs=2"]
    python("train.py", *options, "rounds=12", f"hydra.run.dir={straight}")
    python("train.py", *options, "rounds=5", f"hydra.run.dir={short}")
    output = python("train.py", *options, "rounds=12", f"hydra.run.dir={short}", code=1)
    assert "resume it with ckpt_path=last" in output
    python("train.py", f"hydra.run.dir={short}", "ckpt_path=last", "rounds=12")
    assert rows(straight) == rows(short)
    for name, value in weights(straight).items():
        assert torch.equal(value, weights(short)[name])
    output = python("train.py", f"hydra.run.dir={short}", "ckpt_path=last", "num_clients=11", code=1)
    assert "the checkpoint's num_clients is 10, this run's is 11" in output
    before = (short / "metrics.csv").read_bytes()
    output = python("train.py", f"hydra.run.dir={short}", "ckpt_path=last")
    assert "12 rounds are done already: nothing to do" in output
    output = python("train.py", f"hydra.run.dir={short}", "ckpt_path=last", "client.lr=0.7")
    assert "12 rounds are done already, with other settings (client.lr: 0.5 → 0.7): nothing to do" in output
    assert (short / "metrics.csv").read_bytes() == before


def test_two_jobs_never_share_a_folder(tmp_path: Path) -> None:
    """The second would take the first one's run, done under another lr, for its own."""
    sweep = ["-m", *QUICK, "rounds=2", "client.lr=0.1,0.2", "ckpt_path=last", f"hydra.sweep.dir={tmp_path}/m"]
    output = python("train.py", *sweep, "hydra.sweep.subdir=x", code=1)
    assert "hydra.sweep.subdir=x: jobs #0 and #1 would share" in output
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_that_knows_ascii_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LANG": "C"}.items():
        monkeypatch.setenv(key, value)
    output = python("train.py", "logger=csv", "rounds=1", f"hydra.run.dir={tmp_path}/run")
    assert re.search(r"waiting for device\(s\) [\d, ]* \?; the run ends", output)
    assert " …; the run ends" in (tmp_path / "run/train.log").read_text(encoding="utf-8")


def test_nothing_to_resume_starts_at_round_0(tmp_path: Path) -> None:
    output = python("train.py", *QUICK, "rounds=2", "ckpt_path=last", f"hydra.run.dir={tmp_path}/new")
    assert "starting at round 0" in output
    assert len(rows(tmp_path / "new")) == 2


LONG = [*QUICK, "rounds=300", "save_every=7"]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straight") / "run"
    python("train.py", *LONG, f"hydra.run.dir={folder}")
    return folder


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_stopped_and_resumed(tmp_path: Path, straight: Path, number: signal.Signals, code: int) -> None:
    stopped = tmp_path / "stopped"
    command = [sys.executable, str(ROOT / "src/train.py"), *LONG, f"hydra.run.dir={stopped}"]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (stopped / "checkpoints/last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(60) == code
    assert 7 <= len(rows(stopped)) < 300
    python("train.py", f"hydra.run.dir={stopped}", "ckpt_path=last")
    assert rows(straight) == rows(stopped)
    for name, value in weights(straight).items():
        assert torch.equal(value, weights(stopped)[name])


def test_data_that_is_not_there_says_what_to_put_where(tmp_path: Path) -> None:
    output = python("train.py", "data=cifar10", f"paths.data_dir={tmp_path}", f"hydra.run.dir={tmp_path}/r", code=1)
    assert "Traceback" not in output
    assert "cifar-10-batches-py" in output
    assert "IMPATIENT_DATA_DIR" in output


def test_a_divergent_run_names_client_and_round(tmp_path: Path) -> None:
    args = [*QUICK, "rounds=30", "client.lr=1e30", "client.lr_decay=none", "client.weight_decay=1"]
    output = python("train.py", *args, f"hydra.run.dir={tmp_path}/r", code=1)
    assert re.search(r"round \d+: the update of client [0-9, ]+ is not finite", output)
