"""Who the clients of a run are and who took part when: two small files in its folder, written and read here.

clients.csv        client,samples,probability,class/<name>,…      a row a client; probability p_i(0), empty if unknown
participation.csv  round,available,reported                       a row a round; each set of clients in hexadecimal,
                                                                  eight clients a byte, client 0 its highest bit
"""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from impatient import files

CLIENTS, PARTICIPATION = "clients.csv", "participation.csv"
HEAD = "round,available,reported\n"


@dataclass(frozen=True)
class ClientTable:
    """samples int [N]; probability float [N], NaN where it is not known; classes, C names; labels, counts [N, C]."""

    samples: np.ndarray
    probability: np.ndarray
    classes: list[str]
    labels: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class Masks:
    """rounds int [T], ascending; available and reported bool [T, N]."""

    rounds: np.ndarray
    available: np.ndarray = field(repr=False)
    reported: np.ndarray = field(repr=False)


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


def clients(folder: Path) -> ClientTable | None:
    """clients.csv, or None where there is none or it is not whole."""
    try:
        with (folder / CLIENTS).open(newline="", encoding="utf-8") as file:
            head, *rows = list(csv.reader(file))
        names = [name.removeprefix("class/") for name in head[3:]]
        table = np.array([[float(cell) if cell else np.nan for cell in row] for row in rows]).reshape(-1, len(head))
    except (OSError, ValueError):
        return None
    if head[:3] != ["client", "samples", "probability"] or not len(table):
        return None
    return ClientTable(table[:, 1].astype(int), table[:, 2], names, table[:, 3:].astype(int))


def sizes(folder: Path) -> np.ndarray | None:
    """Samples of each client, int [N]: from clients.csv, else from partition.json; None without either."""
    if (table := clients(folder)) is not None:
        return table.samples
    try:
        owners = json.loads((folder / "partition.json").read_text(encoding="utf-8"))
        return np.array([len(own) for own in owners], dtype=int)
    except (OSError, ValueError, TypeError):
        return None


def begin_masks(folder: Path, round: int) -> None:
    """Start participation.csv, or keep its whole rows of rounds before `round`, as metrics.csv is kept on resume."""
    path = folder / PARTICIPATION
    kept = []
    before = {str(t) for t in range(round)}
    if round and path.exists():
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines(keepends=True)[1:] if line.endswith("\n")]
        kept = [line for line in lines if line.split(",")[0] in before]
    files.write(path, HEAD + "".join(kept))


def append_masks(folder: Path, round: int, available: np.ndarray, reported: np.ndarray) -> None:
    """Add one round, in one write. available, reported: bool [N]."""
    with (folder / PARTICIPATION).open("a", encoding="utf-8") as file:
        file.write(f"{round},{_hex(available)},{_hex(reported)}\n")


def _hex(mask: np.ndarray) -> str:
    return np.packbits(mask).tobytes().hex()


def masks(folder: Path, num_clients: int) -> Masks | None:
    """participation.csv of a run with N clients, without a torn last line; None where there is none or no row."""
    try:
        text = (folder / PARTICIPATION).read_text(encoding="utf-8")
    except OSError:
        return None
    digits = 2 * ((num_clients + 7) // 8)
    rows = [line.strip().split(",") for line in text.splitlines(keepends=True)[1:] if line.endswith("\n")]
    rows = [r for r in rows if len(r) == 3 and r[0].isdecimal() and len(r[1]) == len(r[2]) == digits]
    if not rows:
        return None
    sets = [_unpack([row[column] for row in rows], num_clients) for column in (1, 2)]
    return Masks(np.array([int(row[0]) for row in rows]), *sets)


def _unpack(cells: Sequence[str], num_clients: int) -> np.ndarray:
    packed = np.array([np.frombuffer(bytes.fromhex(cell), dtype=np.uint8) for cell in cells])
    return np.unpackbits(packed, axis=1, count=num_clients).astype(bool)
