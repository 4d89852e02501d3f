"""Around Hydra's main: what it answers with a traceback is one message here. Shared by the entry points."""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from composed import Judge, all_faults
from impatient.checks import ConfigError
from overrides import group_faults


class JobError(RuntimeError):
    """A job of a sweep ended with a message; the others went on."""


def enter(main: Callable[[], Any], judge: Judge | None = None) -> None:
    """Run Hydra's `main` on sys.argv. Exit status 1 and one message for whatever is the user's or the machine's fault.

    judge: what is wrong with the values of a config; it is asked where another override keeps `main` from being run.
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
    elsewhere = any(arg.startswith(("-cd", "-cp", "-cn", "--config")) for arg in sys.argv)

    def everything() -> list[str]:
        return [] if elsewhere else all_faults(overrides, Path(sys.argv[0]).stem, bool(first), judge)

    try:
        if faults := group_faults(overrides):
            raise ConfigError(*(everything() or faults))
        main()
        sys.stdout.flush()  # here, where a closed pipe is no surprise
    except ConfigError as error:
        show_faults(error)
    except JobError as error:
        print(error, file=sys.stderr)
    except (HydraException, OmegaConfBaseException) as error:
        if faults := everything():
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
        why = "is, or lies in, a file" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        at = error.filename or error
        show_faults(ConfigError(f"the run's folder cannot be made ({at}: {why}); set hydra.run.dir to another one"))
    else:
        return
    sys.exit(1)


def show_faults(error: ConfigError) -> None:
    """Every fault on a line of its own, on stderr."""
    count = len(error.faults)
    print(f"{count} fault{'s' * (count != 1)} in the configuration:", *error.faults, sep="\n  ", file=sys.stderr)
