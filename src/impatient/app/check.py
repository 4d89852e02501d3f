"""The laws of a plug-in API, tried on a rule or on an availability process that a config describes."""

import contextlib
import logging
import sys
from functools import partial

from omegaconf import DictConfig

from impatient import tables
from impatient.aggregators.base import Aggregator
from impatient.app import build, cli, config
from impatient.checks import ConfigError, integer
from impatient.contract.trial import Trial
from impatient.contract.verdict import judge


def check(cfg: DictConfig) -> None:
    """Try all laws and print what they say; exit status 1 where one is broken, or where the rule raises."""
    with cli.task():
        plain = config.plain(cfg)
        n, node = plain["num_clients"], plain.get("algo") or {}
        faults = [fault for fault in [integer("num_clients", n, 2, 1000)] if fault]
        if "_target_" not in node:
            raise ConfigError(*faults, "algo: has no _target_; give algo=<choice>")
        rule = build.make("algo", node, Aggregator, faults)
        trial = Trial(partial(build.make, "algo", node, Aggregator, []), n)
        with contextlib.suppress(Exception):  # a rule that cannot say it: then the law `api` tells
            faults += [fault for fault in rule.check(n, trial.client) if isinstance(fault, str)] if not faults else []
        if faults:
            raise ConfigError(*faults)
        logging.getLogger("impatient.round").setLevel(logging.ERROR)  # one law lets clients fail
        report = judge(trial)
    tables.show_laws(f"{node['_target_']}, {n} clients", report)
    sys.exit(bool(report.named("broken") or report.raised))
