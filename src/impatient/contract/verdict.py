"""What the laws say of one plug-in: a verdict on each, and every error once."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from impatient.contract.failing import BrokenError, Raised, UnplayableError, one_line
from impatient.contract.laws import LAWS

Law = Callable[[Any], str | None]


@dataclass(frozen=True)
class Verdict:
    """law: its name; says: its words; outcome: holds, broken or not tried; why: empty where it holds."""

    law: str
    says: str
    outcome: str
    why: str = ""


@dataclass(frozen=True)
class Report:
    """All verdicts, in the order of the laws, and what the plug-in raised meanwhile, a line for each place."""

    verdicts: list[Verdict]
    raised: list[str]

    def named(self, outcome: str) -> list[str]:
        """The laws of one outcome."""
        return [verdict.law for verdict in self.verdicts if verdict.outcome == outcome]


def judge(trial: Any, laws: Mapping[str, Law] = LAWS) -> Report:
    """Try every law; where the first does not hold, no other. Raises nothing that the plug-in raises.

    A rule: judge(Trial(make, n)). An availability process: judge(ProcessTrial(make, n, num_classes), PROCESS_LAWS).
    """
    verdicts: list[Verdict] = []
    raised: dict[tuple[str, str], str] = {}
    for name, law in laws.items():
        says = (law.__doc__ or "").partition(": ")[2].rstrip(".")
        first = verdicts[0] if verdicts else None
        if first and first.outcome != "holds":
            why = first.why if first.outcome == "not tried" else f"{first.law} is broken, which comes first"
            verdicts.append(Verdict(name, says, "not tried", why))
            continue
        outcome, why = _try(law, trial, raised)
        verdicts.append(Verdict(name, says, outcome, why))
    return Report(verdicts, list(raised.values()))


def _try(law: Law, trial: Any, raised: dict[tuple[str, str], str]) -> tuple[str, str]:
    """Outcome and reason; an error of the plug-in goes to `raised`, under its method and place."""
    try:
        reason = law(trial)
    except BrokenError as error:
        return "broken", str(error)
    except UnplayableError as error:
        return "not tried", str(error)
    except Exception as error:  # a plug-in may raise anything
        if found := Raised.of(error):
            raised.setdefault((found.method, found.where), str(found))
            return "not tried", f"{found.method} raises"
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "broken", f"{one_line(error)}, at {where.filename}:{where.lineno}"
    return ("not tried", reason) if reason else ("holds", "")
