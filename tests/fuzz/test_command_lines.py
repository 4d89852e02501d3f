"""Whatever is typed is run, or refused in one message that names what was typed; nothing else ever comes out."""

import contextlib
import logging
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from command_lines import CONFIGS, line

from commands import config
from impatient.app import build
from impatient.app import fit as run
from impatient.app.cli import hydra_fault
from impatient.app.config import Settings
from impatient.checks import ConfigError
from impatient.round import BadUpdateError

SMALL = ("rounds=2", "num_clients=10")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", "/nonexistent/netrc")
    monkeypatch.setenv("IMPATIENT_DATA_DIR", "/nonexistent")
    level = logging.getLogger("lightning.pytorch").level
    yield
    logging.getLogger("lightning.pytorch").setLevel(level)


def accepted(overrides: list[str], folder: str = "run") -> dict[str, Any] | str:
    """The config of a line, as train.py sees it, or the message that refuses it."""
    try:
        plain = config(*overrides, run_dir=folder)
        build.validated(plain)
        return {**plain, "choices": {"data": "d", "algo": "a"}}
    except ConfigError as error:
        return str(error)
    except Exception as error:  # Hydra's own, as `enter` shows it
        with patched_argv(overrides):
            return hydra_fault(error)


@contextlib.contextmanager
def patched_argv(overrides: list[str]) -> Iterator[None]:
    before, sys.argv = sys.argv, ["train.py", *overrides]
    yield
    sys.argv = before


def names(message: str, overrides: list[str]) -> bool:
    """Whether the message holds the key or the value of an override."""
    for override in overrides:
        key, _, value = override.partition("=")
        key = key.lstrip("+~")
        words = {key, key.split(".")[-1], key.split(".")[0], value.strip("'"), *brought(key, value)}
        if any(word and word in message for word in words):
            return True
    return False


def brought(group: str, choice: str) -> list[str]:
    """The keys that a choice such as experiment=mifa_mnist sets all over the config."""
    path = CONFIGS / group / f"{choice}.yaml"
    text = path.read_text() if path.is_file() else ""
    return re.findall(r"^(?:  - override /)?(\w+):", text, re.MULTILINE) if "@package _global_" in text else []


def judge(numbers: range) -> tuple[int, list[str]]:
    """How many of these lines are accepted, and what is wrong with the others."""
    fine, wrong = 0, []
    for number in numbers:
        overrides = line(number)
        try:
            answer = accepted(overrides)
        except Exception as error:
            wrong.append(f"line {number}, {overrides}: {type(error).__name__}: {error}")
            continue
        if isinstance(answer, dict):
            fine += 1
        elif not names(answer, overrides):
            wrong.append(f"line {number}, {overrides}: names none of them: {answer}")
    return fine, wrong


def test_a_hundred_command_lines() -> None:
    fine, wrong = judge(range(100))
    assert not wrong, "\n".join(wrong)
    assert 10 < fine < 90  # the generator makes both kinds


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_thousand_command_lines() -> None:
    fine, wrong = judge(range(10_000))
    assert not wrong, "\n".join(wrong)
    assert 1000 < fine < 9000


def fit(folder: Path, wanted: int, seconds: int = 60) -> tuple[int, list[str]]:
    """Run `wanted` accepted lines on small data for two rounds: how many ran through, and what is wrong."""
    ran, number, tried, wrong = 0, 0, 0, []

    def too_long(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, too_long)
    while tried < wanted:
        number += 1
        overrides = [f"data={('digits', 'quadratic')[number % 2]}", "logger=csv", *SMALL, *line(number)]
        home = folder / str(number)
        cfg = accepted(overrides, str(home))
        if isinstance(cfg, str) or cfg["trainer"]["devices"] != 1 or "root" in cfg["data"]:
            continue
        if cfg["rounds"] > 3 or cfg["num_clients"] > 1000:
            continue
        home.mkdir()
        tried += 1
        signal.alarm(seconds)
        try:
            run(Settings.of(cfg))
            ran += 1
        except (ConfigError, BadUpdateError) as error:
            if not names(str(error), overrides):
                wrong.append(f"line {number}, {overrides}: names none of them: {error}")
        except Exception as error:
            wrong.append(f"line {number}, {overrides}: {type(error).__name__}: {error}")
        finally:
            signal.alarm(0)
            wandb.finish()
    signal.signal(signal.SIGALRM, before)
    return ran, wrong


def test_what_is_accepted_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some lines name relative folders
    ran, wrong = fit(tmp_path, 5)
    assert not wrong, "\n".join(wrong)
    assert ran > 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_accepted_lines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran, wrong = fit(tmp_path, 200)
    assert not wrong, "\n".join(wrong)
    assert ran > 100
