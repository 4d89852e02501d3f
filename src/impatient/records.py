"""What a run left in its folder, read with care: somebody else may have sent it, or a kill torn it."""

import json
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from impatient.checks import ConfigError


def overrides_of(path: Path) -> list[str]:
    """A run's overrides.json. Raises ValueError for what no run keeps, OSError, and RecursionError.

    They are about the run itself: no flags, and nothing of Hydra's, which could name files and programs.
    """
    saved = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(saved, list) or not all(isinstance(word, str) for word in saved):
        raise ValueError("holds no list of overrides")
    for word in saved:
        if word.startswith("-") or re.match(r"[+~]*(hydra([./@=]|$)|paths\.run_dir\b)", word):
            raise ValueError(f"no run keeps {word}")
    return saved


def config_of(path: Path) -> dict[str, Any]:
    """A run's config.yaml. Raises ConfigError for one that no run wrote.

    Runs write values. References (${…}) could ask for the environment's secrets, and aliases grow without bound.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise ValueError("has aliases")
        node = yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read ({' '.join(str(error).split())})") from error
    if not isinstance(node, dict):
        raise ConfigError(f"{path}: is not the config of a run")
    references = [f"{path}: {key}={value}: must be a value" for key, value in flat(node).items() if "${" in str(value)]
    if references:
        raise ConfigError(*references)
    return {str(key): value for key, value in node.items()}


def flat(node: Any, path: str = "") -> dict[str, Any]:
    """The values of nested dicts by dotted name."""
    if not isinstance(node, dict):
        return {path: node}
    return {k: v for key, child in node.items() for k, v in flat(child, f"{path}.{key}".lstrip(".")).items()}


def summary_of(folder: Path, done: int) -> dict[str, Any] | None:
    """The summary of a run that finished with `done` rounds, where there is one."""
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        return summary if summary["round"] + 1 == done and "train/objective" in summary else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def rounds_in(folder: Path) -> int:
    """The rows of its metrics.csv; 0 where there is none."""
    table = folder / "metrics.csv"
    return max(0, len(table.read_bytes().splitlines()) - 1) if table.exists() else 0
