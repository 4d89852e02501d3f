"""The command line: flags and folders as words, and one message with an exit status for every fault."""

import contextlib
import difflib
import io
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf.errors import OmegaConfBaseException

from impatient.checks import ConfigError

FULL_ERROR = "HYDRA_FULL_ERROR"  # 1: Hydra raises errors instead of printing and exiting
VALUED = ("--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd")
INFO = ("--info", "-i")  # whose value may be left out


class JobError(RuntimeError):
    """A job of a sweep failed, in one message; the others went on."""


def enter(main: Callable[[], Any], words: list[str]) -> None:
    """Run Hydra's `main` on a command line. Exit status 1 and one message for a user's or the machine's fault.

    HYDRA_FULL_ERROR=1 in the environment shows tracebacks instead.
    """
    logging.raiseExceptions = False  # on a full disk, no traceback for every line that train.log cannot take
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name in a table must not end the run on an ASCII terminal
            stream.reconfigure(errors="replace")
    sys.argv[1:] = flags_first(words)
    if "--experimental-rerun" in [word.partition("=")[0] for word in sys.argv]:
        sys.exit("--experimental-rerun reads a pickle, which can run anything; give the overrides again")
    if os.environ.get(FULL_ERROR) == "1":
        main()
        return
    os.environ[FULL_ERROR] = "1"
    try:
        main()
        print(end="", flush=True)  # here, where a closed pipe is expected
    except JobError as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:  # of a sweep; a run handles its own
        print("stopped; each run that had begun goes on with ckpt_path=last, in the same folder", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader has gone, as in `… --help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:  # Hydra's, before a run begins; what fails in a task ends inside `task`
        show_faults(error if isinstance(error, ConfigError) else ConfigError(hydra_fault(error)))
    else:
        return
    sys.exit(1)


@contextlib.contextmanager
def task() -> Iterator[HydraConf]:
    """Around what Hydra runs, with its own node. A ConfigError is one message, any other error its traceback; status 1.

    In a multirun, where an exit would end the other jobs as well, raises JobError.
    """
    asked = os.environ.pop(FULL_ERROR, None)  # processes that a run starts must not inherit it
    job = HydraConfig.get()
    try:
        yield job
    except JobError:
        raise
    except Exception as error:
        if job.mode == RunMode.MULTIRUN:
            raise JobError(str(error)) from error
        if isinstance(error, ConfigError):
            show_faults(error)
        else:
            traceback.print_exc()
        sys.exit(1)
    finally:
        if asked is not None:
            os.environ[FULL_ERROR] = asked


def flags_first(words: list[str]) -> list[str]:
    """The same words, flags before overrides: Hydra refuses `train.py a=1 -m b=2`."""
    before = ["", *words]
    flags = [
        word.startswith("-") or last in VALUED or (last in INFO and "=" not in word)
        for last, word in zip(before, words, strict=False)
    ]
    pairs = list(zip(words, flags, strict=True))
    return [*(word for word, flag in pairs if flag), *(word for word, flag in pairs if not flag)]


def split_paths(words: list[str]) -> tuple[list[str], list[str]]:
    """Paths (no flag, and no `=` in it unless there is such a file or folder), and the other words."""
    paths = [word for word in words if not word.startswith("-") and ("=" not in word or Path(word).exists())]
    return paths, [word for word in words if word not in paths]


def quoted(text: str) -> str:
    """In Hydra's single quotes: backslashes count only before a quote or the end, and are doubled there."""
    text = re.sub(r"(\\+)(?='|\Z)", r"\1\1", text)
    return "'" + text.replace("'", r"\'").replace("${", r"\${") + "'"


def hydra_fault(error: Exception) -> str:
    """Why Hydra could compose no config or make no folder: its own words in one line, and the nearest name there is."""
    if isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        where = f"{mark.name}, line {mark.line + 1}" if mark else "a config"
        return f"{where}: is no YAML ({getattr(error, 'problem', None) or error}); mend it"
    if isinstance(error, OSError) and not isinstance(error, HydraException):
        why = "is, or lies in, a file" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        return f"the run's folder cannot be made ({error.filename or error}: {why}); set hydra.run.dir to another one"
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else ""
    parts = [str(error).partition("Config search path")[0], str(cause).partition("\n    full_key")[0]]
    text = " ".join(" ".join(parts).partition("See https://")[0].split())
    typed = [word for word in sys.argv[1:] if not word.startswith("-")]
    named = any(word.partition("=")[0].lstrip("+~") in text for word in typed)
    return text + _nearest(error) + ("" if named or not typed else f" (of: {' '.join(typed)})")


def _nearest(error: Exception) -> str:
    name, names, head = "", [], ""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        head, _, name = error.missing_cfg_file.rpartition("/")
        names, head = [str(option) for option in error.options or ()], f"{head}="
    elif isinstance(error, ConfigCompositionException) and isinstance(error.__cause__, OmegaConfBaseException):
        name, parent = str(error.__cause__.key), error.__cause__.parent_node
        names = [str(key) for key in parent] if hasattr(parent, "keys") else []
    near = difflib.get_close_matches(name, [other for other in names if other != name], 1)
    return f"; did you mean {head}{near[0]}?" if near else ""


def show_faults(error: ConfigError) -> None:
    """Every fault on a line of its own, on stderr."""
    count = len(error.faults)
    print(f"{count} fault{'s' * (count != 1)} in the configuration:", *error.faults, sep="\n  ", file=sys.stderr)
