"""How a run ends: one message, an exit status that tells, its traceback where it belongs, and W&B told as well."""

import contextlib
import logging
import sys
import traceback
from collections.abc import Iterator
from multiprocessing import parent_process
from pathlib import Path

import torch
import wandb
from lightning.pytorch.utilities.exceptions import SIGTERMException

import door
import rundir
import sweep
from impatient.checks import ConfigError
from impatient.lit.checkpoint import StoppedError
from impatient.round import BadUpdateError

log = logging.getLogger("impatient")


@contextlib.contextmanager
def told(folder: Path, job: int | None, rule: list[str]) -> Iterator[None]:
    """Around a run. Raises SystemExit, in a sweep JobError, and what nobody can explain as it was.

    job: its number in a sweep. rule: the overrides that choose and set its rule.
    """
    failed = True
    try:
        yield
        failed = False
    except (ConfigError, BadUpdateError, OSError) as error:  # the user's or the machine's: no traceback helps
        if job is not None:
            raise _failed(folder, job, _said(error)) from error
        if isinstance(error, ConfigError):
            door.show_faults(error)
            if rundir.is_new():
                rundir.forget(folder)
        else:
            with contextlib.suppress(OSError):  # a full disk takes no train.log either; the terminal comes first
                log.error("%s", _said(error))
        sys.exit(1)
    except SIGTERMException:
        sys.exit(143)
    except (StoppedError, KeyboardInterrupt):
        _stopped(folder)
    except SystemExit as error:  # Lightning's, after a Ctrl-C that it saw itself
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
        _stopped(folder)
    except Exception as error:
        if isinstance(error, torch.distributed.DistError) or "gloo" in str(error):
            _note(folder)
            log.error("a rank lost another one, and ends; resume with ckpt_path=last")
            sys.exit(1)
        check = " ".join(["python src/check.py", *rule])
        error.add_note(f"If the rule is your own: {check}\nsays in seconds which law of the plug-in API it breaks.")
        if job is not None:
            raise _failed(folder, job, f"{type(error).__name__}: {error}") from error
        _note(folder)
        raise
    finally:
        wandb.finish(exit_code=int(failed))


def _said(error: Exception) -> str:
    """The error; of the machine's own also the way out."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}; once that is mended, resume with ckpt_path=last"
    return str(error)


def _failed(folder: Path, job: int, why: str) -> door.JobError:
    """What the sweep is told of a job that failed, said at once as well: the others may take days."""
    _note(folder)
    said = f"#{job}  failed: {'; '.join(why.splitlines())} ({folder})"
    print(f"{said}\n", end="", file=sys.stderr, flush=True)
    return door.JobError(said)


def _note(folder: Path) -> None:
    """The traceback of what ended this run, in its own train.log."""
    with contextlib.suppress(OSError), open(folder / "train.log", "a", encoding="utf-8", opener=rundir.no_link) as file:
        traceback.print_exc(file=file)


def _stopped(folder: Path) -> None:
    """Exit status 130; but a job beside others returns, and starts no other, so that these can save as well."""
    if parent_process() is None:
        sys.exit(130)
    sweep.stopped = True
    rundir.forget(folder)
