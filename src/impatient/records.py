"""Who the clients of a run are and who took part when: two small files that a run writes into its folder.

clients.csv        client,samples,probability,class/<name>,…      a row a client; probability p_i(0), empty if unknown
participation.csv  round,available,reported                       a row a round; each set of clients in hexadecimal,
                                                                  eight clients a byte, client 0 its highest bit
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from impatient import files

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
