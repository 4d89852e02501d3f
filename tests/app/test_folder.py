"""A run's folder and its checkpoints; what the machine can take; and the command line before Hydra reads it."""

import fcntl
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from torch import nn

from commands import QUICK, ROOT, config, faults, python
from impatient import files, records
from impatient.app import build, cli, folder
from impatient.checks import ConfigError
from impatient.data.quadratic import Quadratic
from impatient.lit.checkpoint import AtomicCheckpointIO, SaveError, check_disk, newest
from impatient.memory import MemorySettings, memory_bytes
from impatient.messages import Slot

# Hydra's door --------------------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    output = python("train.py", f"hydra.run.dir={tmp_path}/file/run", code=1)
    assert re.search(r"the run's folder cannot be made \(.*file/run: is, or lies in, a file\)", output)
    assert "Traceback" not in output


def test_a_reader_that_goes_away() -> None:
    """As in `plot.py --help | head -1`: the pipe is closed before all is written."""
    command = f"{sys.executable} {ROOT / 'src/plot.py'} --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 1)


def test_a_new_folder_has_no_last_checkpoint() -> None:
    output = python("train.py", *QUICK, "ckpt_path=last", code=1)
    assert "ckpt_path=last: a new folder holds no checkpoint; add hydra.run.dir=" in output


def enter(monkeypatch: pytest.MonkeyPatch, typed: str) -> list[str]:
    """What Hydra is handed."""
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    monkeypatch.setattr("logging.raiseExceptions", True)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    seen: list[str] = []
    cli.enter(lambda: seen.extend(sys.argv[1:]), typed.split())
    return seen


@pytest.mark.parametrize(
    ("typed", "handed"),
    [
        ("algo=mifa -m seed=1,2", "-m algo=mifa seed=1,2"),
        ("data=mnist --cfg job rounds=3 rounds=3", "--cfg job data=mnist rounds=3 rounds=3"),
        ("a=1 -cn train b=2 --config-dir=c", "-cn train --config-dir=c a=1 b=2"),
        ("a=1 --info config -p algo b=2", "--info config -p algo a=1 b=2"),
    ],
)
def test_flags_stand_anywhere(monkeypatch: pytest.MonkeyPatch, typed: str, handed: str) -> None:
    assert enter(monkeypatch, typed) == handed.split()


@pytest.mark.parametrize(
    ("typed", "said", "code"),
    [
        (["-m", "seed=1,2", "--cfg", "job"], "Only one of --run, --multirun, --cfg", 1),
        (["rounds=2", "--resolve"], "The --resolve flag can only be used", 1),
        (["--experimental-rerun", "config.pickle"], "reads a pickle", 1),
        (["rounds=2", "--foo"], "unrecognized arguments: --foo", 2),
        (["--cfg", "nothing"], "invalid choice: 'nothing'", 2),
    ],
)
def test_flags_that_say_nothing(typed: list[str], said: str, code: int) -> None:
    output = python("train.py", *typed, code=code)
    assert said in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("algo=mfia", "Could not find 'algo/mfia' Available options in 'algo': fedavg_all .*; did you mean algo=mifa?"),
        ("algo.ini=zero", "Key 'ini' is not in struct; did you mean init?"),
        ("availabilty.pmin=2", "Key 'availabilty' is not in struct; did you mean availability?"),
        ("hydra.run.dri=x", "; did you mean dir?"),
        ("~algo.nit", "'algo.nit' does not exist"),
        ("algo=3", r"must be a string or a list\. Got int \(of: algo=3\)"),
        ("algo=[1]", r"\(of: algo=\[1\]\)"),
        ("rounds", "missing EQUAL"),
        ("rounds=[1", "no viable alternative"),
        ("+rounds=3", "An item is already at 'rounds'"),
        ("seed=0,1", "add --multirun"),
        ("rounds=???", "rounds: is missing; give rounds=…"),
        ("rounds=${nope}", "rounds: Interpolation key 'nope' not found"),
    ],
)
def test_what_hydra_cannot_compose(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, said: str
) -> None:
    """Its own words in one message, with the nearest name; no traceback, and nothing is made of it."""
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    monkeypatch.setattr("logging.raiseExceptions", True)
    with pytest.raises(SystemExit) as caught:
        cli.enter(lambda: config(typed), [typed])
    assert caught.value.code == 1
    shown = capsys.readouterr().err
    assert shown.startswith("1 fault in the configuration:\n")
    assert re.search(said.replace("?", r"\?") if "did you" in said else said.replace("???", r"\?\?\?"), shown)
    assert len(shown.splitlines()) == 2


def test_children_of_a_run_do_not_inherit_how_hydra_shows_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that is started with HYDRA_FULL_ERROR=1 would show a user's mistake as a traceback."""
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setattr("logging.raiseExceptions", True)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    monkeypatch.setattr("hydra.core.hydra_config.HydraConfig.get", lambda: None)
    seen = []

    def main() -> None:
        seen.append(os.environ.get("HYDRA_FULL_ERROR"))
        with cli.task():
            seen.append(os.environ.get("HYDRA_FULL_ERROR"))
        seen.append(os.environ.get("HYDRA_FULL_ERROR"))

    cli.enter(main, [])
    assert seen == ["1", None, "1"]


@pytest.mark.parametrize("text", ["scale: [1", "scale: 1\nscale: 2", "\tscale: 1"])
def test_a_config_that_is_no_yaml(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    monkeypatch.setattr("logging.raiseExceptions", True)

    def read() -> None:
        with initialize_config_dir(str(tmp_path), version_base="1.3"):
            compose("mine")

    with pytest.raises(SystemExit):
        cli.enter(read, [])
    assert re.search(r"mine\.yaml, line \d: is no YAML \(.*\); mend it", capsys.readouterr().err)


# Resuming ------------------------------------------------------------------------------------------------------------


def saved(path: Path, rounds: int) -> None:
    path.parent.mkdir(exist_ok=True)
    torch.save({"global_step": rounds, "impatient": {"identity": {}}}, path)


def test_the_newest_whole_checkpoint(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = tmp_path / "checkpoints"
    assert newest(home) is None
    saved(home / "best.ckpt", 4)
    saved(home / "last.ckpt", 9)
    assert newest(home) == home / "last.ckpt"
    saved(home / "best.ckpt", 9)
    assert newest(home) == home / "last.ckpt"
    saved(home / "best.ckpt", 4)
    last = home / "last.ckpt"
    last.write_bytes(last.read_bytes()[:-20])
    assert newest(home) == home / "best.ckpt"
    assert re.search(r"last\.ckpt: is no whole checkpoint .*going on from .*best\.ckpt, 4 rounds", caplog.text)
    (home / "best.ckpt").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"(?s)last\.ckpt: is no whole.*best\.ckpt|best\.ckpt.*last\.ckpt"):
        newest(home)


def test_a_folder_is_one_run_s(tmp_path: Path) -> None:
    with folder.claimed(tmp_path):
        with (
            pytest.raises(
                ConfigError, match=rf"run\.dir={tmp_path}: process {os.getpid()} on .* is writing a run there"
            ),
            folder.claimed(tmp_path),
        ):
            pass
        with pytest.raises(ConfigError, match="is writing a run there"), folder.claimed(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []
    with folder.claimed(tmp_path):
        pass


def test_a_lock_that_its_owner_removes_shuts_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between our opening of the file and our locking it, its owner ends: a third process would make a new one."""
    path, flock, calls = tmp_path / ".lock", fcntl.flock, []

    def owner_ends(file: Any, how: int) -> None:
        if not calls:
            path.unlink()
        calls.append(how)
        flock(file, how)

    path.write_text("process 1 on elsewhere")
    monkeypatch.setattr("fcntl.flock", owner_ends)
    with files.locked(path):
        assert len(calls) == 2
        with pytest.raises(BlockingIOError, match=f"process {os.getpid()} on "), files.locked(path):
            pass
    assert not path.exists()


def test_a_process_that_was_killed_holds_no_folder(tmp_path: Path) -> None:
    code = (
        "import time, pathlib, sys; from impatient.app import folder\n"
        "with folder.claimed(pathlib.Path(sys.argv[1])): print(1, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT / "src", stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        with pytest.raises(ConfigError, match=f"process {process.pid} on "), folder.claimed(tmp_path):
            pass
        process.kill()
    assert (tmp_path / ".lock").exists()
    with folder.claimed(tmp_path):
        pass


def test_a_text_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    files.write(path, "old")
    with pytest.raises(UnicodeEncodeError):
        files.write(path, "new \ud800")  # no UTF-8: fails in the middle
    assert path.read_text() == "old"
    files.write(path, "new")
    assert path.read_text() == "new"


def test_saved_overrides_that_are_torn(tmp_path: Path) -> None:
    (tmp_path / "overrides.json").write_text('["num_cli')
    with pytest.raises(SystemExit, match=r"overrides\.json: cannot be read"):
        folder.with_saved_overrides([f"hydra.run.dir={tmp_path}", "ckpt_path=last"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"round": 4, "train/objective": 1.0}', True),
        ('{"round": 3, "train/objective": 1.0}', False),
        ('{"round": 4}', False),
        ('{"rou', False),
    ],
)
def test_the_summary_of_as_many_rounds(tmp_path: Path, text: str, found: bool) -> None:
    (tmp_path / "summary.json").write_text(text)
    assert records.summary_of(tmp_path, 5) == (json.loads(text) if found else None)
    assert records.summary_of(tmp_path / "nowhere", 5) is None


# Checkpoints on a full disk ------------------------------------------------------------------------------------------


class FullError(OSError):
    pass


@pytest.mark.parametrize("as_torch_reports_it", [False, True])
def test_a_failed_save_names_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_torch_reports_it: bool
) -> None:
    path, io = tmp_path / "last.ckpt", AtomicCheckpointIO()

    def full(obj: Any, file: Any) -> None:
        try:
            raise OSError(28, "No space left on device")
        except OSError:
            if not as_torch_reports_it:
                raise
            raise RuntimeError("unexpected pos 704 vs 598")  # noqa: B904

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", full)
        with pytest.raises(SaveError, match=r"last\.ckpt: No space left on device; none was saved before"):
            io.save_checkpoint({}, path)
    io.save_checkpoint({"a": 1}, path)
    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", full)
        with pytest.raises(SaveError, match="the one saved before is whole"):
            io.save_checkpoint({"a": 2}, path)
    assert torch.load(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["last.ckpt"]
    with pytest.raises(RuntimeError, match="a bug"):
        io.save_checkpoint({"a": Unsaveable()}, path)


class Unsaveable:
    def __reduce__(self) -> Any:
        raise RuntimeError("a bug")


# What the machine can take -------------------------------------------------------------------------------------------


def test_a_memory_above_what_is_free_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(99, 10)  # 1,000 parameters: 100 clients take 400 kB in float32
    settings = MemorySettings()
    monkeypatch.setattr("impatient.memory.free_bytes", lambda device: 400_000)
    assert memory_bytes({"G": Slot()}, 100, model, settings) == 400_000
    monkeypatch.setattr("impatient.memory.free_bytes", lambda device: 399_999)
    with pytest.raises(ConfigError, match=r"need 0\.0004 GB, and 0\.0004 GB are free on cpu; set memory\.dtype"):
        memory_bytes({"G": Slot()}, 100, model, settings)


def test_a_disk_without_room_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = nn.Linear(99, 10)
    each = 1_000_000 + 1000 * 28  # the memory; weights and two moments in float32, two vectors in float64

    def disk(free: int) -> Any:
        return lambda path: type("Usage", (), {"free": free})

    monkeypatch.setattr("shutil.disk_usage", disk(3 * each))
    check_disk(tmp_path / "not/yet", 1_000_000, model)
    monkeypatch.setattr("shutil.disk_usage", disk(3 * each - 1))
    with pytest.raises(ConfigError, match=r"up to 0\.00308 GB .*make room"):
        check_disk(tmp_path / "not/yet", 1_000_000, model)
    (tmp_path / "last.ckpt").write_bytes(b"1")  # what a run has there already counts once, however many names it has
    (tmp_path / "best.ckpt").hardlink_to(tmp_path / "last.ckpt")
    check_disk(tmp_path, 1_000_000, model)


def test_synthetic_data_for_too_many_clients() -> None:
    (fault,) = faults("data=quadratic", "num_clients=1000000000000")
    assert re.search(r"num_clients=1000000000000: their data take .* GB of memory", fault)
    (fault,) = faults("data=quadratic", f"data.dim={10**30}")
    assert "GB of memory" in fault
    # Points float64 [20, 10] twice, indices int64 [20], and an array's head.
    assert Quadratic().num_bytes(3) == 3 * (20 * 10 * 8 * 2 + 20 * 8 + 256)
    loaded = Quadratic().load(100, 0)
    assert loaded.x.numel() * 8 + loaded.y.numel() * 8 <= Quadratic().num_bytes(100)


@pytest.mark.parametrize("key", ["steps", "epochs"])
def test_more_batches_than_fit_the_memory(key: str) -> None:
    settings, made = build.validated(config("num_clients=10", f"client.{key}={10**15}"))
    with pytest.raises(ConfigError, match=rf"client\.{key}={10**15}: .* steps a round"):
        build.federation(settings, made)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["++algo._target_=os.getcwd", "~algo.init", "~algo.normalise_by_lr"],
            r"algo\._target_=os\.getcwd: must be impatient\.aggregators\.base\.Aggregator, or a function",
        ),
        (["++algo._partial_=true"], r"_partial_=true is not wanted here"),
        (["server._target_=torch.optim.LBFGS"], "server: "),
        (["++server._partial_=false"], "server"),
        (["+trainer.gradient_clip_val=1"], r"trainer\.gradient_clip_val=1: has no meaning here"),
        (["+trainer.acelerator=cpu"], "did you mean accelerator"),
        (["trainer.enable_checkpointing=true"], "must be False"),
        (["+trainer.detect_anomaly=3"], r"trainer\.detect_anomaly=3: must be a valid boolean"),
        (["+trainer.profiler=1"], r"trainer\.profiler=1: must be 'simple', 'advanced' or 'pytorch'"),
        (["++seeds=3"], "seeds=3: must be a group of settings"),
    ],
)
def test_further_faults(overrides: list[str], said: str) -> None:
    found = faults(*overrides)
    assert any(re.search(said, fault) for fault in found), found


def test_hydra_logs_no_second_voice(caplog: pytest.LogCaptureFixture) -> None:
    assert faults("model._target_=nowhere.Net")
    assert "nowhere" not in caplog.text
