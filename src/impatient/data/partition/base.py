"""What a partition promises, how that is verified, and how a partition is named and kept."""

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from impatient import files
from impatient.checks import ConfigError


class Partition(ABC):
    """Deals the n training samples out to N clients: frozen config, a pure function of labels and seed."""

    natural = False
    """Whether the data's own clients are kept, where it brings them."""

    def check(self, num_clients: int, num_classes: int | None, num_train: int | None) -> list[str]:
        """Faults that can be named before any data is read; None stands for a number not known yet."""
        return too_many_clients(num_clients, num_train)

    @abstractmethod
    def split(self, labels: np.ndarray, num_classes: int, num_clients: int, seed: int) -> list[np.ndarray]:
        """labels int64 [n] → the indices of each client, N arrays of int64, as `verify` passes them.

        Raises ConfigError where these labels cannot be dealt out so.
        """


def too_many_clients(num_clients: int, num_train: int | None, least: int = 1) -> list[str]:
    """Say that n samples do not give each of N clients its `least`; nothing where n is not known."""
    if num_train is None or num_clients * least <= num_train:
        return []
    need = f"{num_clients} clients with at least {least} sample{'s' * (least > 1)} each"
    return [f"num_clients={num_clients}: {need} need more than the {num_train} training samples; use fewer clients"]


def needs_classes(name: str, num_classes: int | None) -> list[str]:
    """Say that `name` splits by label, where the data has no classes."""
    if num_classes == 0:
        return [f"partition={name}: splits by label, and this data has no classes; use partition=iid, file or none"]
    return []


def verify(indices: Sequence[np.ndarray], num_samples: int, num_clients: int) -> list[np.ndarray]:
    """Pass on a partition in which everything is right; raise ConfigError naming the first client at fault if not.

    Right is: N arrays of int64, none empty, each index in [0, n) and owned once.
    """
    if len(indices) != num_clients:
        raise ConfigError(f"partition: has {len(indices)} clients, but num_clients={num_clients}; make them equal")
    owner = np.full(num_samples, -1, dtype=np.int64)
    for client, own in enumerate(indices):
        if own.ndim != 1 or own.dtype != np.int64:
            raise ConfigError(f"partition: client {client} has {own.dtype} {list(own.shape)}, not a list of integers")
        if not len(own):
            raise ConfigError(f"partition: client {client} has no samples; each client needs at least one")
        outside = own[(own < 0) | (own >= num_samples)]
        if len(outside):
            raise ConfigError(f"partition: client {client} has index {outside[0]}, outside [0, {num_samples - 1}]")
        taken = own[owner[own] >= 0]
        if len(taken):
            other = owner[taken[0]]
            raise ConfigError(f"partition: client {client} has index {taken[0]}, which client {other} has too")
        values, count = np.unique(own, return_counts=True)
        if count.max() > 1:
            raise ConfigError(f"partition: client {client} has index {values[count.argmax()]} more than once")
        owner[own] = client
    return list(indices)


def partition_hash(indices: Sequence[np.ndarray]) -> str:
    """A 128-bit hexadecimal name that depends on every client's indices and their order."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(np.array([len(own) for own in indices], dtype="<i8").tobytes())
    for own in indices:
        digest.update(np.asarray(own, dtype="<i8").tobytes())
    return digest.hexdigest()


def save(path: str | os.PathLike[str], indices: Sequence[np.ndarray]) -> None:
    """Write a list of index lists as JSON: the file is there in full or not at all."""
    files.write(Path(path), json.dumps([own.tolist() for own in indices]))


def load(path: str | os.PathLike[str]) -> list[np.ndarray]:
    """Read a JSON list of index lists, int64 each. Raises ConfigError naming the file and the first client at fault."""
    try:
        lists = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"path={path}: cannot be read ({error.strerror}); give a JSON list of index lists") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"path={path}: is no JSON ({error}); give a JSON list of index lists") from None
    if not isinstance(lists, list):
        raise ConfigError(f"path={path}: holds a {type(lists).__name__}; give a JSON list of index lists")
    for client, own in enumerate(lists):
        if not isinstance(own, list):
            raise ConfigError(f"path={path}: client {client} is {own!s:.50}, not a list of indices")
        for index in own:
            if type(index) is not int or abs(index) >= 2**63:
                raise ConfigError(f"path={path}: client {client} has {index!r:.50}, which is no index")
    return [np.array(own, dtype=np.int64) for own in lists]
