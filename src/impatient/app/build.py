"""Settings → the objects of a run, each made once; all faults of the values at once, before any data is read."""

import difflib
import inspect
import logging
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import lightning as L
import torch
from hydra.errors import InstantiationException
from hydra.utils import get_object, instantiate
from lightning.pytorch.loggers.logger import Logger
from torch import nn

from impatient.aggregators.base import Aggregator
from impatient.app.config import Settings
from impatient.availability.base import Availability
from impatient.checks import ConfigError, known
from impatient.data.dataset import Source
from impatient.data.partition.base import Partition
from impatient.data.rounds import Batching
from impatient.engine.auto import EngineChoice, check_model
from impatient.engine.local import Engine, LocalSGD
from impatient.lit.checkpoint import AtomicCheckpointIO, Checkpoint
from impatient.lit.datamodule import FederatedDataModule, Seeds
from impatient.lit.round_module import FederatedRound
from impatient.memory import MemorySettings
from impatient.rng import torch_stream

logging.getLogger("hydra.utils").setLevel(logging.CRITICAL)  # it logs, on lines of its own, what it raises as well
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


@dataclass(frozen=True)
class Parts:
    """The cheap pieces of a run; nothing has been read yet. trainer: None where the run is to be elsewhere."""

    data: Source
    partition: Partition
    availability: Availability
    algo: Aggregator
    client: LocalSGD
    server: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
    engine: EngineChoice
    memory: MemorySettings
    trainer: L.Trainer | None = None


KINDS: dict[str, type] = {**get_type_hints(Parts), "server": torch.optim.Optimizer}
del KINDS["trainer"]


def validated(plain: Mapping[str, Any], here: bool = True) -> tuple[Settings, Parts]:
    """The settings in a resolved config, and their pieces. Raises one ConfigError with the faults of both."""
    try:
        settings, faults = Settings.of(plain), []
    except ConfigError as error:  # what is sound of it is made all the same: one message for everything
        settings, faults = Settings.unchecked(plain), error.faults
    return settings, parts(settings, here, faults)


def parts(settings: Settings, here: bool = True, faults: Iterable[str] = ()) -> Parts:
    """Make every cheap piece. Raises one ConfigError with `faults` and all others, before any data is read.

    here: whether the run is to be on this machine, with the memory and the accelerators that it has.
    """
    faults = list(faults)
    bad = {re.split("[=:.]", fault)[0] for fault in faults}
    made = {
        group: make(group, getattr(settings, group), kind, faults) for group, kind in KINDS.items() if group not in bad
    }
    if "model" not in bad:
        faults += target_faults("model", settings.model, nn.Module)
    around: list[Any] = []
    for path, kind in (("callbacks", L.Callback), ("logger", Logger)):
        nodes = {} if path in bad else getattr(settings, path, None) or {}
        around += [make(f"{path}.{name}", node, kind, faults) for name, node in nodes.items() if node is not None]
    if made.get("server"):
        attempt("server", lambda: _steps(made["server"]), faults)
    faults += _combinations(settings, made, here) if "num_clients" not in bad else []
    trainer = _trainer(settings, around, faults) if here and not bad & {"trainer", "rounds"} else None
    if faults:
        raise ConfigError(*faults)
    return Parts(**made, trainer=trainer)


def _combinations(settings: Settings, made: Mapping[str, Any], here: bool) -> list[str]:
    """What each piece has to say of the others, and of the memory of this machine."""
    n, source, found = settings.num_clients, made.get("data"), []
    if source is not None and here:
        found += source.check(n)
    if made.get("algo") and made.get("client"):
        found += made["algo"].check(n, made["client"])
    if source is not None and made.get("partition"):
        found += made["partition"].check(n, source.num_classes, source.num_train)
    if source is not None and made.get("availability"):
        found += made["availability"].check(n, source.num_classes)
    return [full_name(settings, fault) for fault in found]


def full_name(settings: Settings, fault: str) -> str:
    """A fault that begins with a bare key of one of the groups, with the group before it."""
    head = re.split("[=: ]", fault)[0]
    groups = [group for group in ("partition", "data", "availability", "algo") if head in getattr(settings, group)]
    return f"{groups[0]}.{fault}" if groups else fault


def _trainer(settings: Settings, around: list[Any], faults: list[str]) -> L.Trainer | None:
    """Lightning's, with the callbacks and loggers that could be made."""
    # Checkpoints last: whatever the others keep of a round is there before the checkpoint that counts it.
    callbacks = sorted(
        (one for one in around if isinstance(one, L.Callback)), key=lambda one: isinstance(one, Checkpoint)
    )
    given = {"callbacks": callbacks, "logger": [one for one in around if isinstance(one, Logger)]}
    before = len(faults)
    node = settings.trainer.model_dump(by_alias=True, exclude_unset=True)
    made = make("trainer", node, L.Trainer, faults, **given, plugins=[AtomicCheckpointIO()])
    faults[before:] = [f"{fault.rstrip('.')}; trainer=cpu runs anywhere" for fault in faults[before:]]
    return made


def _steps(server: Any) -> None:
    """A server optimizer must step on gradients alone, without a closure."""
    p = nn.Parameter(torch.zeros(1))
    optimizer = server([p])
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(f"makes a {type(optimizer).__name__}, not a torch optimizer")
    p.grad = torch.zeros(1)
    optimizer.step()


# One object ----------------------------------------------------------------------------------------------------------


def make(path: str, node: Mapping[str, Any], kind: type, faults: list[str], **given: Any) -> Any:
    """The object that a node describes, or None and its faults added to the list.

    A server optimizer is made of the model's parameters later: its node gives a function.
    """
    found = target_faults(path, node, kind)
    faults += found
    if found:
        return None
    made = attempt(path, lambda: instantiate(node, _convert_="all", **given), faults)
    later = kind is torch.optim.Optimizer
    if made is None or (callable(made) if later else isinstance(made, kind)):
        return made
    faults.append(f"{path}._target_={node['_target_']}: _partial_=true is {'' if later else 'not '}wanted here")
    return None


def attempt(path: str, call: Callable[[], Any], faults: list[str]) -> Any:
    """What the call returns, or None and its faults added to the list."""
    try:
        return call()
    except Exception as error:  # a user's own class may raise anything
        cause = error.__cause__ if isinstance(error, InstantiationException) and error.__cause__ else error
        if isinstance(cause, ConfigError):
            faults.extend(f"{path}.{fault}" for fault in cause.faults)
        elif isinstance(cause, ValueError) and str(cause):
            faults.append(f"{path}: {cause}")
        else:
            frame = traceback.extract_tb(cause.__traceback__)[-1]
            where = "" if "site-packages" in frame.filename else f" ({Path(frame.filename).name}, line {frame.lineno})"
            faults.append(f"{path}: {type(cause).__name__}: {cause}".removesuffix(": ") + where)
        return None


def target_faults(path: str, node: Mapping[str, Any], kind: type) -> list[str]:
    """Keys that the node's target does not take, and targets that make no `kind`: nothing else is ever called."""
    name = str(node["_target_"])
    try:
        target = get_object(name)
        parameters = inspect.signature(target).parameters
        makes = target if isinstance(target, type) else get_type_hints(target).get("return")
    except Exception as error:  # importing runs whatever is in the module
        why = " ".join(str(error.__cause__ or error).split()) or type(error).__name__
        return [f"{path}._target_={name}: cannot be used ({why}){_nearest(name)}"]
    # torch.fx has functions that return a module and execute the text that they are given.
    text = not isinstance(target, type) and str(target.__module__).split(".")[0] == "torch"
    if text or not isinstance(makes, type) or makes is Any or not issubclass(makes, kind):
        wanted = f"{kind.__module__}.{kind.__name__}"
        return [f"{path}._target_={name}: must be {wanted}, or a function that is annotated to return one"]
    faults = [fault for key, child in node.items() for fault in _inner_faults(f"{path}.{key}", child, kind)]
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return faults
    keys = [key for key in node if not str(key).startswith("_")]
    return faults + [fault for key in keys if (fault := known(f"{path}.{key}", key, parameters))]


def _inner_faults(path: str, value: Any, kind: type) -> list[str]:
    """Targets inside of a node's values, which would be called too: a module may hold modules, a rule other rules."""
    if isinstance(value, Mapping) and "_target_" in value:
        return target_faults(path, value, kind)
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    return [fault for key, child in inner for fault in _inner_faults(f"{path}.{key}", child, kind)]


def _nearest(name: str) -> str:
    home, _, last = name.rpartition(".")
    try:
        near = difflib.get_close_matches(last, dir(get_object(home)), 1)
    except Exception:  # there is no such home either
        return ""
    return f"; did you mean {home}.{near[0]}?" if near else ""


# What needs the data -------------------------------------------------------------------------------------------------


def federation(settings: Settings, made: Parts) -> FederatedDataModule:
    """The federation, loaded and split. Raises ConfigError where rule and availability process exclude each other."""
    client = made.client
    batching = Batching(client.batch_size, client.epochs, client.steps)
    seeds = Seeds(**settings.seeds.model_dump())
    parts = made.data, made.partition, made.availability, batching
    data = FederatedDataModule(*parts, settings.num_clients, seeds, settings.weights, made.algo.knowledge)
    try:
        data.setup()
    except ConfigError as error:
        raise ConfigError(*(full_name(settings, fault) for fault in error.faults)) from error
    faults = []
    if untold := sorted(made.algo.knowledge - data.availability.knows(0).keys()):
        what = ", ".join("p_i" if name == "prob" else name for name in untold)
        faults.append(f"algo: this rule must know {what}, which this availability process does not; use another rule")
    absent = made.availability.absent().tolist()
    if made.algo.waits and absent:
        some = ", ".join(map(str, absent[:10])) + (" …" if len(absent) > 10 else "")
        faults.append(
            f"availability: device(s) {some} can never come, and this rule would wait for them for ever; give them a "
            "chance to come, or use a rule that does not wait (algo=mifa algo.init=zero)"
        )
    chunk = made.engine.chunk or Engine.chunk
    faults += [f"client.{fault}" for fault in data.batching.check(int(data.clients.sizes.max()), chunk)]
    if faults:
        raise ConfigError(*faults)
    return data


def model(settings: Settings, data: FederatedDataModule) -> nn.Module:
    """The network, initialised from seeds.model; told input_shape and num_classes where it asks for them.

    Raises ConfigError for one that does not fit the data.
    """
    node = settings.model
    asks = inspect.signature(get_object(node["_target_"])).parameters
    facts = {"input_shape": data.data.input_shape, "num_classes": data.data.num_classes}
    given = {key: value for key, value in facts.items() if key in asks and key not in node}
    faults: list[str] = []
    with torch_stream(torch.device("cpu"), data.seeds.model, "model"):
        net = make("model", node, nn.Module, faults, **given)
    if net is not None:
        attempt("model", lambda: check_model(net, data.data.input_shape, data.data.num_classes), faults)
    if faults:
        raise ConfigError(*faults)
    return net


def module(settings: Settings, made: Parts, data: FederatedDataModule) -> FederatedRound:
    """The federated round. Its identity is what a checkpoint must share to be gone on with."""
    identity = {
        "num_clients": str(settings.num_clients),
        "data": str({key: value for key, value in settings.data.items() if key not in ("root", "cache_dir")}),
        "weights": settings.weights,
        "partition": data.hashes()["hash/partition"],
        "model": str(settings.model),
        "algo": str(settings.algo),
        "server": str(settings.server["_target_"]),
    }
    parts = made.algo, made.client, made.server, made.engine, made.memory
    return FederatedRound(model(settings, data), *parts, settings.eval_every, settings.on_bad_update, identity)
