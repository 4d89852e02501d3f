"""Does a rule keep the laws of the plug-in API? Each law by name, with the reason where it is broken.

python src/check.py algo=my_rule
"""

import logging
import sys
from functools import partial
from typing import Any

import hydra
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table
from rich.text import Text

import composed
import door
import faults as faults_of
from faults import Config
from impatient.aggregators.base import Aggregator
from impatient.checks import ConfigError, check, integer
from impatient.contract.trial import Trial
from impatient.contract.verdict import Report, judge
from instances import make, of_kind


def make_rule(node: Any) -> Aggregator:
    """A fresh rule. Raises ConfigError where its config does not make one."""
    faults = faults_of.node_faults("algo", node, Aggregator)
    made = None if faults else of_kind("algo", make("algo", node, faults), node, faults)
    if made is None:
        raise ConfigError(*faults)
    return made


def faults_in(cfg: Config) -> list[str]:
    """What is wrong with the settings."""
    faults = [fault for fault in [integer("num_clients", cfg["num_clients"], 2, 1000)] if fault]
    try:
        make_rule(cfg.get("algo"))
    except ConfigError as error:
        faults += error.faults
    return faults


def own_faults(trial: Trial) -> list[str]:
    """What the rule says against these clients; nothing where it cannot say it: then the law `api` tells."""
    try:
        return [fault for fault in trial.make().check(trial.n, trial.client) if isinstance(fault, str)]
    except Exception:  # a rule may raise anything
        return []


def show(title: str, report: Report) -> None:
    """A table of the laws, and below it, in lines that nothing cuts, every reason."""
    table = Table(title=Text(title, overflow="fold"), title_justify="left")
    for column in ("law", "", "says"):
        table.add_column(column, overflow="fold")
    for verdict in report.verdicts:
        outcome = verdict.outcome.upper() if verdict.outcome == "broken" else verdict.outcome
        table.add_row(verdict.law, outcome, Text(verdict.says))
    Console().print(table)
    for line in report.raised:
        print(line)
    reasons: dict[tuple[str, str], list[str]] = {}
    for verdict in report.verdicts:
        if verdict.outcome != "holds":
            reasons.setdefault((verdict.outcome, verdict.why), []).append(verdict.law)
    for (outcome, why), names in reasons.items():
        print(f"{', '.join(names)}: {outcome}: {why}")


@hydra.main(version_base="1.3", config_path="../configs", config_name="check")
def main(cfg: DictConfig) -> None:
    """Try all laws; exit status 1 where one is broken, or where the rule raises."""
    try:
        plain = composed.plain(cfg)
        check(*faults_in(plain))
        trial = Trial(partial(make_rule, plain.get("algo")), plain["num_clients"])
        check(*own_faults(trial))
    except ConfigError as error:
        door.show_faults(error)
        sys.exit(1)
    logging.getLogger("impatient.round").setLevel(logging.ERROR)  # one law lets clients fail
    report = judge(trial)
    show(f"{plain['algo']['_target_']}, {trial.n} clients", report)
    broken, count = report.named("broken"), len(report.verdicts)
    if broken:
        print(f"{len(broken)} of {count} laws broken: {', '.join(broken)}")
    elif not report.raised:
        print(f"no law is broken, {len(report.named('holds'))} of {count} hold")
    sys.exit(bool(broken or report.raised))


if __name__ == "__main__":
    door.enter(main, faults_in)
