"""What can be wrong in a config, found without making or reading anything. The entry points' validation."""

import difflib
import importlib
import inspect
import os
import re
from collections.abc import Mapping
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, get_type_hints

from hydra.utils import get_object

from impatient.checks import flag, integer, known, number, one_of
from impatient.machine import free_bytes

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
FLAGS = (
    "enable_progress_bar",
    "enable_model_summary",
    "deterministic",
    "benchmark",
    "inference_mode",
    "detect_anomaly",
)
# What of Lightning's Trainer is the user's to set. The rest would change what a round is, or do nothing.
TRAINER = (
    "accelerator",
    "strategy",
    "devices",
    "num_nodes",
    "precision",
    "profiler",
    "default_root_dir",
    *FLAGS,
)
OTHERS = ("seeds", "model", "trainer", "callbacks", "logger", "paths", "choices")


def scalar_faults(cfg: Config) -> list[str]:
    """Types and ranges of the plain keys, and keys that there are none of."""
    keys = [*SCALARS, *NODES, *OTHERS]
    no_groups = [key for key in (*NODES, *OTHERS) if not isinstance(cfg.get(key, {}), Mapping)]
    given, cfg = cfg, {key: value for key, value in cfg.items() if key not in no_groups}
    seeds = cfg.get("seeds") or {}
    checked = [
        *(integer(key, cfg.get(key), 1) for key in ("num_clients", "rounds", "eval_every", "save_every")),
        integer("threads", cfg.get("threads"), 1, 1024),
        integer("seed", cfg.get("seed"), 0, 2**32 - 1),
        *(integer(f"seeds.{k}", seeds.get(k), 0, 2**32 - 1) for k in SEEDS if seeds.get(k) != cfg.get("seed")),
        *(known(f"seeds.{key}", key, SEEDS) for key in seeds),
        one_of("weights", cfg.get("weights"), ("equal", "samples")),
        one_of("on_bad_update", cfg.get("on_bad_update"), ("fail", "skip")),
        None if isinstance(cfg.get("ckpt_path"), str | None) else f"ckpt_path={cfg['ckpt_path']}: give a file, or last",
        number("server.lr", (cfg.get("server") or {}).get("lr", 1.0), 0, open_low=True),
        *(f"{key}={given[key]}: must be a group of settings" for key in no_groups),
        *(known(key, key, keys) for key in cfg),
        *_trainer_faults(cfg.get("trainer") or {}, cfg.get("rounds")),
        *_folder_faults(cfg),
    ]
    return [fault for fault in checked if fault]


def _trainer_faults(trainer: Config, rounds: Any) -> list[str]:
    faults = []
    if str(trainer.get("strategy", "ddp")).split("_")[0] not in ("ddp", "auto"):
        faults.append(
            f"trainer.strategy={trainer['strategy']}: clients are shared over ranks by ddp only; use trainer=ddp"
        )
    fixed = {
        "max_steps": (rounds, "rounds are counted by `rounds`"),
        "max_epochs": (-1, "rounds are counted by `rounds`"),
        "use_distributed_sampler": (False, "clients are shared over ranks by their ids"),
        "num_sanity_val_steps": (0, "evaluation is part of the round"),
        "enable_checkpointing": (False, "checkpoints are written by callbacks.checkpoint"),
    }
    for key, (value, why) in fixed.items():
        if trainer.get(key) != value:
            faults.append(f"trainer.{key}={trainer.get(key)}: must be {value}; {why}")
    for key in FLAGS:
        if trainer.get(key) is not None and not (key == "deterministic" and trainer[key] == "warn"):
            faults += [fault for fault in [flag(f"trainer.{key}", trainer[key])] if fault]
    if trainer.get("profiler") is not None:
        fault = one_of("trainer.profiler", trainer["profiler"], ("simple", "advanced", "pytorch"))
        faults += [fault] if fault else []
    others = [key for key in trainer if key not in (*fixed, *TRAINER, "_target_")]
    return faults + [
        f"trainer.{key}={trainer[key]}: has no meaning for rounds; leave it out{_instead(key)}" for key in others
    ]


def _folder_faults(cfg: Config) -> list[str]:
    """Callbacks and loggers write into the run's folder only: in any other, another run may write the same files."""
    run = Path(str((cfg.get("paths") or {}).get("run_dir"))).absolute()
    faults = []
    for group in ("callbacks", "logger"):
        for name, node in (cfg.get(group) or {}).items():
            folder = node.get("folder") if isinstance(node, Mapping) else None
            home = run / "checkpoints" if (group, name) == ("callbacks", "checkpoint") else run
            if folder is not None and Path(os.path.abspath(str(folder))) != home:
                faults.append(f"{group}.{name}.folder={folder}: must be {home}; set hydra.run.dir to another folder")
    return faults


def _instead(key: str) -> str:
    near = difflib.get_close_matches(key, TRAINER, 1)
    instead = {
        "fast_dev_run": "use debug=fast",
        "logger": "use the group logger",
        "callbacks": "use the group callbacks",
    }
    return f"; {instead[key]}" if key in instead else f"; did you mean {near[0]}?" if near else ""


def node_faults(path: str, node: Any, kind: type = object) -> list[str]:
    """Keys that the node's target does not take, and targets that make no `kind`: nothing else is ever called."""
    if node is not None and not isinstance(node, Mapping):
        return [f"{path}={node}: must be a config group with a _target_"]
    if not node or "_target_" not in node:
        return [f"{path}: has no _target_, so no choice of the group is left (as after ~{path}); give {path}=<choice>"]
    try:
        target = get_object(node["_target_"])
    except Exception as error:  # importing runs whatever is in the module
        return [f"{path}._target_={node['_target_']}: {_not_there(str(node['_target_'])) or error}"]
    try:
        parameters = inspect.signature(target).parameters
        made = target if isinstance(target, type) else get_type_hints(target).get("return")
    except Exception as error:
        return [f"{path}._target_={node['_target_']}: has no signature that can be read: {error}"]
    # torch.fx has functions that return a module and execute the text that they are given.
    text = not isinstance(target, type) and str(target.__module__).split(".")[0] == "torch"
    if text or not isinstance(made, type) or made is Any or not issubclass(made, kind):
        wanted = f"{kind.__module__}.{kind.__name__}" if kind is not object else "a class"
        return [f"{path}._target_={node['_target_']}: must be {wanted}, or a function that is annotated to return one"]
    faults = [fault for key, child in node.items() for fault in _inner_faults(f"{path}.{key}", child, kind)]
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return faults
    keys = [key for key in node if not str(key).startswith("_")]
    return faults + [fault for key in keys if (fault := known(f"{path}.{key}", key, parameters))]


def _not_there(target: str) -> str | None:
    """Which part of a dotted name cannot be imported, and why; with the nearest name that is there."""
    parts = target.split(".")
    if not all(parts):
        return "is no dotted name"
    found: Any = None
    for i, part in enumerate(parts):
        name = ".".join(parts[: i + 1])
        try:
            found = getattr(found, part) if hasattr(found, part) else importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not name.startswith(str(error.name)):
                return f"{name} cannot be imported: {error}"
            if i == 0:
                return f"there is no module {part}"
            there = [*dir(found), *(module.name for module in iter_modules(getattr(found, "__path__", [])))]
            near = difflib.get_close_matches(part, there, 1)
            did = f"; did you mean {'.'.join([*parts[:i], near[0]])}?" if near else ""
            return f"{'.'.join(parts[:i])} has no {part}{did}"
        except Exception as error:
            return f"{name} cannot be imported: {type(error).__name__}: {error}"
    return None


def _inner_faults(path: str, value: Any, kind: type) -> list[str]:
    """Targets inside of a node's values, which would be called too: a module may hold modules, a rule other rules."""
    if isinstance(value, Mapping) and "_target_" in value:
        return node_faults(path, value, kind)
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    return [fault for key, child in inner for fault in _inner_faults(f"{path}.{key}", child, kind)]


def cross_faults(cfg: Config, made: Mapping[str, Any]) -> list[str]:
    """Combinations that cannot work."""
    n, source = cfg.get("num_clients"), made.get("data")
    if integer("num_clients", n, 1):
        return []
    faults: list[str] = []
    if made.get("algo") and made.get("client"):
        faults += made["algo"].check(n, made["client"])
    if source is not None and made.get("partition"):
        faults += made["partition"].check(n, source.num_classes, source.num_train)
    if source is not None and made.get("availability"):
        faults += made["availability"].check(n, source.num_classes)
    return [full_name(cfg, fault) for fault in faults]


def memory_faults(cfg: Config, made: Mapping[str, Any]) -> list[str]:
    """Data that are made, and larger than the memory of this machine."""
    n, source = cfg.get("num_clients"), made.get("data")
    if source is None or integer("num_clients", n, 1):
        return []
    size, free = source.num_bytes(n), free_bytes()
    if free is None or size <= free:
        return []
    return [
        f"num_clients={n}: their data take {size / 1e9:.3g} GB of memory and {free / 1e9:.3g} GB are free; take "
        "fewer clients, or smaller data"
    ]


def full_name(cfg: Config, fault: str) -> str:
    """A fault that begins with a bare key of one of the groups, with the group before it."""
    head = re.split("[=: ]", fault)[0]
    groups = [group for group in ("partition", "data", "availability", "algo") if head in (cfg.get(group) or {})]
    return f"{groups[0]}.{fault}" if groups else fault
