"""What is said of a rule: the truth about each law, every error once, and no line cut short."""

import re
from pathlib import Path

import pytest
from broken_api import AsksNobody, BareAssert, CollectRaises, ListForPair, NeverMoves, NoSums, SendsNaN, TiresLate
from broken_rules import AsksTheAbsent, DividesByNobody

from impatient.aggregators.fedavg_all import FedAvgAll
from impatient.contract.failing import Raised
from impatient.contract.laws import LAWS
from impatient.contract.trial import Trial
from impatient.contract.verdict import Report, judge
from impatient.tables import show_laws

RULES = str(Path(__file__).with_name("broken_api.py"))


def why(report: Report, law: str) -> tuple[str, str]:
    (verdict,) = (one for one in report.verdicts if one.law == law)
    return verdict.outcome, verdict.why


@pytest.mark.parametrize(("rule", "says"), [(CollectRaises, "collect"), (BareAssert, "step")])
def test_an_error_is_said_once(rule, says: str) -> None:
    report = judge(Trial(rule))
    (line,) = report.raised
    assert line.startswith(f"{says} raises ")
    assert re.search(rf"at {re.escape(RULES)}:\d+$", line)
    assert [(v.outcome, v.why) for v in report.verdicts] == [("not tried", f"{says} raises")] * len(LAWS)


def test_the_line_is_the_rules_own() -> None:
    (line,) = judge(Trial(CollectRaises)).raised
    number = int(line.rpartition(":")[2])
    assert "torch.ones(1000)" in Path(RULES).read_text().splitlines()[number - 1]
    assert "RuntimeError: " in line


def test_a_bare_assert_has_no_message() -> None:
    (line,) = judge(Trial(BareAssert)).raised
    assert line.startswith("step raises AssertionError, at ")


def test_an_error_in_some_laws_leaves_the_others() -> None:
    report = judge(Trial(TiresLate))
    assert len(report.raised) == 1
    assert "step raises KeyError: 'tired'" in report.raised[0]
    assert why(report, "api")[0] == why(report, "sum")[0] == why(report, "traffic")[0] == "holds"
    assert why(report, "world") == ("not tried", "step raises")
    assert not report.named("broken")


def test_what_comes_first_is_said_first() -> None:
    for rule in (ListForPair, SendsNaN):
        report = judge(Trial(rule))
        assert report.named("broken") == ["api"]
        assert {v.why for v in report.verdicts[1:]} == {"api is broken, which comes first"}


def test_a_rule_that_stops_a_run_is_broken_in_one_law_only() -> None:
    report = judge(Trial(AsksTheAbsent))
    assert report.named("broken") == ["honest"]
    assert why(report, "world") == ("not tried", "select names a client that is not there")
    report = judge(Trial(DividesByNobody))
    assert report.named("broken") == ["empty"]


def test_nothing_holds_that_could_not_have_failed() -> None:
    memoryless = judge(Trial(FedAvgAll))
    assert memoryless.named("not tried") == ["local", "stored"]
    assert not memoryless.named("broken")
    assert judge(Trial(NeverMoves)).named("not tried") == ["local", "stored", "resume", "world"]
    assert judge(Trial(NoSums)).named("not tried") == ["sum", "local", "stored", "resume", "world"]
    nobody = judge(Trial(AsksNobody)).named("not tried")
    assert nobody == ["sum", "local", "stored", "resume", "world", "honest", "honest when one fails"]


def test_an_error_of_no_rule_has_no_method() -> None:
    with pytest.raises(ValueError, match="ours") as caught:
        raise ValueError("ours")
    assert Raised.of(caught.value) is None


class CannotCheck(FedAvgAll):
    def check(self, num_clients, client):
        raise RuntimeError("[a] message\nof two lines")


def test_a_rule_that_cannot_check_itself() -> None:
    (line,) = judge(Trial(CannotCheck)).raised
    assert line.startswith(f"check raises RuntimeError: [a] message, at {__file__}:")


@pytest.mark.parametrize("columns", ["20", "60", "80"])
def test_no_reason_is_cut(columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    report = judge(Trial(CollectRaises))
    show_laws("a.rule.with.a.long.name.that.needs.more.than.twenty.columns.Rule", report)
    lines = capsys.readouterr().out.splitlines()
    assert report.raised[0] in lines
    assert f"{', '.join(LAWS)}: not tried: collect raises" in lines
    assert not any("…" in line for line in lines)
    table = lines[: lines.index(report.raised[0])]
    assert max(map(len, table)) <= int(columns)


# The command ---------------------------------------------------------------------------------------------------------

MINE = """
import torch
from impatient.aggregators.fedavg_all import FedAvgAll
class Mine(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        return {"update": report.update.mean(0).double()}, {}
"""


def test_check_py_names_the_broken_laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from commands import python

    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    options = ["++algo._target_=mine.Mine", "~algo.init", "~algo.normalise_by_lr", "num_clients=6"]
    output = python("check.py", *options, code=1)
    assert "Traceback" not in output
    assert "laws broken: sum" in output


@pytest.mark.slow
def test_check_py_on_rules_that_ship() -> None:
    from commands import python

    assert "no law is broken, 12 of 12 hold" in python("check.py", "algo=mifa", "num_clients=6")
    assert "no memory" in python("check.py", "algo=fedavg_biased", "num_clients=6")
    output = python("check.py", "algo=fedavg_sampling", "num_clients=6", code=1)
    assert "algo.cohort_size=50: more than there are" in output
    assert "Traceback" not in output
