"""From a config to the objects of a run, all faults at once. Shared by the entry points."""

import difflib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from hydra.errors import InstantiationException
from hydra.utils import get_object, instantiate
from torch import nn

from impatient.aggregators.base import Aggregator
from impatient.availability.base import Availability
from impatient.checks import ConfigError, integer, one_of
from impatient.data.dataset import Source
from impatient.data.partition.base import Partition
from impatient.data.rounds import Batching
from impatient.engine.auto import EngineChoice
from impatient.engine.local import LocalSGD
from impatient.lit.datamodule import FederatedDataModule, Seeds
from impatient.lit.round_module import FederatedRound
from impatient.memory import MemorySettings
from impatient.rng import torch_stream

Config = Mapping[str, Any]

SEEDS = ("partition", "availability", "batches", "model", "cohort")
NODES = ("data", "partition", "availability", "algo", "client", "server", "engine", "memory")
SCALARS = (
    "num_clients",
    "rounds",
    "eval_every",
    "save_every",
    "threads",
    "seed",
    "weights",
    "on_bad_update",
    "ckpt_path",
)
OTHERS = ("seeds", "model", "trainer", "callbacks", "logger", "paths", "choices")


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


def validate(cfg: Config) -> Parts:
    """Make every cheap piece. Raises one ConfigError with all faults of the whole config, before any data is read."""
    faults = _scalar_faults(cfg)
    made: dict[str, Any] = {}
    for node in NODES:
        found = _node_faults(node, cfg.get(node))
        faults += found
        if not found:
            made[node] = _make(node, cfg[node], faults)
    faults += _node_faults("model", cfg.get("model"))
    for group in ("callbacks", "logger"):
        for name, node in (cfg.get(group) or {}).items():
            faults += _node_faults(f"{group}.{name}", node) if node is not None else []
    if made.get("server"):
        _try("server", lambda: made["server"]([nn.Parameter(torch.zeros(1))]), faults)
    faults += _cross_faults(cfg, made)
    if faults:
        raise ConfigError(*faults)
    return Parts(*(made[node] for node in NODES))


def _scalar_faults(cfg: Config) -> list[str]:
    known = [*SCALARS, *NODES, *OTHERS]
    seeds = cfg.get("seeds") or {}
    checked = [
        *(integer(key, cfg.get(key), 1) for key in ("num_clients", "rounds", "eval_every", "save_every", "threads")),
        integer("seed", cfg.get("seed"), 0, 2**32 - 1),
        *(integer(f"seeds.{key}", seeds.get(key), 0, 2**32 - 1) for key in SEEDS),
        *(_unknown(f"seeds.{key}", key, SEEDS) for key in seeds),
        one_of("weights", cfg.get("weights"), ("equal", "samples")),
        one_of("on_bad_update", cfg.get("on_bad_update"), ("fail", "skip")),
        *(_unknown(key, key, known) for key in cfg),
        *_trainer_faults(cfg.get("trainer") or {}),
    ]
    return [fault for fault in checked if fault]


def _trainer_faults(trainer: Config) -> list[str]:
    faults = []
    if str(trainer.get("strategy", "ddp")).split("_")[0] not in ("ddp", "auto"):
        faults.append(
            f"trainer.strategy={trainer['strategy']}: clients are shared over ranks by ddp only; use trainer=ddp"
        )
    for key, value in (("max_epochs", -1), ("use_distributed_sampler", False)):
        if trainer.get(key) != value:
            faults.append(f"trainer.{key}={trainer.get(key)}: must be {value}; rounds are counted by `rounds`")
    return faults


def _unknown(path: str, key: str, known: Any) -> str | None:
    if key in known:
        return None
    near = difflib.get_close_matches(key, list(known), 1)
    return f"{path}: unknown key" + (f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}")


def _node_faults(path: str, node: Any) -> list[str]:
    """Keys that the node's target does not take."""
    if not isinstance(node, Mapping) or "_target_" not in node:
        return [f"{path}={node}: must be a config group with a _target_"]
    try:
        parameters = inspect.signature(get_object(node["_target_"])).parameters
    except Exception as error:
        return [f"{path}._target_={node['_target_']}: cannot be imported: {error}"]
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return []
    keys = [key for key in node if not str(key).startswith("_")]
    return [fault for key in keys if (fault := _unknown(f"{path}.{key}", key, list(parameters)))]


def _make(path: str, node: Config, faults: list[str]) -> Any:
    return _try(path, lambda: instantiate(node, _convert_="all"), faults)


def _try(path: str, call: Any, faults: list[str]) -> Any:
    try:
        return call()
    except (InstantiationException, ValueError, TypeError) as error:
        cause = error.__cause__ if isinstance(error, InstantiationException) and error.__cause__ else error
        if isinstance(cause, ConfigError):
            faults.extend(f"{path}.{fault}" for fault in cause.faults)
        else:
            faults.append(f"{path}: {cause}")
        return None


def _cross_faults(cfg: Config, made: Mapping[str, Any]) -> list[str]:
    """Combinations that cannot work."""
    n, source = cfg.get("num_clients"), made.get("data")
    if integer("num_clients", n, 1):
        return []
    faults: list[str] = []
    if made.get("algo"):
        faults += made["algo"].check(n)
    if source is not None and made.get("partition"):
        faults += made["partition"].check(n, source.num_classes, source.num_train)
    if source is not None and made.get("availability"):
        faults += made["availability"].check(n, source.num_classes)
    return faults


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
    )
    dm.setup()
    faults = []
    if "prob" in parts.aggregator.knowledge and dm.availability.prob(0) is None:
        faults.append("algo: this rule must know p_i, which this availability process does not; use another rule")
    absent = dm.availability.absent().tolist()
    if parts.aggregator.waits and absent:
        some = ", ".join(map(str, absent[:10])) + (" …" if len(absent) > 10 else "")
        faults.append(
            f"availability: device(s) {some} can never come, and this rule would wait for them for ever; give them a "
            "chance (availability.pmin > 0), or use a rule that does not wait (algo=mifa algo.init=zero)"
        )
    if faults:
        raise ConfigError(*faults)
    return dm


def model(cfg: Config, dm: FederatedDataModule) -> nn.Module:
    """The network, initialised from seeds.model; told input_shape and num_classes where it asks for them."""
    node = dict(cfg["model"])
    asks = inspect.signature(get_object(node["_target_"])).parameters
    facts = {"input_shape": dm.data.input_shape, "num_classes": dm.data.num_classes}
    told = {k: v for k, v in facts.items() if k in asks and k not in node}
    faults: list[str] = []
    with torch_stream(torch.device("cpu"), dm.seeds.model, "model"):
        made = _try("model", lambda: instantiate(node, **told, _convert_="all"), faults)
    if made is not None:
        _try("model", lambda: _fits(made, dm), faults)
    if faults:
        raise ConfigError(*faults)
    return made


def _fits(net: nn.Module, dm: FederatedDataModule) -> None:
    """One sample through the network; a mismatch is the user's to know before training."""
    x = torch.zeros(1, *dm.data.input_shape)
    was_training = net.training
    net.eval()
    try:
        with torch.no_grad():
            out = net(x)
    except RuntimeError as error:
        raise ValueError(f"does not take samples of shape {dm.data.input_shape}: {error}") from error
    finally:
        net.train(was_training)
    if dm.data.classes and (out.ndim != 2 or out.shape[1] < dm.data.num_classes):
        raise ValueError(f"gives outputs {tuple(out.shape[1:])} where the data has {dm.data.num_classes} classes")


def round_module(cfg: Config, parts: Parts, dm: FederatedDataModule) -> FederatedRound:
    """The federated round."""
    identity = {
        "num_clients": str(cfg["num_clients"]),
        "partition": dm.hashes()["hash/partition"],
        "model": str(dict(cfg["model"])),
        "algo": str(dict(cfg["algo"])),
    }
    try:
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
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"model: {error}") from error
