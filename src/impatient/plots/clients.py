"""Who the clients of a run are and who took part when, as it left them in clients.csv and participation.csv."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from impatient.records import CLIENTS, PARTICIPATION


class Clients(NamedTuple):
    """samples int [N]; probability float [N], NaN where it is not known; labels: counts int [N, C], named by class."""

    samples: np.ndarray
    probability: np.ndarray
    labels: pd.DataFrame


class Masks(NamedTuple):
    """rounds int [T], ascending; available and reported bool [T, N]."""

    rounds: np.ndarray
    available: np.ndarray
    reported: np.ndarray


def read(folder: Path) -> Clients | None:
    """clients.csv, or None where there is none or it is not whole."""
    try:
        table = pd.read_csv(folder / CLIENTS)
        labels = table.filter(regex="^class/").astype(int).rename(columns=lambda name: name.removeprefix("class/"))
        samples, probability = table["samples"].to_numpy(int), table["probability"].to_numpy(float)
    except (OSError, ValueError, KeyError):
        return None
    return Clients(samples, probability, labels) if len(table) else None


def sizes(folder: Path) -> np.ndarray | None:
    """Samples of each client, int [N]: from clients.csv, else from partition.json; None without either."""
    if (table := read(folder)) is not None:
        return table.samples
    try:
        owners = json.loads((folder / "partition.json").read_text(encoding="utf-8"))
        return np.array([len(own) for own in owners], dtype=int)
    except (OSError, ValueError, TypeError):
        return None


def masks(folder: Path, num_clients: Any) -> Masks | None:
    """participation.csv of a run with N clients, without a torn last line; None without it, a row or N."""
    if not isinstance(num_clients, int):
        return None
    try:
        lines = (folder / PARTICIPATION).read_text(encoding="utf-8").splitlines(keepends=True)[1:]
    except OSError:
        return None
    digits = 2 * ((num_clients + 7) // 8)
    rows = [line.strip().split(",") for line in lines if line.endswith("\n")]
    rows = [r for r in rows if len(r) == 3 and r[0].isdecimal() and len(r[1]) == len(r[2]) == digits]
    if not rows:
        return None
    packed = np.array([[list(bytes.fromhex(cell)) for cell in row[1:]] for row in rows], dtype=np.uint8)
    available, reported = np.unpackbits(packed, axis=2, count=num_clients).astype(bool).swapaxes(0, 1)
    return Masks(np.array([int(row[0]) for row in rows]), available, reported)
