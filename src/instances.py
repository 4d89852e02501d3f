"""One node of a config → the object it describes, or what is wrong with it."""

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from lightning.pytorch.loggers.logger import Logger
from torch import nn

from faults import Config
from impatient.aggregators.base import Aggregator
from impatient.availability.base import Availability
from impatient.checks import ConfigError
from impatient.data.dataset import Source
from impatient.data.partition.base import Partition
from impatient.engine.auto import EngineChoice
from impatient.engine.local import LocalSGD
from impatient.memory import MemorySettings

KINDS = {
    "data": Source,
    "partition": Partition,
    "availability": Availability,
    "algo": Aggregator,
    "client": LocalSGD,
    "engine": EngineChoice,
    "memory": MemorySettings,
    "server": torch.optim.Optimizer,
    "model": nn.Module,
    "callbacks": L.Callback,
    "logger": Logger,
    "trainer": L.Trainer,
}

# Hydra logs, on lines of its own, what it raises as well.
logging.getLogger("hydra.utils").setLevel(logging.CRITICAL)


def of_kind(path: str, made: Any, node: Config, faults: list[str]) -> Any:
    """The object, or None and a fault where _partial_ made something else of the target."""
    if made is None or (callable(made) if path == "server" else isinstance(made, KINDS[path])):
        return made
    wanted = "wanted" if path == "server" else "not wanted"
    faults.append(f"{path}._target_={node['_target_']}: _partial_=true is {wanted} here")
    return None


def make(path: str, node: Config, faults: list[str], **given: Any) -> Any:
    """The object a node describes, or None and its faults added to the list."""
    return tried(path, lambda: instantiate(node, _convert_="all", **given), faults)


def tried(path: str, call: Callable[[], Any], faults: list[str]) -> Any:
    """What the call returns, or None and its faults added to the list."""
    try:
        return call()
    except Exception as error:  # a user's own class may raise anything
        cause = error.__cause__ if isinstance(error, InstantiationException) and error.__cause__ else error
        if isinstance(cause, ConfigError):
            faults.extend(f"{path}.{fault}" for fault in cause.faults)
        else:
            said = f"{type(cause).__name__}: {cause}".removesuffix(": ")
            faults.append(f"{path}: {cause if isinstance(cause, ValueError) and str(cause) else said}{_where(cause)}")
        return None


def _where(error: BaseException) -> str:
    """The line of the user's own that raised it; nothing for a library's."""
    frame = traceback.extract_tb(error.__traceback__)[-1:]
    own = frame and "site-packages" not in frame[0].filename and not isinstance(error, ValueError)
    return f" ({Path(frame[0].filename).name}, line {frame[0].lineno})" if own else ""
