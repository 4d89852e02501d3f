"""Availability read from a file."""

import json
import logging
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from impatient.availability.base import Availability
from impatient.checks import ConfigError, check, one_of
from impatient.machine import free_bytes
from impatient.messages import Ids, Population

log = logging.getLogger(__name__)


class Trace(Availability):
    """A recorded mask, rounds × clients.

    path: .npy or .csv with a T x N table of 0 and 1, or .json with the list of active client ids of each round.
    on_end: what follows the last recorded round: wrap (from the start again), hold (its mask for ever), error.
    """

    def __init__(self, path: str, on_end: str = "wrap") -> None:
        self.path, self.on_end = path, on_end
        check(
            one_of("on_end", on_end, ("wrap", "hold", "error")),
            _why_not_a_file(path),
        )

    def check(self, num_clients: int, num_classes: int | None) -> list[str]:
        """The file must be readable and about this many clients."""
        try:
            read_trace(Path(self.path), num_clients)
        except ConfigError as error:
            return error.faults
        return []

    def setup(self, population: Population, seed: int) -> None:
        """Read the file."""
        super().setup(population, seed)
        self.table = torch.from_numpy(read_trace(Path(self.path), self.num_clients))
        log.info("trace of %d rounds from %s, then: %s", len(self.table), self.path, self.on_end)

    def mask(self, round: int) -> Tensor:
        """The recorded row. Raises ConfigError past the end with on_end=error."""
        length = len(self.table)
        if round >= length and self.on_end == "error":
            raise ConfigError(
                f"availability.path={self.path}: the trace ends after {length} rounds and round {round} is asked for; "
                "run fewer rounds, or set availability.on_end=wrap or hold"
            )
        return self.table[round % length if self.on_end == "wrap" else min(round, length - 1)].clone()

    def absent(self) -> Ids:
        """Clients that no recorded round names."""
        return (~self.table.any(0)).nonzero().flatten()


def _why_not_a_file(path: object) -> str | None:
    if not isinstance(path, str) or Path(path).suffix not in (".npy", ".csv", ".json"):
        return f"path={path}: must name a .npy, .csv or .json file"
    return None if Path(path).is_file() else f"path={path}: there is no such file"


def read_trace(path: Path, num_clients: int) -> np.ndarray:
    """The mask in a file, bool [T, N]. Raises ConfigError saying what is wrong with it."""
    try:
        if path.suffix == ".json":
            _fits(path, 20 * path.stat().st_size)  # "[],", three characters, is a list of 56 bytes
            table = _from_ids(json.loads(path.read_text(encoding="utf-8-sig")), path, num_clients)
        elif path.suffix == ".csv":
            _fits(path, path.stat().st_size // 2)
            table = _from_csv(path, num_clients)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # a shape beyond all integers
                table = np.lib.format.open_memmap(path, mode="r")  # refuses pickles and archives
    except ConfigError:
        raise
    except (ValueError, OSError, EOFError, RecursionError, OverflowError, RuntimeWarning) as error:
        raise ConfigError(f"availability.path={path}: cannot be read: {error}") from error
    if table.ndim != 2 or len(table) == 0:
        raise ConfigError(f"availability.path={path}: must hold a table rounds x clients, not shape {table.shape}")
    if table.shape[1] != num_clients:
        raise ConfigError(f"availability.path={path}: is about {table.shape[1]} clients, num_clients={num_clients}")
    _fits(path, table.size)
    mask = np.empty(table.shape, dtype=bool)
    step = max(1, 2**22 // num_clients)
    for start in range(0, len(table), step):  # in pieces: comparing takes several times the memory
        rows = table[start : start + step]
        if table.dtype.kind not in "biuf" or not ((rows == 0) | (rows == 1)).all():
            raise ConfigError(f"availability.path={path}: must hold only 0 and 1")
        mask[start : start + step] = rows
    return mask


def _fits(path: Path, size: int) -> None:
    """Raise ConfigError where reading takes more bytes than are free."""
    free = free_bytes()
    if free is not None and size > free:
        raise ConfigError(
            f"availability.path={path}: takes {size / 1e9:.3g} GB of memory, and {free / 1e9:.3g} GB are free; give "
            "fewer rounds, as .npy"
        )


def _from_csv(path: Path, num_clients: int) -> np.ndarray:
    """bool [T, width], a line at a time, and of a line no more than so many clients can take."""
    table, width, most = bytearray(), 0, 32 * (num_clients + 1)
    with path.open(encoding="utf-8-sig") as file:
        while line := file.readline(most):
            if len(line) == most and not line.endswith("\n"):
                raise ConfigError(
                    f"availability.path={path}: has lines of more than {most} characters, num_clients={num_clients}"
                )
            if not line.strip():
                continue
            row = np.array([float(cell) for cell in line.split(",")])
            if width not in (0, len(row)):
                raise ValueError(f"it has lines of {width} and of {len(row)} cells")
            if not ((row == 0) | (row == 1)).all():
                raise ConfigError(f"availability.path={path}: must hold only 0 and 1")
            width = len(row)
            table += row.astype(bool).tobytes()
    return np.frombuffer(bytes(table), dtype=bool).reshape(-1, width) if width else np.empty((0, 0), dtype=bool)


def _from_ids(rounds: object, path: Path, num_clients: int) -> np.ndarray:
    if not isinstance(rounds, list) or not all(isinstance(ids, list) for ids in rounds):
        raise ConfigError(f"availability.path={path}: must be a list with a list of client ids for each round")
    _fits(path, len(rounds) * num_clients)
    table = np.zeros((len(rounds), num_clients), dtype=bool)
    for t, ids in enumerate(rounds):
        for i in ids:
            if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < num_clients:
                raise ConfigError(
                    f"availability.path={path}: round {t} names client {i!r}; ids must be integers below "
                    f"num_clients={num_clients}"
                )
            if table[t, i]:
                raise ConfigError(
                    f"availability.path={path}: round {t} names client {i} twice; a .json file lists the ids that are "
                    "there, a table of 0 and 1 goes into .csv or .npy"
                )
            table[t, i] = True
    return table
