"""The table: numbers by hand, the best in bold, both formats."""

import csv
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console
from run_folder import config, write

from impatient.checks import ConfigError
from impatient.plots.comparison import Comparison, beginning, comparisons, remarks
from impatient.plots.runs import Run, read
from impatient.plots.table import Table, as_csv, cell, in_words, markdown, on_terminal, table


def run(folder: Path, cfg: dict[str, Any], loss: list[Any], acc: list[Any] | None) -> Run:
    columns = {"train/loss": loss} | ({"test/acc": acc} if acc is not None else {})
    made, _ = read(write(folder, columns, cfg))
    assert made is not None
    return made


def compared(folder: Path) -> Comparison:
    """MIFA .1 and .3, biased .5 and .5 at the end; accuracies .9 and .7, .8 and .8; at p_min .2 MIFA alone."""
    runs = [
        run(folder / "0", config("mifa", 0), [None, 1, None, 0.1], [None, 0.1, None, 0.9]),
        run(folder / "1", config("mifa", 1), [None, 1, None, 0.3], [None, 0.1, None, 0.7]),
        run(folder / "2", config("fedavg_biased", 0), [None, 0.4, None, 0.5], [None, 0.2, None, 0.8]),
        run(folder / "3", config("fedavg_biased", 1), [None, 0.4, None, 0.5], [None, 0.2, None, 0.8]),
        run(folder / "4", config("mifa", 0, availability__pmin=0.2), [None, 2, None, 0.6], [None, 0.3, None, 0.5]),
    ]
    (made,), notes = comparisons(runs)
    assert notes == []
    return made


def test_markdown_by_hand(tmp_path: Path) -> None:
    """std of .1, .3 with ddof 1 is .2/√2 = .1414. Equal accuracies .8 are both best; alone nobody is."""
    made, notes = table(compared(tmp_path))
    assert notes == []
    assert markdown(made).splitlines() == [
        "digits, after round 3: mean ± standard deviation over seeds.",
        "",
        "| p_min | rule | seeds | training loss | test accuracy |",
        "|---|---|---:|---:|---:|",
        "| 0.1 | MIFA | 2 | **0.2000 ± 0.1414** | **0.8000 ± 0.1414** |",
        "| 0.1 | biased FedAvg | 2 | 0.5000 ± 0 | **0.8000 ± 0** |",
        "| 0.2 | MIFA | 1 | 0.6000 | 0.5000 |",
    ]


def test_at_an_earlier_round(tmp_path: Path) -> None:
    made, _ = table(compared(tmp_path), at=2)
    assert list(made.numbers["train/loss mean"]) == [1, 0.4, 2]
    assert list(made.texts["training loss"]) == ["1.0000 ± 0", "**0.4000 ± 0**", "2.0000"]


def test_the_last_round_that_every_run_has(tmp_path: Path) -> None:
    runs = [
        run(tmp_path / a, config(a, rounds=len(v)), v, None) for a, v in (("mifa", [4, 3, 2]), ("fedavg_is", [5, 1]))
    ]
    made, notes = table(comparisons(runs)[0][0])
    assert list(made.numbers["train/loss mean"]) == [3, 1]
    assert notes == ["the table of digits is of round 1, the last one that every run has; the longest goes to 2"]


def test_at_a_round_nobody_reached(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"at=4: the longest run goes to round 3, so the table of digits cannot be made"
    ):
        table(compared(tmp_path), at=4)


def test_csv_keeps_every_digit(tmp_path: Path) -> None:
    made, _ = table(compared(tmp_path))
    first, *_, last = csv.DictReader(io.StringIO(as_csv(made)))
    assert (first["availability.pmin"], first["rule"], first["seeds"], first["round"]) == ("0.1", "MIFA", "2", "3")
    assert float(first["train/loss mean"]) == pytest.approx(0.2, abs=1e-15)
    assert float(first["train/loss std"]) == pytest.approx(0.02**0.5, abs=1e-15)
    assert last["train/loss std"] == ""
    assert first["test/acc seeds"] == "2"


def printed(made: Table, width: int) -> list[list[str]]:
    """The lines of each table."""
    pieces = []
    for one in on_terminal(made, width):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(one, crop=False, no_wrap=True)
        pieces.append(console.export_text().splitlines())
    return pieces


def test_on_the_terminal(tmp_path: Path) -> None:
    made, _ = table(compared(tmp_path))
    (lines,) = printed(made, 80)
    assert lines[1] == "┃ p_min ┃ rule          ┃ seeds ┃   training loss ┃   test accuracy ┃"
    assert lines[3] == "│ 0.1   │ MIFA          │     2 │ 0.2000 ± 0.1414 │ 0.8000 ± 0.1414 │"


@pytest.mark.parametrize("width", [10, 60, 80, 120, 200])
def test_no_name_and_no_number_is_ever_cut(width: int) -> None:
    """Widths from below any single number to above all of it; 32 characters is a longer name than any metric has.

    An edge of 1, then columns of 3 + 5 (p_min), 3 + 15 (client.lr = 0.1), 3 + 5 (seeds): 35; metrics 3 + 23, 3 + 17,
    3 + 14 (1 of 2 seeds), 3 + 32. In 60 no two go together, in 80 the second and third, in 120 the first three.
    """
    metrics = ["train/loss_worst_decile", "comm/server_bytes", "test/acc", "x" * 32]
    numbers = [[0.7994, 101_400.0, 0.9222, -1e-9], [0.5, 146_900.0, 0.9, 3e22]]
    stds = [0.05, 7354, float("nan"), 1e-11]
    rules = ["MIFA, client.lr = 0.5", "biased FedAvg, client.lr = 0.1"]
    frame = pd.DataFrame({"availability.pmin": 0.1, "rule": rules, "seeds": 2})
    for metric, values, std, seeds in zip(metrics, zip(*numbers, strict=True), stds, [2, 2, 1, 2], strict=True):
        frame[f"{metric} mean"], frame[f"{metric} std"], frame[f"{metric} seeds"] = values, std, seeds
    pieces = printed(Table("digits, after round 59", frame, in_words(frame, "availability.pmin", metrics)), width)
    said = "\n".join("\n".join(lines) for lines in pieces)
    for text in ["train/loss_worst_decile", "comm/server_bytes", "test accuracy", "x" * 32, "p_min", "seeds"]:
        assert text in said
    for values in numbers:
        for value, std in zip(values, stds, strict=True):
            assert cell(value, std) in said
    assert "(1 of 2 seeds)" in said
    assert "biased FedAvg," in said
    assert "client.lr = 0.1" in said
    assert "…" not in said
    assert len(pieces) == {10: 4, 60: 4, 80: 3, 120: 2, 200: 1}[width]
    if width >= 80:
        assert max(len(line) for lines in pieces for line in lines) <= width


def test_a_value_of_an_earlier_round_is_said(tmp_path: Path) -> None:
    drawn = compared(tmp_path)
    made, notes = table(drawn, at=2)
    assert notes == ["train/loss, test/acc: not evaluated in round 2; the value is of round 1"]
    made, notes = table(drawn, at=0)
    assert notes == ["train/loss, test/acc: first evaluated after round 0, so no value there; give a larger at=…"]
    assert set(made.texts["training loss"]) == {"—"}


def test_where_curves_begin_is_said(tmp_path: Path) -> None:
    assert beginning(compared(tmp_path / "late")).startswith(
        "digits: curves of train/loss, test/acc begin in round 1: the first"
    )
    runs = [run(tmp_path / "0", config("mifa"), [1, 1, 1, 1], [None, None, 1, 1]),
            run(tmp_path / "1", config("fedavg_is"), [1, 1, 1, 1], [1, 1, 1, 1])]  # fmt: skip
    (made,), _ = comparisons(runs)
    assert beginning(made).startswith("digits: curves of test/acc begin in round 0 to 2, last for MIFA: ")
    (made,), _ = comparisons(runs, ["train/loss"])
    assert beginning(made) == ""


def test_cells() -> None:
    nan = float("nan")
    assert [cell(0.25, 0.5), cell(12345.678, 1.5), cell(1e-5, nan), cell(nan, 1)] == [
        "0.2500 ± 0.5000", "1.235e+04 ± 1.5", "1e-05", "—"]  # fmt: skip


def test_metrics_without_a_direction_have_no_best(tmp_path: Path) -> None:
    runs = [read(write(tmp_path / a, {"active": [1, 2]}, config(a, rounds=2)))[0] for a in ("mifa", "fedavg_is")]
    (made,), _ = comparisons([r for r in runs if r], ["active"])
    assert not table(made)[0].texts["active"].str.contains("*", regex=False).any()


def test_columns_that_differ_between_runs_are_named(tmp_path: Path) -> None:
    runs = [
        run(tmp_path / "0", config("mifa", 0), [1, 1, 1, 1], [1, 1, 1, 1]),
        run(tmp_path / "1", config("mifa", 1), [3, 3, 3, 3], None),
        run(tmp_path / "2", config("mifa", 2), [2, 2, 2, 2], [None] * 4),
    ]
    (made,), _ = comparisons(runs)
    said = remarks(made)
    assert f"{tmp_path / '1'}: has no column test/acc; left out there" in said
    assert f"{tmp_path / '2'}: test/acc was never evaluated; left out there" in said
    t, _ = table(made)
    row = t.numbers.iloc[0]
    assert [row[f"{m} {what}"] for what in ("seeds", "mean") for m in ("train/loss", "test/acc")] == [3, 1, 2, 1]
    text = markdown(t)
    assert text.splitlines()[-1] == "| MIFA | 3 | 2.0000 ± 1.0000 | 1.0000 (1 of 3 seeds) |"


def test_gaps_lengths_and_single_seeds_are_remarked(tmp_path: Path) -> None:
    runs = [
        run(tmp_path / "0", config("mifa", 0), [1, 1, 1, 1], [1, "nan", "inf", 1]),
        run(tmp_path / "1", config("mifa", 1), [3, 3], [1, 1]),
        run(tmp_path / "2", config("fedavg_is", 0), [3, 3, 3, 3], [1, 1, 1, 1]),
    ]
    (made,), _ = comparisons(runs)
    said = remarks(made)
    assert said[0] == "digits: one seed only, so no band: FedAvg-IS"
    assert said[1].startswith("MIFA: runs of 2 to 4 rounds, drawn as far as all go: to round 1, where")
    assert said[2] == f"{tmp_path / '0'}: test/acc is not finite in 2 rows, first in round 1: a gap"
    assert len(said) == 3


def test_metrics_that_nobody_has(tmp_path: Path) -> None:
    runs = [run(tmp_path / "0", config(), [1, 1, 1, 1], None)]
    with pytest.raises(ConfigError, match="trian/loss: no run has this column; did you mean train/loss"):
        comparisons(runs, ["trian/loss"])
    (made,), notes = comparisons(runs, ["trian/loss", "train/loss"])
    assert made.metrics == ["train/loss"]
    assert len(notes) == 1
    with pytest.raises(ConfigError, match="name at least one"):
        comparisons(runs, [])


def test_a_task_without_classes_shows_its_objective(tmp_path: Path) -> None:
    made, _ = read(write(tmp_path / "q", {"train/objective": [1.0] * 4, "train/loss": [1.0] * 4}))
    assert made is not None
    assert comparisons([made])[0][0].metrics == ["train/objective"]


def test_data_sets_are_kept_apart_and_said(tmp_path: Path) -> None:
    runs = [run(tmp_path / d, config(choices__data=d), [1] * 4, [1] * 4) for d in ("mnist", "digits")]
    made, notes = comparisons(runs)
    assert [s.data for s in made] == ["mnist", "digits"]
    assert notes == ["several data sets, each drawn by itself: mnist, digits"]


def test_a_panel_key_that_no_config_has(tmp_path: Path) -> None:
    (made,), notes = comparisons([run(tmp_path / "0", config(), [1] * 4, None)], panels="availability.pmi")
    assert made.panel is None
    assert "panels=availability.pmi" in notes[0]
