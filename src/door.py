"""Around Hydra's main: what it answers with a traceback is one message here. Shared by the entry points."""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from impatient.checks import ConfigError, check
from overrides import composition_faults, group_faults


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
    overrides = [arg for arg in sys.argv[1:] if not arg.startswith("-")]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands its errors over instead of printing them
    try:
        check(*group_faults(overrides))
        main()
        sys.stdout.flush()  # here, where a closed pipe is no surprise
    except ConfigError as error:
        show_faults(error)
    except JobError as error:
        print(f"a job of the sweep failed, perhaps others too; each has its own train.log\n{error}", file=sys.stderr)
    except (HydraException, OmegaConfBaseException) as error:
        elsewhere = any(arg.startswith(("-cd", "-cp", "-cn", "--config")) for arg in sys.argv)
        faults = [] if elsewhere else composition_faults(overrides, Path(sys.argv[0]).stem)
        if faults:
            show_faults(ConfigError(*faults))
        else:
            cause = f"\n{error.__cause__}" if isinstance(error.__cause__, OmegaConfBaseException) else ""
            print(f"{error}{cause}", file=sys.stderr)
    except KeyboardInterrupt:  # a sweep's: a run deals with its own
        print("stopped; each run that had begun goes on with ckpt_path=last, in the same folder", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has gone, as in `… --help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # a run deals with its own: this is Hydra making the run's folder
        why = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        show_faults(ConfigError(f"the run's folder cannot be written ({why}); set hydra.run.dir to another one"))
    else:
        return
    sys.exit(1)


def plain(cfg: DictConfig) -> dict[str, Any]:
    """Dicts and lists, all interpolations resolved, without the groups that only set others' values.

    Raises ConfigError where one cannot be resolved, or a value is missing.
    """
    try:
        resolved = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise ConfigError(f"{error.full_key}: is missing; give {error.full_key}=…") from error
    except OmegaConfBaseException as error:
        raise ConfigError(f"{error.full_key}: {str(error.msg or error).splitlines()[0]}; give a value") from error
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items() if key not in ("experiment", "sweep", "debug")}


def show_faults(error: ConfigError) -> None:
    """Every fault on a line of its own, on stderr."""
    count = len(error.faults)
    print(f"{count} fault{'s' * (count != 1)} in the configuration:", *error.faults, sep="\n  ", file=sys.stderr)
