"""The door: folders on the command line, what is written, and one message where nothing can be drawn."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from rich.console import Console

import plot
from impatient.checks import ConfigError
from impatient.plots import command
from impatient.plots.settings import Settings, checked

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent / "plots"))

from run_folder import config, write  # noqa: E402

COLUMNS = {"train/loss": [4, 3, 2, 1], "test/acc": [0.1, 0.2, 0.3, 0.4], "seconds": [1, 1, 1, 1]}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Two rules, two seeds."""
    for algo in ("mifa", "fedavg_biased"):
        for seed in (0, 1):
            losses = [value + seed for value in COLUMNS["train/loss"]]
            write(tmp_path / f"sweep/algo={algo},seed={seed}", COLUMNS | {"train/loss": losses}, config(algo, seed))
    return tmp_path / "sweep"


def settings(*overrides: str) -> dict[str, Any]:
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        plain = OmegaConf.to_container(compose("plot", overrides=list(overrides)), resolve=True)
    assert isinstance(plain, dict)
    return {str(k): v for k, v in plain.items()}


def run(capsys: pytest.CaptureFixture[str], folders: list[Path], *overrides: str) -> tuple[list[Path], str]:
    written = command.plot(settings(*overrides) | {"runs": list(map(str, folders))}, Console(width=200))
    return written, capsys.readouterr().out


def test_from_the_shell(sweep: Path, tmp_path: Path) -> None:
    """Another folder, names with = and commas, no torch."""
    (sweep / "broken").mkdir()
    (sweep / "broken/train.log").touch()
    command = [sys.executable, "-X", "importtime", str(ROOT / "src/plot.py"), "sweep", "x=seconds", "formats=[png]"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "MIFA" in done.stdout
    assert "1.5000 ± 0.7071" in done.stdout  # 1 and 2: std 1/√2
    assert "warning: sweep/broken: no metrics.csv" in done.stdout
    assert {p.name for p in (sweep / "plots").iterdir()} == {"curves.png", "table.md", "table.csv"}
    loaded = {line.split("|")[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "impatient.plots.curves" in loaded
    assert not loaded & {"torch", "lightning", "wandb", "sklearn", "matplotlib.pyplot"}


def test_nothing_to_draw_is_one_message(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "src/plot.py"), "nowhere"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr == "nothing to draw:\n  nowhere: there is no such folder\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["plain", "with space", "algo=mifa,seed=0", "it's", "it\\'s", "end\\", "a\\b", 'a"b', "a[1]", "${x}", "ünï"]
)
def test_folders_are_taken_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()
    (override, rest) = plot.with_folders([name, "x=bytes"])
    assert rest == "x=bytes"
    OverridesParser.create().parse_override(override)
    assert settings(override)["runs"] == [name]
    assert plot.with_folders(["x=bytes", "--help"]) == ["x=bytes", "--help"]


def test_single_runs_and_several_folders(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write(tmp_path / "one", COLUMNS, config("fedavg_is"))
    written, said = run(capsys, [one, sweep], f"out={tmp_path}/out")
    assert [p.name for p in written] == ["curves.png", "curves.pdf", "table.md", "table.csv"]
    assert "warning: digits: one seed only, so no band: FedAvg-IS" in said
    text = (tmp_path / "out/table.md").read_text()
    assert [line.split("|")[1].strip() for line in text.splitlines()[4:]] == ["MIFA", "biased FedAvg", "FedAvg-IS"]


def test_data_sets_have_files_of_their_own(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(sweep / "q", {"train/objective": [3, 2, 1, 0]}, config(choices__data="quadratic"))
    written, said = run(capsys, [sweep], "formats=[png]")
    stems = {p.stem for p in written}
    assert stems == {"curves_digits", "table_digits", "curves_quadratic", "table_quadratic"}
    assert "several data sets, each drawn by itself: digits, quadratic" in said


def test_one_data_set_that_cannot_be_drawn_leaves_the_other(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(sweep / "q", {"train/objective": [3, 2, 1, 0]}, config(choices__data="quadratic"))
    written, said = run(capsys, [sweep], "formats=[png]", "x=seconds")
    assert {p.stem for p in written} == {"curves_digits", "table_digits"}
    assert "has no column seconds" in said


def test_unfinished_runs_are_drawn_or_dropped(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {k: v[:2] for k, v in COLUMNS.items()}
    write(sweep / "short", columns, config("mifa", 2), finished=False, tail="2,0.")
    _, said = run(capsys, [sweep], "formats=[png]")
    for text in ("short: unfinished: 2 of 4 rounds", "1 torn or odd line", "drawn as far as all go: to round 1"):
        assert text in said
    assert "after round 1" in (sweep / "plots/table.md").read_text()
    _, said = run(capsys, [sweep], "formats=[png]", "unfinished=drop")
    assert "short: left out (unfinished=drop)" in said
    assert "after round 3" in (sweep / "plots/table.md").read_text()


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["kind=pie"], "kind=pie: must be one of curves"),
        (["x=rounds"], "x=rounds: must be one of round, update"),
        (["logx=1"], "logx=1: must be true or false"),
        (["at=-1"], "at=-1"),
        (["at=soon"], "at=soon"),
        (["at=500"], "at=500: the longest run"),
        (["panels=[a]"], "panels="),
        (["unfinished=skip"], "unfinished=skip"),
        (["formats=[gif]"], "formats=[gif]: must be one or more of png"),
        (["formats=[]"], "formats=[]: must be one or more of png"),
        (["formats=null"], "formats=null: must be one or more of png"),
        (["formats=3"], "formats=3: must be one or more of png"),
        (["metrics=[3]"], "metrics=[3]: must be a list of names"),
        (["metrics=[[a]]"], "metrics=[[a]]: must be a list of names"),
        (["metrics=[nothing/such]"], "metrics: nothing/such: no run has this column; did you mean"),
        (["out=[a]"], "out=[a]: must be one folder"),
        (["out=''"], "out=: must be one folder"),
        (["metrics=[tset/acc]"], "did you mean test/acc?"),
        (["metrics={a: 1}"], "metrics="),
        (["kind=participation"], "no run has a participation.csv"),
        (["kind=classes"], "no classes"),
        (["kind=partition"], "neither clients.csv nor partition.json"),
        (["x=samples"], "has no column active"),
        (["out=/proc/no"], "out=/proc/no: cannot be made"),
    ],
)
def test_wrong_settings(sweep: Path, capsys: pytest.CaptureFixture[str], overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run(capsys, [sweep], *overrides)
    assert said in str(caught.value)
    assert not (sweep / "plots").exists()


def test_a_format_may_stand_alone(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written, _ = run(capsys, [sweep], "formats=png", "out=3", f"out={sweep}/made")
    assert [p.name for p in written] == ["curves.png", "table.md", "table.csv"]


@pytest.mark.parametrize("what", ["out", "curves.png", "table.md"])
def test_files_that_cannot_be_written(sweep: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    """The folder is a file; a folder stands where a figure or the table is to go."""
    out = sweep / "made"
    if what == "out":
        out.write_text("")
    else:
        (out / what).mkdir(parents=True)
    with pytest.raises(ConfigError) as caught:
        run(capsys, [sweep], "formats=[png]", f"out={out}")
    (fault,) = caught.value.faults
    assert fault.startswith(f"out={out}: is a file; name a folder" if what == "out" else f"{out}/{what}: cannot be")


@pytest.mark.parametrize(
    ("kind", "override", "said"),
    [
        (
            "staleness",
            "metrics=[test/acc]",
            "metrics=[test/acc]: kind=staleness does not take metrics, kind=curves does",
        ),
        ("staleness", "x=bytes", "x=bytes: kind=staleness does not take x, kind=curves does"),
        ("staleness", "at=3", "at=3: kind=staleness does not take at, kind=curves and kind=classes do"),
        ("staleness", "panels=algo", "panels=algo: kind=staleness does not take panels"),
        ("classes", "logy=true", "logy=true: kind=classes does not take logy"),
        ("classes", "at=3", ""),
        ("staleness", "panels=null", ""),
        ("curves", "at=3", ""),
    ],
)
def test_a_setting_that_a_kind_does_not_take_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, override: str, said: str
) -> None:
    columns = {"staleness/tau_mean": [0, 1, 2, 3], "staleness/tau_max": [0, 1, 2, 3], "test/acc/a": [0, 0, 0, 1]}
    write(tmp_path / "r", COLUMNS | columns, config())
    written, output = run(capsys, [tmp_path], "formats=[png]", f"kind={kind}", override)
    assert written
    assert output.count("does not take") == bool(said)
    assert not said or f"warning: {said}" in output


def test_the_defaults_are_those_of_the_yaml() -> None:
    assert settings() == Settings().model_dump()


def test_characters_without_a_glyph_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without a config goes by its folder's name; dollar signs there are no formula."""
    for name in ("日本", "a$b_{$"):
        (write(tmp_path / name, COLUMNS) / "config.yaml").unlink()
    _, said = run(capsys, [tmp_path], "formats=[png]")
    assert said.count("characters that the figure's font lacks") == 1
    assert "Glyph" not in said


def test_one_broken_file_leaves_the_others(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Empty, header only, torn: each named once, and the other three runs drawn."""
    for name, text in (("empty", ""), ("head", "round,train/loss\n"), ("torn", "round,tr")):
        write(sweep / name, COLUMNS, config("fedavg_is")).joinpath("metrics.csv").write_text(text)
    written, said = run(capsys, [sweep], "formats=[png]")
    assert len(written) == 3
    for name in ("empty", "head", "torn"):
        assert said.count(f"{name}/metrics.csv: ") == 1


def test_all_wrong_settings_at_once(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        run(capsys, [sweep], "x=a", "kind=b", "logy=c")
    assert len(caught.value.faults) == 3


def test_nan_is_said_and_the_rest_is_drawn(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(sweep / "nan", COLUMNS | {"train/loss": [4, "nan", np.inf, 1]}, config("fedavg_is"))
    written, said = run(capsys, [sweep], "formats=[png]", "metrics=[train/loss]")
    assert "train/loss is not finite in 2 rows, first in round 1: a gap" in said
    assert len(written) == 3


def test_the_yaml_names_commands_that_compose() -> None:
    head = [line for line in (ROOT / "configs/plot.yaml").read_text().splitlines() if "python src/plot.py" in line]
    assert len(head) >= 3
    for line in head:
        args = line.split("python src/plot.py")[1].split()
        checked(settings(*plot.with_folders(args)))
