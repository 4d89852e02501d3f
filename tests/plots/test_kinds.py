"""What the figures show, read back from their axes; and the quantities behind them by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from run_folder import config, write

from impatient import records
from impatient.checks import ConfigError
from impatient.plots import classes, clients, curves, participation, partition, staleness, style
from impatient.plots.comparison import Comparison, comparisons
from impatient.plots.groups import STATISTICS
from impatient.plots.runs import Run, read

T, N = 4, 4


def run(folder: Path, cfg: dict[str, Any] | None = None, record: bool = True, **columns: list[Any]) -> Run:
    """Four rounds, four clients; client i is there in rounds i, i + 1, …; it trains when it first comes."""
    usual = {"train/loss": [4.0, 3.0, 2.0, 1.0], "test/acc": [0.1, 0.2, 0.3, 0.4],
             "staleness/tau_mean": [0.0, 1.0, 0.5, 0.5], "staleness/tau_max": [0, 2, 1, 1]}  # fmt: skip
    write(folder, usual | {k.replace("__", "/"): v for k, v in columns.items()}, cfg)
    if record:
        labels = np.array([[2, 0, 0], [0, 3, 0], [1, 1, 0], [0, 0, 1]])
        records.write_clients(folder, labels.sum(1).tolist(), [0.1, 0.9, 0.5, 1.0], ["a", "b", "c"], labels)
        records.begin_masks(folder, 0)
        for t in range(T):
            records.append_masks(folder, t, np.arange(N) <= t, np.arange(N) == t)
    made, _ = read(folder)
    assert made is not None
    return made


def compared(*some: Run, kind: str = "curves", panels: str | None = "auto") -> Comparison:
    (made,), _ = comparisons(list(some), None, panels, STATISTICS.get(kind, ()))
    return made


def saved(figure: Figure, folder: Path) -> None:
    with style.styled():
        for path in style.save(figure, folder, "figure", ["png", "pdf"]):
            assert path.stat().st_size > 2000
    assert not list(folder.glob(".figure*"))


def test_curves_a_row_a_metric_a_column_a_panel(tmp_path: Path) -> None:
    pairs = [("mifa", 0.1), ("fedavg_is", 0.1), ("mifa", 0.2)]
    runs = [run(tmp_path / f"{a}{p}{s}", config(a, s, availability__pmin=p)) for a, p in pairs for s in (0, 1)]
    figure, notes = curves.draw(compared(*runs))
    assert notes == []
    assert len(figure.axes) == 4
    assert [ax.get_title() for ax in figure.axes] == [r"$p_{\min}$ = 0.1", r"$p_{\min}$ = 0.2", "", ""]
    assert [ax.get_ylabel() for ax in figure.axes] == ["training loss", "", "test accuracy", ""]
    assert [[str(line.get_label()) for line in ax.lines] for ax in figure.axes] == [["MIFA", "FedAvg-IS"], ["MIFA"]] * 2
    assert np.asarray(figure.axes[0].lines[0].get_ydata()).tolist() == [4, 3, 2, 1]
    assert len(figure.axes[0].collections) == 2
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["MIFA", "FedAvg-IS"]
    saved(figure, tmp_path)


def test_the_axis_begins_at_zero_and_the_line_where_it_was_evaluated(tmp_path: Path) -> None:
    """Evaluated in round 2 and 3 only. On a log axis 0 has no place."""
    made = compared(run(tmp_path / "0", train__loss=[None, None, 2, 1], test__acc=[None, None, 0.3, 0.4]))
    figure, _ = curves.draw(made)
    for ax in figure.axes:
        assert -1 < ax.get_xlim()[0] <= 0
        assert np.asarray(ax.lines[0].get_xdata()).tolist() == [2, 3]
        assert ax.get_ylim()[0] > 0  # the 0 is of x alone
    figure, _ = curves.draw(made, logx=True)
    assert figure.axes[0].get_xlim()[0] > 1


def test_each_of_few_evaluations_has_a_marker(tmp_path: Path) -> None:
    runs = [run(tmp_path / a, config(a)) for a in ("mifa", "fedavg_is")]
    figure, _ = curves.draw(compared(*runs))
    assert [line.get_markevery() for line in figure.axes[0].lines] == [None, None]


CROSSED = [("mifa", 0.1), ("mifa", 0.2), ("fedavg_is", 0.1), ("fedavg_is", 0.2)]


def test_colours_follow_the_rule_and_dashes_the_rest(tmp_path: Path) -> None:
    runs = [run(tmp_path / f"{a}{p}", config(a, availability__pmin=p)) for a, p in CROSSED]
    figure, _ = curves.draw(compared(*runs, panels=None))
    mifa1, mifa2, is1, is2 = figure.axes[0].lines
    assert mifa1.get_color() == mifa2.get_color() != is1.get_color() == is2.get_color()
    assert mifa1.get_marker() == mifa2.get_marker() != is1.get_marker() == is2.get_marker()
    assert mifa1.get_linestyle() == is1.get_linestyle() != mifa2.get_linestyle() == is2.get_linestyle()
    (legend,) = figure.legends  # columns first: MIFA above the first value
    assert [text.get_text() for text in legend.get_texts()] == [
        "MIFA", r"$p_{\min}$ = 0.1", "FedAvg-IS", r"$p_{\min}$ = 0.2"]  # fmt: skip
    rule, first, _, second = legend.get_lines()
    assert rule.get_color() == mifa1.get_color()
    assert first.get_color() == second.get_color() not in style.COLOURS
    assert [first.get_linestyle(), second.get_linestyle()] == [mifa1.get_linestyle(), mifa2.get_linestyle()]
    saved(figure, tmp_path)


def test_more_rests_than_dashes_still_leave_colours_to_the_rule(tmp_path: Path) -> None:
    """Six values of p_min: five dashes and nine markers tell 45 apart."""
    cross = [(a, p / 10) for a in ("mifa", "fedavg_is") for p in range(1, 7)]
    runs = [run(tmp_path / f"{a}{p}", config(a, availability__pmin=p)) for a, p in cross]
    figure, _ = curves.draw(compared(*runs, panels=None))
    drawn = figure.axes[0].lines
    assert [line.get_color() for line in drawn] == [style.COLOURS[0]] * 6 + [style.COLOURS[1]] * 6
    assert len({(str(line.get_linestyle()), line.get_marker()) for line in drawn}) == 6
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts() if text.get_text()]
    assert len(texts) == 8


def test_points_of_classes_follow_the_rule_and_the_rest(tmp_path: Path) -> None:
    accuracies = {"test__acc__a": [0, 0, 0, 0.1]}
    runs = [run(tmp_path / f"{a}{p}", config(a, availability__pmin=p), **accuracies) for a, p in CROSSED]
    figure, _ = classes.draw(compared(*runs, panels=None))
    mifa1, mifa2, is1, is2 = (bars.lines[0] for bars in figure.axes[0].containers)
    assert mifa1.get_color() == mifa2.get_color() != is1.get_color() == is2.get_color()
    assert mifa1.get_marker() == is1.get_marker() != mifa2.get_marker() == is2.get_marker()


def test_what_is_not_crossed_has_a_look_and_an_entry_a_label(tmp_path: Path) -> None:
    """FedAvg-IS has no init: no dashes could stand for it."""
    runs = [
        run(tmp_path / "0"),
        run(tmp_path / "1", config(algo__init="zero")),
        run(tmp_path / "2", config("fedavg_is")),
    ]
    figure, _ = curves.draw(compared(*runs))
    assert len({line.get_color() for line in figure.axes[0].lines}) == 3
    (legend,) = figure.legends
    texts = {text.get_text() for text in legend.get_texts()} - {""}
    assert texts == {"MIFA, init = wait_all", "MIFA, init = zero", "FedAvg-IS"}


def test_any_text_is_typeset() -> None:
    assert style.typeset("p_min = 1, costs $2, my_p_min_rule") == r"$p_{\min}$ = 1, costs \$2, my_p_min_rule"
    assert style.title("model._target_", "a.b.Net") == "model._target_ = Net"
    assert style.title("client.steps", None) == "client.steps = none"


def test_the_band_is_one_std_to_either_side(tmp_path: Path) -> None:
    """Losses 4 … 1 and 6 … 3: means 5 … 2, std √2 all along."""
    runs = [run(tmp_path / "0"), run(tmp_path / "1", config("mifa", 1), train__loss=[6, 5, 4, 3])]
    figure, _ = curves.draw(compared(*runs))
    (path,) = figure.axes[0].collections[0].get_paths()
    box = path.get_extents()
    np.testing.assert_allclose([box.y0, box.y1], [2 - np.sqrt(2), 5 + np.sqrt(2)])


def test_one_seed_has_a_line_and_no_band(tmp_path: Path) -> None:
    figure, _ = curves.draw(compared(run(tmp_path / "0")))
    assert [len(ax.lines) for ax in figure.axes] == [1, 1]
    assert not figure.axes[0].collections


def test_lines_differ_without_colour() -> None:
    looks = [style.line(i) for i in range(30)]
    assert len({str((look["linestyle"], look["color"])) for look in looks}) == 30
    assert len({look["linestyle"] for look in looks[:5]}) == len({look["marker"] for look in looks[:9]}) - 4 == 5


def test_log_axes_leave_accuracies_linear_and_say_what_they_hide(tmp_path: Path) -> None:
    figure, notes = curves.draw(compared(run(tmp_path / "0", train__loss=[1, 0, 2, 3])), logx=True, logy=True)
    assert [(ax.get_xscale(), ax.get_yscale()) for ax in figure.axes] == [("log", "log"), ("log", "linear")]
    assert len(notes) == 2
    assert "train/loss has values <= 0" in notes[0]
    assert "point at 0" in notes[1]
    saved(figure, tmp_path)


def test_an_axis_that_some_runs_lack(tmp_path: Path) -> None:
    both = [run(tmp_path / "0", seconds=[1, 1, 1, 1]), run(tmp_path / "1", config("fedavg_is"))]
    figure, notes = curves.draw(compared(*both), "seconds")
    assert [len(ax.lines) for ax in figure.axes] == [1, 1]
    assert notes == [f"x=seconds: {tmp_path / '1'} has no column seconds"]
    with pytest.raises(ConfigError, match="x=seconds"):
        curves.draw(compared(both[1]), "seconds")


def test_a_run_of_nans_alone(tmp_path: Path) -> None:
    nan = ["nan"] * T
    figure, notes = curves.draw(compared(run(tmp_path / "0", train__loss=nan)))
    assert notes == ["MIFA: train/loss has no finite value that all its runs share; no line"]
    assert [len(ax.lines) for ax in figure.axes] == [0, 1]
    with pytest.raises(ConfigError):
        curves.draw(compared(run(tmp_path / "1", train__loss=nan, test__acc=nan)))


def test_states_of_devices(tmp_path: Path) -> None:
    """p = .1, .9, .5, 1: the order is 3, 1, 2, 0. Device 3 comes in round 3 and trains; 0 trains in round 0."""
    made = run(tmp_path / "0")
    masks = clients.masks(made.folder, N)
    assert masks is not None
    assert participation.order(masks, clients.read(made.folder)).tolist() == [3, 1, 2, 0]
    assert participation.order(masks, None).tolist() == [0, 1, 2, 3]
    figure, notes = participation.draw(compared(made, run(tmp_path / "1", config("fedavg_is"), record=False)))
    (image,) = figure.axes[0].images
    cells = np.asarray(image.get_array())
    assert cells.tolist() == [[0, 0, 0, 2], [0, 2, 1, 1], [0, 0, 2, 1], [2, 1, 1, 1]]
    assert len(notes) == 1
    assert "FedAvg-IS: no participation.csv" in notes[0]
    saved(figure, tmp_path)


def test_tau_by_its_definition() -> None:
    rng = np.random.default_rng(0)
    available = rng.random((50, 6)) < 0.2
    expected = np.zeros((50, 6), int)
    before = np.zeros(6, int)
    for t in range(50):
        before = expected[t] = np.where(available[t], 0, before + 1)
    np.testing.assert_array_equal(staleness.tau(available), expected)


def test_shares_by_hand() -> None:
    """One device, there in rounds 1 and 3 only: tau = 1, 0, 1, 0."""
    assert staleness.shares(np.array([[0], [1], [0], [1]], bool)).tolist() == [0.5, 0.5]


def test_staleness_counts_a_seed_once_whatever_the_rule(tmp_path: Path) -> None:
    runs = [run(tmp_path / "0"), run(tmp_path / "1", config("fedavg_is")), run(tmp_path / "2", config("mifa", 1))]
    made = compared(*runs, kind="staleness", panels=None)
    assert [(g.label, len(g.runs)) for g in made.groups] == [("label_bernoulli", 2)]
    figure, notes = staleness.draw(made)
    assert notes == []
    assert len(figure.axes) == 3
    # Means so far of 0, 1, 0.5, 0.5.
    assert np.asarray(figure.axes[0].lines[0].get_ydata()).tolist() == [0, 0.5, 0.5, 0.5]
    # 10 of 16 cells are there; the others: client i waits i rounds from tau = 1 on: 3 × 1, 2 × 2, 1 × 3.
    share = np.asarray(figure.axes[2].lines[0].get_ydata())
    np.testing.assert_allclose(share, np.array([10, 3, 2, 1]) / 16)
    saved(figure, tmp_path)


def test_staleness_without_masks_or_columns(tmp_path: Path) -> None:
    figure, notes = staleness.draw(compared(run(tmp_path / "0", record=False), kind="staleness"))
    assert len(figure.axes) == 2
    assert "no distribution" in notes[0]
    bare, _ = read(write(tmp_path / "bare", {"train/loss": [1.0] * 4}))
    assert bare is not None
    with pytest.raises(ConfigError, match="no run has the columns staleness/tau_mean"):
        staleness.draw(compared(bare, kind="staleness"))


def test_availability_of_classes_by_hand(tmp_path: Path) -> None:
    """Class a: 2 samples at .1, 1 at .5: .7/3. Class b: 3 at .9, 1 at .5: .8. Class c: 1."""
    table = clients.read(run(tmp_path / "0").folder)
    assert table is not None
    np.testing.assert_allclose(classes.class_availability(table), [0.7 / 3, 0.8, 1])


def test_classes_stand_rarest_first(tmp_path: Path) -> None:
    accuracies = {"test__acc__c": [0, 0, 0, 0.3], "test__acc__b": [0, 0, 0, 0.2], "test__acc__a": [0, 0, 0, 0.1]}
    made = run(tmp_path / "0", **accuracies)
    labels = np.array([[0, 1], [1, 0]])
    figure, notes = classes.draw(compared(made))
    assert "classes stand in their own order" in notes[0]
    top, bottom = figure.axes
    assert np.asarray(top.lines[0].get_ydata()).tolist() == [0.3, 0.2, 0.1]
    records.write_clients(made.folder, [1, 1], [0.1, 0.9], ["c", "b", "a"], np.hstack([labels, [[1], [1]]]))
    figure, notes = classes.draw(compared(made))  # c lies with the device at .9, b with that at .1, a with both
    assert notes == []
    top, bottom = figure.axes
    assert [tick.get_text() for tick in bottom.get_xticklabels()] == ["b", "a", "c"]
    assert np.asarray(top.lines[0].get_ydata()).tolist() == [0.2, 0.1, 0.3]
    assert top.get_ylabel() == "test accuracy after round 3"
    saved(figure, tmp_path)
    with pytest.raises(ConfigError, match="no classes"):
        classes.draw(compared(run(tmp_path / "1")))


def test_classes_at_an_earlier_round(tmp_path: Path) -> None:
    made = compared(run(tmp_path / "0", test__acc__a=[0.1, 0.2, None, 0.3]))
    figure, notes = classes.draw(made, at=2)
    assert np.asarray(figure.axes[0].lines[0].get_ydata()).tolist() == [0.2]
    assert figure.axes[0].get_ylabel() == "test accuracy after round 2"
    assert "test/acc/<class>: not evaluated in round 2; the value is of round 1" in notes
    with pytest.raises(ConfigError, match=r"at=4: the longest run goes to round 3"):
        classes.draw(made, at=4)


def test_equal_counts_are_said_in_words(tmp_path: Path) -> None:
    """Two samples of each of two classes: neither bars nor a bar of colours has anything to say."""
    made = run(tmp_path / "0")
    labels = np.array([[2, 2, 0], [0, 2, 2], [2, 0, 2], [2, 2, 0]])
    records.write_clients(made.folder, [4] * 4, None, ["a", "b", "c"], labels)
    figure, _ = partition.draw(compared(made, kind="partition", panels=None))
    (ax,) = figure.axes
    assert ax.get_title() == "two_class, seed 0\n4 samples a device, 2 of each class it holds"
    saved(figure, tmp_path)
    labels[3] = [2, 0, 0]
    records.write_clients(made.folder, [4, 4, 4, 2], None, ["a", "b", "c"], labels)
    figure, _ = partition.draw(compared(made, kind="partition", panels=None))
    assert [ax.get_title() for ax in figure.axes] == ["two_class, seed 0\n2 samples of each class held", ""]


def test_partition_with_classes_and_without(tmp_path: Path) -> None:
    made = run(tmp_path / "0")
    figure, notes = partition.draw(compared(made, kind="partition", panels=None))
    assert notes == []
    heights = [getattr(bar, "get_height", float)() for bar in figure.axes[0].patches]
    assert heights == [2, 2, 3, 1]  # clients 0 and 2 hold most of class a, then 1 of b, 3 of c
    (image,) = figure.axes[1].images
    assert np.ma.filled(np.ma.asarray(image.get_array()), 0).tolist() == [[2, 1, 0, 0], [0, 1, 3, 0], [0, 0, 0, 1]]
    saved(figure, tmp_path)
    (made.folder / "clients.csv").unlink()
    with pytest.raises(ConfigError, match=r"neither clients\.csv nor partition\.json"):
        partition.draw(compared(made, kind="partition"))
    (made.folder / "partition.json").write_text("[[0], [1, 2]]")
    figure, notes = partition.draw(compared(made, kind="partition"))
    assert len(figure.axes) == 1
    assert "so no classes" in notes[0]
