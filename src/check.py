"""Does a rule keep the laws of the plug-in API? Each law by name, with the reason where it is broken.

python src/check.py algo=my_rule
"""

import logging
import sys
import traceback
from functools import partial
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from rich.table import Table

import build
import door
import faults as faults_of
from impatient.aggregators.base import Aggregator
from impatient.checks import ConfigError, check, integer
from impatient.contract.laws import LAWS
from impatient.contract.trial import Trial


def make_rule(node: Any) -> Aggregator:
    """A fresh rule. Raises ConfigError where its config does not make one."""
    faults = faults_of.node_faults("algo", node)
    made = None if faults else build.of_kind("algo", build.make("algo", node, faults), node, faults)
    if made is None:
        raise ConfigError(*faults)
    return made


def try_law(law: Any, trial: Trial) -> tuple[str, str]:
    """The verdict, and why."""
    try:
        reason = law(trial)
    except AssertionError as error:
        return "broken", str(error).splitlines()[0]
    except Exception as error:  # a rule may raise anything
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "broken", f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
    return ("not tried", reason) if reason else ("holds", law.__doc__.split(": ", 1)[1].rstrip("."))


@hydra.main(version_base="1.3", config_path="../configs", config_name="check")
def main(cfg: DictConfig) -> None:
    """Try all laws; exit status 1 where one is broken."""
    try:
        plain = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
        assert isinstance(plain, dict)
        check(integer("num_clients", plain["num_clients"], 2, 1000))
        trial = Trial(partial(make_rule, plain.get("algo")), plain["num_clients"])
        check(*trial.make().check(trial.n))
    except OmegaConfBaseException as error:
        door.show_faults(ConfigError(f"config: {error}"))
        sys.exit(1)
    except ConfigError as error:
        door.show_faults(error)
        sys.exit(1)
    logging.getLogger("impatient.round").setLevel(logging.ERROR)  # one law lets clients fail
    table = Table(title=f"{plain['algo']['_target_']}, {trial.n} clients", title_justify="left")
    for column in ("law", "", "why"):
        table.add_column(column)
    verdicts = {name: try_law(law, trial) for name, law in LAWS.items()}
    for name, (verdict, why) in verdicts.items():
        table.add_row(name, verdict.upper() if verdict == "broken" else verdict, why)
    Console().print(table)
    broken = [name for name, (verdict, _) in verdicts.items() if verdict == "broken"]
    print(f"{len(broken)} of {len(LAWS)} laws broken: {', '.join(broken)}" if broken else "no law is broken")
    sys.exit(len(broken) > 0)


if __name__ == "__main__":
    door.enter(main)
