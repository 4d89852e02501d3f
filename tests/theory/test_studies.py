"""Every study's yaml in a small version: what it claims must come out. The door, and what it says to mistakes."""

import csv
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from impatient.checks import ConfigError
from impatient.theory import report
from impatient.theory.run import outcome_of
from impatient.theory.settings import faults_in

ROOT = Path(__file__).parents[2]
STUDIES = sorted(path.stem for path in (ROOT / "configs" / "study").glob("*.yaml"))


def config(*overrides: str) -> dict[str, Any]:
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        cfg = compose("theory", overrides=["out=none", *overrides])
    return {"node": OmegaConf.to_container(cfg.study, resolve=True), "seed": cfg.seed}


SMALL = {
    "waiting": ["splits=[mnist]", "pmins=[0.1]", "sizes=[10,100]", "repeats=2000", "rounds=400"],
    "staleness": ["clients=60", "rounds=1500", "horizons=[30,200]"],
    "limits": ["rounds=500", "repeats=300"],
    "case_study": ["pmins=[0.2]", "sizes=[100]", "target=100"],
    "rate": [
        "rounds=400",
        "cells=[[10,1,0.3],[40,1,0.3],[10,4,0.3],[10,1,1.0]]",
        "digits.rounds=400",
        "digits.repeats=2",
    ],
    "assumptions": ["rounds=1600", "repeats=30"],
    "nonconvex": ["horizons=[50,150]", "repeats=1", "looks=20"],
}
# What a run this short need not show: the floor is not reached, nor the last power of T.
LATER = {
    "rate": ("digits: MIFA's slope", "digits: biased FedAvg's error / MIFA's"),
    "nonconvex": ("MIFA's slope of the end",),
}


@pytest.mark.parametrize("name", STUDIES)
def test_what_a_study_claims_comes_out(name, tmp_path):
    outcome = outcome_of(**config(f"study={name}", *(f"study.{text}" for text in SMALL[name])))
    failed = [f for f in outcome.findings if not f.holds and f.claim not in LATER.get(name, ())]
    assert not failed
    assert len(outcome.findings) > len(LATER.get(name, ()))
    assert {len(row) for row in outcome.rows} == {len(outcome.columns)}
    report.write(outcome, tmp_path, name, ["a note"])
    assert {path.suffix for path in tmp_path.iterdir()} == {".md", ".csv", ".png", ".pdf"}
    with (tmp_path / f"{name}.csv").open() as file:
        assert len(list(csv.reader(file))) == len(outcome.rows) + 1


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_the_defaults_show_all_that_is_claimed(name):
    outcome = outcome_of(**config(f"study={name}"))
    assert not [f for f in outcome.findings if not f.holds]


@pytest.mark.parametrize("name", STUDIES)
def test_a_head_names_its_command_claim_and_outcome(name):
    head = "\n".join(row for row in (ROOT / f"configs/study/{name}.yaml").read_text().splitlines() if row[:1] == "#")
    (command,) = re.findall(r"python src/theory\.py(.*)", head)
    config(*shlex.split(command))
    assert f"study={name}" in command
    assert re.search(r"Claim \(|Claim:", head)
    assert "Expect" in head


def test_findings_hold_or_not():
    assert report.Finding("x", 1.0, 0.5, 1.5).holds
    assert not report.Finding("x", 2.0, 0.5, 1.5).holds
    assert not report.Finding("x", float("nan"), 0.5, 1.5).holds
    assert [report.Finding("x", 1, *ends).cells[2] for ends in ((2,), (-np.inf, 2), (1, 2))] == [
        "at least 2",
        "at most 2",
        "1 to 2",
    ]
    assert report.slope(np.array([1, 10, 100]), np.array([5, 0.5, 0.05])) == pytest.approx(-1)


def test_a_table_in_markdown(tmp_path):
    outcome = report.Outcome(("a", "b"), [("x", 1 / 3), (None, True)], [report.Finding("c", 2.0, high=1)], Figure())
    report.write(outcome, tmp_path, "t", ["note"])
    text = (tmp_path / "t.md").read_text()
    assert text.splitlines()[:4] == ["| a | b |", "| --- | --- |", "| x | 0.3333 |", "|  | yes |"]
    assert "| c | 2 | at most 1 | no |" in text
    assert text.endswith("note\n")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["seed=-1"], "^seed=-1: must be greater than or equal to 0"),
        (["+study.foo=1"], r"study\.foo: unknown key"),
        (["study.sizes=5"], r"study\.sizes=5: must be a valid list"),
        (["study.sizes=[5,x]"], r"study\.sizes=x: must be a valid integer"),
        (["study.sizes=[101]"], r"study\.sizes=101: must be less than or equal to 100"),
        (["study.sizes=[]"], r"study\.sizes=\[\]: must have at least 1 item"),
        (["study.splits=[svhn]"], r"study\.splits=svhn: must be 'mnist' or 'cifar10'"),
        (["study.pmins=[0.0]"], r"study\.pmins=0\.0: must be greater than 0"),
        (["~study.rounds"], r"study\.rounds: is missing"),
        (["study.repeats=many"], r"study\.repeats=many: must be a valid integer"),
        (["study.repeats=true"], r"study\.repeats=True: must be a valid integer"),
        (["study.rule._partial_=false"], r"study\.rule=.*must be callable"),
        (["study._target_=os.getcwd"], r"study\._target_=os\.getcwd: must be impatient\.theory\.report\.Outcome"),
        (["study._target_=nowhere.run"], r"study\._target_=nowhere\.run: cannot be imported"),
        (["study=limits", "~study.cases"], r"study\.cases: is missing"),
        (["study=limits", "+study.cases.a={low: 0.0, high: 1.0, spread: 1.0, sigma: 1.0}"], r"cases\.a\.low=0\.0"),
        (["study=limits", "+study.cases.a={low: 0.9, high: 0.1, spread: 1.0, sigma: 1.0}"], r"cases\.a: .*low <= high"),
        (["study=limits", "+study.cases.a={low: 0.5}"], r"cases\.a\.high: is missing"),
        (["study=limits", "+study.cases.a=3"], r"cases\.a=3: must be a valid dictionary"),
        (["study=limits", "study.cases=3"], "must be a valid dictionary"),
        (["study=staleness", "study.chances=[1.5]"], r"study\.chances=1\.5"),
        (["study=staleness", "study.chains=[[0.3]]"], r"study\.chains=\[0\.3\]: must have more entries"),
        (["study=staleness", "study.chains=[[0.9,-0.9]]"], "study: lam=-0.9 with pi=0.9: no such chain"),
        (["study=staleness", "study.cycles=[[0,3]]"], r"study\.cycles\.on=0|study\.cycles=0"),
        (["study=rate", "study.cells=[[1,2]]"], r"study\.cells=\[1, 2\]: must have more entries"),
        (["study=rate", "study.cells=[]"], r"study\.cells=\[\]: must have at least 1 item"),
        (["study=rate", "study.cells=[[10,1,0.3]]", "study.rounds=64", "study.digits.c=-1"], r"digits\.c=-1"),
        (["study=rate", "~study.rules.mifa"], "study.rules: .*give both"),
        (["study=case_study", "study.sizes=[0]"], "sizes=0"),
        (["study=assumptions", "study.b=1.0"], r"b=1\.0"),
        (["study=assumptions", "study.clients=2"], "clients=2"),
        (["study=nonconvex", "study.clients=5000"], "study: num_clients=5000"),
        (["study=nonconvex", "study.horizons=[50]"], r"study\.horizons=\[50\]: must have at least 2 items"),
        (["study=nonconvex", "+study.rules.mifa.init=never"], r"study\.rules\.mifa\.init=never: must be one of"),
        (["study=nonconvex", "study.rules.mifa=impatient.aggregators.mifa.MIFA"], r"rules\.mifa\._target_=None"),
        (["study=nonconvex", "+study.rules.mifa.foo=1"], r"study\.rules\.mifa: .*'foo'"),
        (["study=nonconvex", "study.rules.mifa._target_=os.getcwd"], r"rules\.mifa\._target_=os\.getcwd: must be"),
    ],
)  # fmt: skip
def test_mistakes_get_one_clear_error(overrides, said):
    with pytest.raises(ConfigError, match=said):
        outcome_of(**config(*overrides))


def test_all_mistakes_are_said_at_once():
    assert faults_in(
        **config("study=limits", "seed=-1", "study.rounds=1", "study.dim=x", "+study.cases.a={low: 1}")
    ) == [
        "study.cases.a.high: is missing; configs/study has a value",
        "study.cases.a.spread: is missing; configs/study has a value",
        "study.cases.a.sigma: is missing; configs/study has a value",
        "study.rounds=1: must be greater than or equal to 10",
        "study.dim=x: must be a valid integer",
        "seed=-1: must be greater than or equal to 0",
    ]
    assert faults_in(**config()) == []


def test_help_loads_no_torch():
    code = "import sys, theory; assert not {'torch', 'matplotlib', 'scipy', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "src", check=True)


def test_the_command(tmp_path):
    small = [f"study.{text}" for text in ("clients=20", "rounds=200", "horizons=[30]")]
    command = [sys.executable, str(ROOT / "src" / "theory.py"), "study=staleness", f"out={tmp_path / 'new'}", *small]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "holds" in done.stdout
    assert f"written to {tmp_path / 'new'}" in done.stdout
    assert "Warning" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert {p.name for p in (tmp_path / "new").iterdir()} == {f"staleness.{e}" for e in ("md", "csv", "png", "pdf")}
    assert "python src/theory.py study=staleness study.clients=20" in (tmp_path / "new/staleness.md").read_text()


def test_the_command_says_what_is_wrong(tmp_path):
    (tmp_path / "file").write_text("")
    command = [sys.executable, str(ROOT / "src" / "theory.py"), f"out={tmp_path / 'file'}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert f"out={tmp_path / 'file'}: cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
