"""A sweep: which of its jobs cannot run, said at once and not hours later; and how Ctrl-C ends it."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import build
import door
from composed import of_job
from impatient import files
from impatient.checks import ConfigError
from rundir import summary_of

stopped = False
"""Whether Ctrl-C was pressed, in the process that started the sweep or in one of its jobs' own."""


planned: dict[int, tuple[Path, int]] = {}
"""Each job's folder and rounds, known before the first one starts."""


class Sweep(Callback):
    """Hydra's hooks, named in configs/hydra/default.yaml."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Name the jobs that cannot run; exit status 1 at once where no job can, or where the folder is no sweep's."""
        if fault := _not_ours(Path(config.hydra.sweep.dir)):
            door.show_faults(ConfigError(f"hydra.sweep.dir={config.hydra.sweep.dir}: {fault}; name another folder"))
            sys.exit(1)
        foresee(config)
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


def reported(main: Callable[[], Any]) -> Callable[[], Any]:
    """`main`; where a job has failed, all that are not done are named at the end."""

    def run() -> Any:
        try:
            return main()
        except door.JobError as error:
            left = [f"#{i}  {at}" for i, (at, rounds) in planned.items() if not summary_of(at, rounds)]
            head = [f"{len(left)} of {len(planned)} jobs are not done; each has its own train.log:"] if left else []
            raise door.JobError("\n  ".join([*(head or [str(error)]), *left])) from error

    return run


def foresee(config: DictConfig) -> None:
    """Name the jobs that cannot run; exit status 1 where no job can."""
    try:
        params = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
        parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
        overrides = parser.parse_overrides([*params, *config.hydra.overrides.task])
        (jobs,) = BasicSweeper.split_arguments(overrides, None)
        here = any(name in config.hydra.launcher._target_ for name in ("BasicLauncher", "JoblibLauncher"))
        found = [_faults(config, number, job, here) for number, job in enumerate(jobs)]
    except (HydraException, OmegaConfBaseException, yaml.YAMLError):  # another sweeper, or what Hydra refuses itself
        return
    if not jobs:
        door.show_faults(ConfigError("the sweep has no job: a glob chooses nothing that there is"))
        sys.exit(1)
    if fault := _shared(config):
        door.show_faults(ConfigError(fault))
        sys.exit(1)
    where: dict[str, list[str]] = {}
    for number, faults in enumerate(found):
        for fault in faults:
            where.setdefault(fault, []).append(f"#{number}")
    bad = sum(map(bool, found))
    if bad == len(jobs):
        door.show_faults(ConfigError(*where))
        sys.exit(1)
    if bad:
        said = [f"{fault} ({', '.join(numbers)})" for fault, numbers in where.items()]
        print(f"{bad} of {len(jobs)} jobs will fail, the others run:", *said, sep="\n  ", file=sys.stderr)


def _shared(config: DictConfig) -> str | None:
    """Two jobs of one folder, of which the second would be refused, or go on with the first one's run."""
    subdir = OmegaConf.to_container(config.hydra.sweep)["subdir"]  # type: ignore[index, call-overload]
    of: dict[Path, int] = {}
    for number, (folder, _) in planned.items():
        if of.setdefault(folder, number) != number and "${now:" not in str(subdir):
            return (
                f"hydra.sweep.subdir={subdir}: jobs #{of[folder]} and #{number} would share {folder}; put "
                "${hydra.job.num} into it"
            )
    return None


def _faults(config: DictConfig, number: int, overrides: list[str], here: bool) -> list[str]:
    cfg = GlobalHydra.instance().config_loader().load_sweep_config(config, overrides)
    try:
        plain = of_job(cfg, number)
        planned[number] = Path(plain["paths"]["run_dir"]), plain["rounds"]
        build.validate(plain, here)
    except ConfigError as error:
        return error.faults
    return []
