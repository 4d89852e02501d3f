"""Around Hydra's main: what it answers with a traceback is one message here. Shared by the entry points."""

import io
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra._internal.utils import get_args_parser
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # else a name in a table could end the run on an old terminal
            stream.reconfigure(errors="replace")
    asked = _flags_first()
    if os.environ.get("HYDRA_FULL_ERROR") == "1":
        main()
        return
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands its errors over instead of printing them

    def everything() -> list[str]:
        if asked.config_dir or asked.config_name or asked.config_path:  # configs of one's own
            return []
        try:
            return all_faults(asked.overrides, Path(sys.argv[0]).stem, asked.multirun, judge)
        except yaml.YAMLError as error:
            return [_one_line(error)]

    try:
        if faults := group_faults(asked.overrides):
            raise ConfigError(*(everything() or faults))
        main()
        print(end="", flush=True)  # here, where a closed pipe is no surprise
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
    except yaml.YAMLError as error:
        show_faults(ConfigError(_one_line(error)))
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


def _flags_first() -> Namespace:
    """What sys.argv asks for, and sys.argv with its overrides in one piece: Hydra would refuse `train.py a=1 -m b=2`.

    Exit status 2 for flags that exclude each other.
    """
    parser = get_args_parser()
    asked = parser.parse_intermixed_args(sys.argv[1:])
    if sum(map(bool, (asked.run, asked.multirun, asked.cfg, asked.info, asked.shell_completion))) > 1:
        parser.error("of --run, --multirun, --cfg, --info and --shell-completion give one")
    if asked.resolve and not (asked.cfg or asked.help):
        parser.error("--resolve belongs to --cfg job")
    if asked.experimental_rerun:
        parser.error("--experimental-rerun reads a pickle, which can run anything; give the overrides again")
    flags = sys.argv[1:]
    for override in asked.overrides:
        flags.remove(override)
    sys.argv = [sys.argv[0], *flags, *asked.overrides]
    return asked


def _one_line(error: yaml.YAMLError) -> str:
    """Which file cannot be read, where, and why."""
    mark = getattr(error, "problem_mark", None)
    where = f"{mark.name}, line {mark.line + 1}" if mark else "a config"
    return f"{where}: is no YAML ({getattr(error, 'problem', None) or error}); mend it"


def show_faults(error: ConfigError) -> None:
    """Every fault on a line of its own, on stderr."""
    count = len(error.faults)
    print(f"{count} fault{'s' * (count != 1)} in the configuration:", *error.faults, sep="\n  ", file=sys.stderr)
