"""From a config to the objects of a run, all faults at once. Shared by the entry points."""

import inspect
import logging
from dataclasses import dataclass
from typing import Any

import torch
from hydra.utils import get_object
from torch import nn

import faults as faults_of
from faults import Config
from impatient.aggregators.base import Aggregator
from impatient.availability.base import Availability
from impatient.checks import ConfigError
from impatient.data.dataset import Source
from impatient.data.partition.base import Partition
from impatient.data.rounds import Batching
from impatient.engine.auto import EngineChoice, refuse_batch_norm
from impatient.engine.local import Engine, LocalSGD
from impatient.lit.datamodule import FederatedDataModule, Seeds
from impatient.lit.round_module import FederatedRound
from impatient.machine import free_bytes
from impatient.memory import MemorySettings
from impatient.rng import torch_stream
from instances import KINDS, make, of_kind, tried


@dataclass(frozen=True)
class Parts:
    """The cheap, validated pieces of a run; nothing has been read yet."""

    source: Source
    partition: Partition
    availability: Availability
    aggregator: Aggregator
    client: LocalSGD
    server: Any
    engine: EngineChoice
    memory: MemorySettings


def validate(cfg: Config, here: bool = True) -> Parts:
    """Make every cheap piece. Raises one ConfigError with all faults of the whole config, before any data is read.

    here: whether the run is to be on this machine, with the memory and the accelerators that it has.
    """
    made, faults = _made(cfg)
    faults += faults_of.cross_faults(cfg, made)
    if here:
        faults += faults_of.memory_faults(cfg, made)
        if not any(fault.startswith(("trainer", "rounds")) for fault in faults):
            trainer(cfg, faults, logger=False)
    if faults:
        raise ConfigError(*faults)
    return Parts(*(made[node] for node in faults_of.NODES))


def value_faults(cfg: Config) -> list[str]:
    """What is wrong in a config that is not whole: no combinations, nothing of the machine."""
    return _made(cfg)[1]


def _made(cfg: Config) -> tuple[dict[str, Any], list[str]]:
    faults = faults_of.scalar_faults(cfg)
    made: dict[str, Any] = {}
    for node in faults_of.NODES:
        found = faults_of.node_faults(node, cfg.get(node), KINDS[node])
        faults += found
        if not found:
            made[node] = of_kind(node, make(node, cfg[node], faults), cfg[node], faults)
    for node in ("model", "trainer"):
        faults += faults_of.node_faults(node, cfg.get(node), KINDS[node])
    for path, settings in around(cfg):
        found = faults_of.node_faults(path, settings, KINDS[path.split(".")[0]])
        faults += found
        if not found:
            make(path, settings, faults)
    if made.get("server"):
        tried("server", lambda: _steps(made["server"]), faults)
    return made, faults


def around(cfg: Config) -> list[tuple[str, Config]]:
    """The callbacks and loggers, each with its path."""
    groups = [(group, cfg.get(group) or {}) for group in ("callbacks", "logger")]
    return [(f"{group}.{name}", node) for group, nodes in groups for name, node in nodes.items() if node is not None]


def trainer(cfg: Config, faults: list[str], **given: Any) -> Any:
    """Lightning's Trainer, or None and its fault added to the list."""
    level = logging.getLogger("lightning.pytorch").level
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    made = make("trainer", cfg["trainer"], faults, **given)
    logging.getLogger("lightning.pytorch").setLevel(level)
    if made is None:
        faults[-1] = f"{faults[-1].rstrip('.')}; trainer=cpu runs anywhere"
    return made


def _steps(server: Any) -> None:
    """A server optimizer must step on gradients alone, without a closure."""
    p = nn.Parameter(torch.zeros(1))
    optimizer = server([p])
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(f"makes a {type(optimizer).__name__}, not a torch optimizer")
    p.grad = torch.zeros(1)
    optimizer.step()


def datamodule(cfg: Config, parts: Parts) -> FederatedDataModule:
    """The federation, loaded and split. Raises ConfigError where rule and availability process exclude each other."""
    client = parts.client
    dm = FederatedDataModule(
        parts.source,
        parts.partition,
        parts.availability,
        Batching(client.batch_size, client.epochs, client.steps),
        cfg["num_clients"],
        Seeds(**cfg["seeds"]),
        cfg["weights"],
        parts.aggregator.knowledge,
    )
    try:
        dm.setup()
    except ConfigError as error:
        raise ConfigError(*(faults_of.full_name(cfg, fault) for fault in error.faults)) from error
    faults = []
    untold = sorted(parts.aggregator.knowledge - dm.availability.knows(0).keys())
    if untold:
        what = ", ".join("p_i" if name == "prob" else name for name in untold)
        faults.append(f"algo: this rule must know {what}, which this availability process does not; use another rule")
    absent = dm.availability.absent().tolist()
    if parts.aggregator.waits and absent:
        some = ", ".join(map(str, absent[:10])) + (" …" if len(absent) > 10 else "")
        faults.append(
            f"availability: device(s) {some} can never come, and this rule would wait for them for ever; give them a "
            "chance to come, or use a rule that does not wait (algo=mifa algo.init=zero)"
        )
    faults += _batch_faults(parts, int(dm.clients.sizes.max()))
    if faults:
        raise ConfigError(*faults)
    return dm


def _batch_faults(parts: Parts, samples: int) -> list[str]:
    """Batches are drawn for a chunk of clients at once: their indices must fit the memory. samples: the largest n_i."""
    client = parts.client
    steps = client.steps or (client.epochs or 1) * -(-samples // client.batch_size)
    size, free = steps * min(client.batch_size, samples) * 8 * (parts.engine.chunk or Engine.chunk), free_bytes()
    if free is None or size <= free:
        return []
    key, value = ("steps", client.steps) if client.steps else ("epochs", client.epochs)
    return [
        f"client.{key}={value}: {steps:.3g} steps a round, whose batches take {size / 1e9:.3g} GB of memory; "
        f"{free / 1e9:.3g} GB are free; make fewer, or set engine.chunk=1"
    ]


def model(cfg: Config, dm: FederatedDataModule) -> nn.Module:
    """The network, initialised from seeds.model; told input_shape and num_classes where it asks for them."""
    node = dict(cfg["model"])
    asks = inspect.signature(get_object(node["_target_"])).parameters
    facts = {"input_shape": dm.data.input_shape, "num_classes": dm.data.num_classes}
    told = {k: v for k, v in facts.items() if k in asks and k not in node}
    faults: list[str] = []
    with torch_stream(torch.device("cpu"), dm.seeds.model, "model"):
        made = make("model", node, faults, **told)
    if made is not None:
        tried("model", lambda: _fits(made, dm), faults)
    if faults:
        raise ConfigError(*faults)
    return made


def _fits(net: nn.Module, dm: FederatedDataModule) -> None:
    """What cannot be trained is the user's to know before training; one sample goes through the network."""
    if not isinstance(net, nn.Module):
        raise ValueError(f"the target makes a {type(net).__name__}, not a torch.nn.Module")
    refuse_batch_norm(net)
    if not sum(p.numel() for p in net.parameters() if p.requires_grad):
        raise ValueError("has no trainable parameter")
    x = torch.zeros(1, *dm.data.input_shape)
    was_training = net.training
    net.eval()
    try:
        with torch.no_grad():
            out = net(x)
    except Exception as error:
        raise ValueError(f"does not take samples of shape {dm.data.input_shape}: {error}") from error
    finally:
        net.train(was_training)
    if dm.data.classes and (out.ndim != 2 or out.shape[1] < dm.data.num_classes):
        raise ValueError(f"gives outputs {tuple(out.shape[1:])} where the data has {dm.data.num_classes} classes")
    if not dm.data.classes and out.shape != x.shape:
        raise ValueError(f"gives outputs {tuple(out.shape[1:])} where w - x is wanted; use model=quadratic")


def round_module(cfg: Config, parts: Parts, dm: FederatedDataModule) -> FederatedRound:
    """The federated round."""
    identity = {
        "num_clients": str(cfg["num_clients"]),
        "data": str({key: value for key, value in cfg["data"].items() if key not in ("root", "cache_dir")}),
        "weights": cfg["weights"],
        "partition": dm.hashes()["hash/partition"],
        "model": str(dict(cfg["model"])),
        "algo": str(dict(cfg["algo"])),
        "server": str(cfg["server"]["_target_"]),
    }
    return FederatedRound(
        model(cfg, dm),
        parts.aggregator,
        parts.client,
        parts.server,
        parts.engine,
        parts.memory,
        cfg["eval_every"],
        cfg["on_bad_update"],
        identity,
    )
