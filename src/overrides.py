"""What is wrong with the overrides of a command line, where Hydra stops with a traceback or without the way out."""

import difflib
import inspect
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import CompactHydraException, HydraException
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from impatient.checks import known

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs"
os.environ.setdefault("IMPATIENT_ROOT", str(ROOT))  # configs/paths
WRITE = "write key=value, with quotes around what has commas, brackets, spaces or signs: 'key=\"a, b\"'"
MOST = 64  # jobs of a sweep that are looked at


def group_faults(overrides: list[str]) -> list[str]:
    """Config groups that are given no choice's name, at which Hydra itself stops with a traceback."""
    faults = []
    for override in overrides:
        with suppress(CompactHydraException):  # Hydra will say so
            faults += _no_choice(parsed(override), override)
    return faults


def sift(overrides: list[str]) -> tuple[list[str], list[Override], list[Override]]:
    """What is wrong with the words of overrides and with choices; and the sound ones, of groups and of keys.

    A misspelt choice is sound as the nearest one. Where there is none, keys that depend on it are left out of both.
    """
    faults: list[str] = []
    groups: list[Override] = []
    keys: list[Override] = []
    lost: list[str] = []
    for override in overrides:
        try:
            one = parsed(override)
        except CompactHydraException as error:
            why = [text for text in str(error).splitlines() if not text.startswith(("Error parsing", "See "))]
            faults.append(f"{override}: is no override ({why[0]}); {WRITE}")
            continue
        if not _is_group(one) or isinstance(one.value(), dict):
            keys.append(one)
            continue
        found = _no_choice(one, override) or _no_such_choice(one)
        nearest = _nearest(one) if found else override
        faults += found
        groups += [parsed(nearest)] if nearest else []
        lost += [] if nearest else [one.key_or_group]
    if any(map(_brings_others, lost)):
        keys = [one for one in keys if "." not in one.key_or_group]
    keys = [one for one in keys if one.key_or_group.split(".")[0] not in lost]
    return faults, groups, keys


def with_known_keys(keys: list[Override], groups: list[Override], config_name: str) -> tuple[list[str], list[Override]]:
    """Unknown keys, with the nearest names, whatever is swept; and those that are known."""
    lacking: dict[str, set[str]] = {}
    sound, tried = list(keys), 0
    for choices, cfg in _composed(groups, config_name):
        tried += 1
        for one in keys:
            for fault in () if one.is_add() or one.is_force_add() else _unknown(one, cfg):
                lacking.setdefault(fault, set()).add(choices)
                sound = [other for other in sound if other is not one]
    some = [fault for fault, where in lacking.items() if len(where) < tried]
    faults = [fault for fault in lacking if fault not in some]
    for name in dict.fromkeys(fault.split(";")[0] for fault in some):
        where = sorted(set().union(*(lacking[fault] for fault in some if fault.startswith(f"{name};"))))
        faults.append(f"{name} with {' or '.join(where)}; run those apart")
    return faults, sound


@lru_cache(maxsize=128)
def compose_of(config_name: str, *overrides: str) -> DictConfig:
    """The config that they compose, with Hydra's own node; not to be changed. Raises what Hydra raises."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return compose(config_name, list(overrides), return_hydra_config=True)


def jobs_of(overrides: list[Override], config_name: str, groups_only: bool = False) -> list[list[str]]:
    """The overrides of each job, the first MOST of a sweep; of one that sweeps over config groups, or over anything.

    Raises what Hydra raises.
    """
    fixed = [str(one.input_line) for one in overrides if not one.is_sweep_override()]
    params = compose_of(config_name, *fixed).hydra.sweeper.get("params") or {}
    given = {one.key_or_group for one in overrides}
    swept = [parsed(f"{key}={value}") for key, value in params.items() if key not in given]
    swept += [one for one in overrides if one.is_sweep_override()]
    swept = [one for one in swept if _is_group(one) or not groups_only]
    jobs = [[*fixed, *job] for job in BasicSweeper.split_arguments(swept, None)[0][:MOST]]
    if not jobs:
        raise HydraException("chooses nothing that there is")
    return jobs


@lru_cache
def _parser() -> OverridesParser:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())


def parsed(override: str) -> Override:
    """Hydra's reading of it. Raises CompactHydraException."""
    (one,) = _parser().parse_overrides([override])
    return one


def _is_group(parsed: Override) -> bool:
    name = parsed.key_or_group
    return "/" in name or bool(name and (CONFIGS / name).is_dir())


def _files(group: str) -> list[Path]:
    return sorted((CONFIGS / group).glob("**/*.yaml"))  # none for Hydra's own groups


def _choices(group: str) -> list[str]:
    return [str(path.relative_to(CONFIGS / group).with_suffix("")) for path in _files(group)]


def _brings_others(group: str) -> bool:
    """Whether its choices set more than the group itself."""
    return any(re.search("_global_|override /", path.read_text(encoding="utf-8")) for path in _files(group))


def _no_choice(parsed: Override, override: str) -> list[str]:
    """Say that the value is nothing that could be a choice's name."""
    value = parsed.value()
    if not _is_group(parsed) or parsed.is_sweep_override() or parsed.is_force_add() or isinstance(value, dict):
        return []
    listed = value if isinstance(value, list) and not parsed.is_delete() else [value]
    if all(_names(item) or (item is None and parsed.is_delete()) for item in listed):
        return []
    choices = ", ".join(_choices(parsed.key_or_group))
    there_are = f"there are {choices}; " if choices else ""
    said = override.partition("=")[2]
    return [f"{parsed.key_or_group}={said}: names no choice; {there_are}leave it out for the default"]


def _names(item: Any) -> bool:
    """Whether this can be a choice's name: text, in which an interpolation names something."""
    return isinstance(item, str) and "${" not in re.sub(r"\$\{[\w/@.:]*\w[\w/@.:]*\}", "", item)


def _no_such_choice(parsed: Override) -> list[str]:
    """Say that there is no choice of that name, and which is the nearest."""
    choices = _choices(parsed.key_or_group)
    faults = []
    for name in _given(parsed) if choices else []:
        if isinstance(name, str) and name not in choices and name != "null" and "${" not in name:
            near = difflib.get_close_matches(name, choices, 1)
            did = f"did you mean {near[0]}? " if near else ""
            faults.append(f"{parsed.key_or_group}={name}: no such choice; {did}there are {', '.join(choices)}")
    return faults


def _nearest(parsed: Override) -> str | None:
    """The override with the nearest choices in it; None where there are none."""
    choices = _choices(parsed.key_or_group)
    near = [difflib.get_close_matches(str(name), choices, 1) for name in _given(parsed)]
    return f"{parsed.key_or_group}={','.join(name for (name,) in near)}" if all(near) else None


def _given(parsed: Override) -> list[Any]:
    return list(parsed.sweep_string_iterator()) if parsed.is_sweep_override() else [parsed.value()]


def _composed(groups: list[Override], config_name: str) -> Iterator[tuple[str, DictConfig]]:
    """Each choice of the groups that are swept, in words, and the config it composes."""
    fixed = sum(not one.is_sweep_override() for one in groups)
    try:
        for job in jobs_of(groups, config_name, groups_only=True):
            yield " ".join(job[fixed:]), compose_of(config_name, *job)
    except (HydraException, OmegaConfBaseException):
        return


def _unknown(parsed: Override, cfg: DictConfig) -> Iterator[str]:
    value = None if parsed.is_delete() or parsed.is_sweep_override() else parsed.value()
    for path in _paths(parsed.key_or_group, value):
        node: Any = cfg
        *above, last = path.split(".")
        for i, key in enumerate([*above, last]):
            if not isinstance(node, DictConfig):  # a value, or null: no struct whose keys are known
                break
            if node._get_node(key, validate_access=False) is None:
                here = ".".join([*above, last][: i + 1])
                said = known(here, key, [k for k in node if k not in ("_target_", "hydra")])
                adds = i == len(above) and not parsed.is_delete() and _takes(node, ".".join(above), key)
                yield f"{said}; +{path}=… adds it" if adds else str(said)
                break
            node = node._get_node(key)


def _paths(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, child in value.items():
            yield from _paths(f"{key}.{name}", child)
    else:
        yield key


def _takes(node: DictConfig, path: str, key: str) -> bool:
    """Whether the node could have this key as well."""
    if "_target_" in node and path != "trainer":  # most of what Lightning's takes has no meaning for rounds
        try:
            parameters = inspect.signature(get_object(node["_target_"])).parameters
        except Exception:  # a target of one's own may fail in any way
            return False
        return key in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return path in ("callbacks", "logger") or (path.startswith("hydra.") and OmegaConf.get_type(node) is dict)
