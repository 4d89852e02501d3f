"""A run's own record in its folder: what it writes beside its metrics, and all of it read back.

clients.csv        client,samples,probability,class/<name>,…      a row a client; the long-run p_i, empty if unknown
participation.csv  round,available,reported                       a row a round; each set of clients in hexadecimal,
                                                                  eight clients a byte, client 0 its highest bit

What is read is read with care: somebody else may have sent the folder, or a kill torn a file.
"""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]

from impatient import files
from impatient.checks import ConfigError

CLIENTS, PARTICIPATION = "clients.csv", "participation.csv"


def write_clients(
    folder: Path,
    samples: Sequence[int],
    probability: Sequence[float] | None,
    classes: Sequence[str],
    labels: np.ndarray,
) -> None:
    """Write clients.csv, in full or not at all. labels: counts int [N, C]."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["client", "samples", "probability", *(f"class/{name}" for name in classes)])
    for i, n in enumerate(samples):
        out.writerow([i, int(n), "" if probability is None else float(probability[i]), *labels[i].tolist()])
    files.write(folder / CLIENTS, text.getvalue())


def begin_masks(folder: Path, round: int) -> None:
    """Start participation.csv, or keep its whole rows of rounds before `round`, as metrics.csv is kept on resume."""
    path = folder / PARTICIPATION
    kept = []
    before = {str(t) for t in range(round)}
    if round and path.exists():
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines(keepends=True)[1:] if line.endswith("\n")]
        kept = [line for line in lines if line.split(",")[0] in before]
    files.write(path, "round,available,reported\n" + "".join(kept))


def append_masks(folder: Path, round: int, available: np.ndarray, reported: np.ndarray) -> None:
    """Add one round, in one write. available, reported: bool [N]."""
    sets = [np.packbits(mask).tobytes().hex() for mask in (available, reported)]
    with (folder / PARTICIPATION).open("a", encoding="utf-8") as file:
        file.write(f"{round},{','.join(sets)}\n")


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
