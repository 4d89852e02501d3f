"""A run that is a process of its own, what it leaves behind, and whether two runs are the same run."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

from commands import ROOT, environment, rows

# 20 clients x 50,000 parameters: 4 MB of memory, so that with save_every=1 a good part of the time is spent in saves.
HEAVY = ["data=quadratic", "data.dim=50000", "data.samples=2", "num_clients=20", "logger=csv", "client.epochs=1"]


def start(folder: Path, *args: str, **kwargs: Any) -> subprocess.Popen[str]:
    """train.py in `folder`, in the background."""
    command = [sys.executable, str(ROOT / "src/train.py"), f"hydra.run.dir={folder}", *args]
    # A shell lets what it runs in the background ignore Ctrl-C, and children inherit that.
    kwargs.setdefault("preexec_fn", partial(signal.signal, signal.SIGINT, signal.SIG_DFL))
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "stdin": subprocess.DEVNULL}
    return subprocess.Popen(command, env=environment(), **{**quiet, **kwargs})


def finish(process: subprocess.Popen[str], code: int = 0, seconds: float = 300) -> str:
    """Its output, once it has ended with `code`."""
    output, _ = process.communicate(timeout=seconds)
    assert process.returncode == code, output
    return output


def wait_for(process: subprocess.Popen[str], ready: Any, seconds: float = 120) -> bool:
    """Until ready() holds, or the process has ended: whether it still runs."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and not ready():
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.002)
    return process.poll() is None


def rounds_in(folder: Path) -> int:
    path = folder / "metrics.csv"
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


def checkpoint(folder: Path, name: str = "last.ckpt") -> dict[str, Any]:
    return torch.load(folder / "checkpoints" / name, weights_only=True)


def differences(a: Any, b: Any, path: str = "") -> list[str]:
    """Where two checkpoints or summaries differ by as much as a bit."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = sorted({*a, *b}, key=str)
        return [d for k in keys for d in differences(a.get(k), b.get(k), f"{path}/{k}")]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{path}/{i}")]
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return [] if a.dtype == b.dtype and torch.equal(a, b) else [path]
    return [] if a == b or (a != a and b != b) else [f"{path}: {a} and {b}"]


def assert_same_run(a: Path, b: Path) -> None:
    """Model, server optimizer, rule's state, memory, statistics, rows and summary: bit for bit, but for wall clocks."""
    for name in ("last.ckpt", "best.ckpt"):
        one, two = checkpoint(a, name), checkpoint(b, name)
        for saved in (one, two):
            saved["impatient"]["row"].pop("seconds")
            del saved["loops"], saved["epoch"]  # Lightning's own counters; the clock is global_step
        assert differences(one, two) == []
    assert rows(a) == rows(b)
    for name in ("participation.csv", "clients.csv", "partition.json"):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (a, b)]
    for summary in summaries:
        summary.pop("wall_seconds")
    assert differences(*summaries) == []
    assert not [path for path in (b, b / "checkpoints") if list(path.glob(".*.part"))]


def limited(megabytes: float) -> Any:
    """For Popen's preexec_fn: no file may grow larger."""

    def limit() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (int(megabytes * 1e6),) * 2)

    return limit


def free(folder: Path) -> int:
    return os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
