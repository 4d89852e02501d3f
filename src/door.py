"""Around Hydra's main: what it answers with a traceback is one message here. Shared by the entry points."""

import logging
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import CompactHydraException
from omegaconf.errors import OmegaConfBaseException

from impatient.checks import ConfigError

CONFIGS = Path(__file__).resolve().parents[1] / "configs"


class JobError(RuntimeError):
    """A job of a sweep ended with a message; the others went on."""


def enter(main: Callable[[], Any]) -> None:
    """Run Hydra's `main` on sys.argv. Exit status 1 and one message for whatever is the user's or the machine's fault.

    HYDRA_FULL_ERROR=1 shows tracebacks instead.
    """
    logging.raiseExceptions = False  # on a full disk, no traceback for every line that train.log cannot take
    # argparse takes overrides in one piece only: `train.py a=1 -m b=2` would be refused.
    first = [arg for arg in sys.argv[1:] if arg in ("-m", "--multirun")]
    sys.argv = [sys.argv[0], *first, *(arg for arg in sys.argv[1:] if arg not in first)]
    if os.environ.get("HYDRA_FULL_ERROR") == "1":
        main()
        return
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands its errors over instead of printing them
    try:
        faults = group_faults([arg for arg in sys.argv[1:] if not arg.startswith("-")])
        if faults:
            raise ConfigError(*faults)
        main()
    except ConfigError as error:
        show_faults(error)
    except JobError as error:
        print(f"a job of the sweep failed, perhaps others too; each has its own train.log\n{error}", file=sys.stderr)
    except (CompactHydraException, OmegaConfBaseException) as error:
        cause = f"\n{error.__cause__}" if isinstance(error.__cause__, OmegaConfBaseException) else ""
        print(f"{error}{cause}", file=sys.stderr)
    except OSError as error:  # a run deals with its own: this is Hydra making the run's folder
        why = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        show_faults(ConfigError(f"the run's folder cannot be written ({why}); set hydra.run.dir to another one"))
    else:
        return
    sys.exit(1)


def show_faults(error: ConfigError) -> None:
    """Every fault on a line of its own, on stderr."""
    count = len(error.faults)
    print(f"{count} fault{'s' * (count != 1)} in the configuration:", *error.faults, sep="\n  ", file=sys.stderr)


def group_faults(overrides: list[str]) -> list[str]:
    """Config groups that are given no choice's name, at which Hydra itself stops with a traceback."""
    faults = []
    for override in overrides:
        try:
            (parsed,) = OverridesParser.create().parse_overrides([override])
        except CompactHydraException:  # Hydra will say so
            continue
        name, value = parsed.key_or_group, parsed.value()
        is_group = "/" in name or (name and (CONFIGS / name).is_dir())
        if not is_group or parsed.is_sweep_override() or parsed.is_force_add() or isinstance(value, dict):
            continue
        listed = value if isinstance(value, list) and not parsed.is_delete() else [value]
        if not all(_names(item) or (item is None and parsed.is_delete()) for item in listed):
            said = override.partition("=")[2]
            choices = ", ".join(sorted(path.stem for path in (CONFIGS / name).glob("*.yaml")))
            there_are = f"there are {choices}; " if choices else ""
            faults.append(f"{name}={said}: names no choice; {there_are}leave it out for the default")
    return faults


def _names(item: Any) -> bool:
    """Whether this can be a choice's name: text, in which an interpolation names something."""
    return isinstance(item, str) and "${" not in re.sub(r"\$\{[\w/@.:]*\w[\w/@.:]*\}", "", item)
