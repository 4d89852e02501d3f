"""The two examples of README.md, as they stand there: they keep the laws, and run."""

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from commands import ROOT, environment, rows
from impatient.contract.laws import LAWS
from impatient.contract.process_laws import PROCESS_LAWS
from impatient.contract.process_trial import ProcessTrial
from impatient.contract.trial import Trial
from impatient.contract.verdict import judge

README = (ROOT / "README.md").read_text(encoding="utf-8")


def example(title: str) -> dict[str, str]:
    """The files of a section: their text by their path."""
    section = README.partition(f"## {title}\n")[2].partition("\n## ")[0]
    files = dict(re.findall(r"`((?:src|configs)/[^`\n]+)`:\n\n```\w+\n(.*?)```", section, re.DOTALL))
    assert [Path(name).suffix for name in files] == [".py", ".yaml"]
    return files


@pytest.mark.parametrize(
    ("title", "room", "trial", "laws"),
    [
        ("Add a rule", "aggregators", Trial, LAWS),
        ("Add an availability process", "availability", ProcessTrial, PROCESS_LAWS),
    ],
)
def test_an_example_keeps_the_laws(
    title: str,
    room: str,
    trial: Callable[[Any], Any],
    laws: Mapping[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (module, code), (_, config) = example(title).items()
    (tmp_path / Path(module).name).write_text(code, encoding="utf-8")
    package = importlib.import_module(f"impatient.{room}")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    report = judge(trial(partial(instantiate, OmegaConf.create(config))), laws)
    assert not report.raised
    assert not report.named("broken")
    assert len(report.named("holds")) > len(laws) / 2


def test_the_examples_run_together(tmp_path: Path) -> None:
    """A rule and a process of one's own, in a copy to which nothing but their files is added."""
    for folder in ("src", "configs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for title in ("Add a rule", "Add an availability process"):
        for name, text in example(title).items():
            (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "src/train.py"), "algo=my_rule", "availability=my_process",
               "availability.period=6", "num_clients=10", "rounds=6", "logger=csv", "trainer=cpu",
               f"hydra.run.dir={tmp_path / 'run'}"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    available = [int(row["available"]) for row in rows(tmp_path / "run")]
    assert len(available) == 6
    assert available[3] == 0  # p·(1 + cos π)/2
    assert sum(available) > 0
