"""A sweep: which of its jobs cannot run, said at once and not hours later; and how Ctrl-C ends it."""

import signal
import sys
from types import FrameType
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, open_dict

import build
import door
from impatient.checks import ConfigError

stopped = False
"""Whether Ctrl-C was pressed, in the process that started the sweep or in one of its jobs' own."""


class Sweep(Callback):
    """Hydra's hooks, named in configs/hydra/default.yaml."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Name the jobs that cannot run; exit status 1 at once where no job can."""
        foresee(config)
        if "joblib" in config.hydra.launcher._target_:  # it would kill the others as soon as one has stopped
            signal.signal(signal.SIGINT, _stop)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Raise KeyboardInterrupt after all jobs have stopped."""
        if stopped:
            raise KeyboardInterrupt


def _stop(number: int, frame: FrameType | None) -> None:
    global stopped
    stopped = True
    print("\nstopping: every job saves after its round; Ctrl-C again ends them at once", file=sys.stderr)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def foresee(config: DictConfig) -> None:
    """Name the jobs that cannot run; exit status 1 where no job can."""
    try:
        params = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
        overrides = OverridesParser.create().parse_overrides([*params, *config.hydra.overrides.task])
        (jobs,) = BasicSweeper.split_arguments(overrides, None)
        found = [_faults(config, number, job) for number, job in enumerate(jobs)]
    except HydraException:  # another sweeper, or what Hydra refuses itself
        return
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


def _faults(config: DictConfig, number: int, overrides: list[str]) -> list[str]:
    cfg = GlobalHydra.instance().config_loader().load_sweep_config(config, overrides)
    with open_dict(cfg):
        cfg.hydra.job.id, cfg.hydra.job.num = str(number), number
        cfg.hydra.runtime.output_dir = config.hydra.sweep.dir
    HydraConfig.instance().set_config(cfg)  # what ${hydra:…} refers to
    with open_dict(cfg):
        del cfg["hydra"]
    try:
        build.validate(door.plain(cfg))
    except ConfigError as error:
        return error.faults
    return []
