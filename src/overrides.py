"""What is wrong with the overrides of a command line, where Hydra stops with a traceback or without the way out."""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import CompactHydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from impatient.checks import known

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
WRITE = "write key=value, with quotes around what has commas, brackets, spaces or signs: 'key=\"a, b\"'"
MOST = 64  # commands of a sweep that are looked at


def group_faults(overrides: list[str]) -> list[str]:
    """Config groups that are given no choice's name, at which Hydra itself stops with a traceback."""
    faults = []
    for override in overrides:
        try:
            parsed = _parsed(override)
        except CompactHydraException:  # Hydra will say so
            continue
        value = parsed.value()
        if not _is_group(parsed) or parsed.is_sweep_override() or parsed.is_force_add() or isinstance(value, dict):
            continue
        listed = value if isinstance(value, list) and not parsed.is_delete() else [value]
        if not all(_names(item) or (item is None and parsed.is_delete()) for item in listed):
            said = override.partition("=")[2]
            choices = ", ".join(_choices(parsed.key_or_group))
            there_are = f"there are {choices}; " if choices else ""
            faults.append(f"{parsed.key_or_group}={said}: names no choice; {there_are}leave it out for the default")
    return faults


def composition_faults(overrides: list[str], config_name: str) -> list[str]:
    """Why Hydra cannot compose them, with the nearest names; empty where Hydra's own message must do."""
    faults, parsed = [], []
    for override in overrides:
        try:
            parsed.append(_parsed(override))
        except CompactHydraException as error:
            why = [text for text in str(error).splitlines() if not text.startswith(("Error parsing", "See "))]
            faults.append(f"{override}: is no override ({why[0]}); {WRITE}")
    groups = [one for one in parsed if _is_group(one) and not isinstance(one.value(), dict)]
    faults += [fault for one in groups for fault in _no_such_choice(one)]
    if faults:
        return faults
    keys = [one for one in parsed if one not in groups and not one.is_add() and not one.is_force_add()]
    lacking: dict[str, set[str]] = {}
    tried = 0
    for choices, cfg in _composed(groups, config_name):
        tried += 1
        for fault in (fault for one in keys for fault in _unknown(one, cfg)):
            lacking.setdefault(fault, set()).add(choices)
    some = [fault for fault, where in lacking.items() if len(where) < tried]
    for name in dict.fromkeys(fault.split(";")[0] for fault in some):
        where = sorted(set().union(*(lacking[fault] for fault in some if fault.startswith(f"{name};"))))
        faults.append(f"{name} with {' or '.join(where)}; run those apart")
    return [*(fault for fault in lacking if fault not in some), *faults]


def _parsed(override: str) -> Override:
    (parsed,) = OverridesParser.create().parse_overrides([override])
    return parsed


def _is_group(parsed: Override) -> bool:
    name = parsed.key_or_group
    return "/" in name or bool(name and (CONFIGS / name).is_dir())


def _names(item: Any) -> bool:
    """Whether this can be a choice's name: text, in which an interpolation names something."""
    return isinstance(item, str) and "${" not in re.sub(r"\$\{[\w/@.:]*\w[\w/@.:]*\}", "", item)


def _choices(group: str) -> list[str]:
    return sorted(
        str(path.relative_to(CONFIGS / group).with_suffix("")) for path in (CONFIGS / group).glob("**/*.yaml")
    )


def _no_such_choice(parsed: Override) -> list[str]:
    group, value = parsed.key_or_group, parsed.value()
    choices = _choices(group)  # none for Hydra's own groups
    given = list(parsed.sweep_string_iterator()) if parsed.is_sweep_override() else [value]
    faults = []
    for name in given:
        if choices and isinstance(name, str) and name not in choices and name != "null" and "${" not in name:
            near = difflib.get_close_matches(name, choices, 1)
            did = f"did you mean {near[0]}? " if near else ""
            faults.append(f"{group}={name}: no such choice; {did}there are {', '.join(choices)}")
    return faults


def _composed(groups: list[Override], config_name: str) -> Iterator[tuple[str, DictConfig]]:
    """Each choice of the groups that are swept, in words, and the config it composes."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        fixed = [str(one.input_line) for one in groups if not one.is_sweep_override()]
        try:
            first = compose(config_name, fixed, return_hydra_config=True)
            params = first.hydra.sweeper.get("params") or {}
            swept = [
                one for k, v in params.items() if _is_group(one := _parsed(f"{k}={v}")) and one.is_sweep_override()
            ]
            given = {one.key_or_group for one in groups}
            swept = [one for one in swept if one.key_or_group not in given]
            swept += [one for one in groups if one.is_sweep_override()]
            if not swept:
                yield "", first
                return
            for choices in BasicSweeper.split_arguments(swept, None)[0][:MOST]:
                yield " ".join(choices), compose(config_name, [*fixed, *choices], return_hydra_config=True)
        except (CompactHydraException, OmegaConfBaseException):
            return


def _unknown(parsed: Override, cfg: DictConfig) -> Iterator[str]:
    value = None if parsed.is_delete() or parsed.is_sweep_override() else parsed.value()
    for path in _paths(parsed.key_or_group, value):
        node: Any = cfg
        *above, last = path.split(".")
        for i, key in enumerate([*above, last]):
            if not isinstance(node, DictConfig):  # a value, or null: no struct whose keys are known
                break
            if key not in node:
                said = known(
                    ".".join([*above, last][: i + 1]), key, [k for k in node if k not in ("_target_", "hydra")]
                )
                yield f"{said}; +{path}=… adds it" if key == last and not parsed.is_delete() else str(said)
                break
            node = node._get_node(key)


def _paths(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, child in value.items():
            yield from _paths(f"{key}.{name}", child)
    else:
        yield key
