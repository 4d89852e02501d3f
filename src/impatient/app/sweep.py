"""A sweep: its jobs, which of them cannot run (said before the first one starts), and how Ctrl-C ends it."""

import signal
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from impatient import files, records
from impatient.app.cli import JobError, show_faults
from impatient.app.config import of_job
from impatient.checks import ConfigError

stopped = False
"""Whether Ctrl-C was pressed, in the process that started the sweep or in one of its jobs' own."""

planned: dict[int, tuple[Path, int]] = {}
"""Each job's folder and rounds, known before the first one starts."""


class Sweep(Callback):
    """Hydra's hooks, named in configs/hydra/default.yaml."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Name the jobs that cannot run; exit status 1 where no job can, or where the folder is no sweep's."""
        try:
            if fault := _not_ours(Path(config.hydra.sweep.dir)):
                raise ConfigError(f"hydra.sweep.dir={config.hydra.sweep.dir}: {fault}; name another folder")
            check_jobs(config)
        except ConfigError as error:  # Hydra would turn it into a warning
            show_faults(error)
            sys.exit(1)
        if "joblib" in config.hydra.launcher._target_:  # it would kill the others as soon as one has stopped
            signal.signal(signal.SIGINT, _stop)

    def on_job_end(self, config: DictConfig, job_return: Any, **kwargs: Any) -> None:
        """Let go of the job's config: Hydra holds what jobs return until the last has ended, 0.2 MB each."""
        job_return.cfg = job_return.hydra_cfg = None

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Raise KeyboardInterrupt after all jobs have stopped."""
        if stopped:
            raise KeyboardInterrupt


def _not_ours(folder: Path) -> str | None:
    """Why Hydra must not write its multirun.yaml there; None if it may."""
    there = folder / "multirun.yaml"
    try:
        foreign = there.is_symlink() or (
            there.exists() and "sweep.Sweep" not in there.read_text(encoding="utf-8", errors="replace")
        )
    except OSError:
        foreign = True
    return "has a multirun.yaml of another program" if foreign else files.unwritable(folder)


def _stop(number: int, frame: FrameType | None) -> None:
    global stopped
    stopped = True
    print("\nstopping: every job saves after its round; Ctrl-C again ends them at once", file=sys.stderr)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def naming_what_is_left(main: Callable[[], Any]) -> Callable[[], Any]:
    """`main`; where a job has failed, all that are not done are named at the end."""

    def run() -> Any:
        try:
            return main()
        except JobError as error:
            left = [f"#{i}  {at}" for i, (at, rounds) in planned.items() if not records.summary_of(at, rounds)]
            head = [f"{len(left)} of {len(planned)} jobs are not done; each has its own train.log:"] if left else []
            raise JobError("\n  ".join([*(head or [str(error)]), *left])) from error

    return run


def check_jobs(config: DictConfig) -> None:
    """Name the jobs that cannot run. Raises ConfigError where no job can, or where two would share a folder."""
    here = any(name in config.hydra.launcher._target_ for name in ("BasicLauncher", "JoblibLauncher"))
    if "BasicSweeper" not in config.hydra.sweeper._target_:
        return
    try:
        found = [_faults(config, number, job, here) for number, job in enumerate(_jobs(config))]
    except (HydraException, OmegaConfBaseException, yaml.YAMLError):  # Hydra will say so
        return
    if not found:
        raise ConfigError("the sweep has no job: a glob chooses nothing that there is")
    _check_folders(config)
    jobs: dict[str, list[str]] = {}
    for number, faults in enumerate(found):
        for fault in faults:
            jobs.setdefault(fault, []).append(f"#{number}")
    bad = sum(map(bool, found))
    if bad == len(found):
        raise ConfigError(*jobs)
    if bad:
        said = [f"{fault} ({', '.join(numbers)})" for fault, numbers in jobs.items()]
        print(f"{bad} of {len(found)} jobs will fail, the others run:", *said, sep="\n  ", file=sys.stderr)


def _jobs(config: DictConfig) -> Iterator[list[str]]:
    """The overrides of each job, in the order in which Hydra's basic sweeper numbers them."""
    params = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    choices: dict[str, list[str]] = {}
    for one in parser.parse_overrides([*params, *config.hydra.overrides.task]):
        key = one.get_key_element()
        swept = one.is_sweep_override()
        values = list(one.sweep_string_iterator()) if swept else [one.get_value_element_as_str()]
        choices[key] = [f"{key}={value}" for value in values]
    return map(list, product(*choices.values()))


def _check_folders(config: DictConfig) -> None:
    """Of two jobs with one folder the second would be refused, or go on with the first one's run."""
    subdir = OmegaConf.to_container(config.hydra.sweep)["subdir"]  # type: ignore[index, call-overload]
    of: dict[Path, int] = {}
    for number, (folder, _) in planned.items():
        if of.setdefault(folder, number) != number and "${now:" not in str(subdir):
            raise ConfigError(
                f"hydra.sweep.subdir={subdir}: jobs #{of[folder]} and #{number} would share {folder}; put "
                "${hydra.job.num} into it"
            )


def _faults(config: DictConfig, number: int, overrides: list[str], here: bool) -> list[str]:
    from impatient.app import build  # with torch, which a sweep of nothing need not wait for

    cfg = GlobalHydra.instance().config_loader().load_sweep_config(config, overrides)
    try:
        plain = of_job(cfg, number)
        planned[number] = Path(plain["paths"]["run_dir"]), plain["rounds"]
        build.validated(plain, here)
    except ConfigError as error:
        return error.faults
    return []
