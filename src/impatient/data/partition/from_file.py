"""A partition that the user brings."""

import os

import numpy as np

from impatient.checks import check
from impatient.data.partition.base import Partition, load, verify


class FromFile(Partition):
    """A JSON list of index lists, one a client, such as the partition.json that every run leaves behind."""

    def __init__(self, path: str | None) -> None:
        given = isinstance(path, str | os.PathLike) and str(path)
        check(None if given else f"path={path!s}: must be the path of a JSON file with a list of index lists")
        self.path = os.path.expanduser(str(path))

    def check(self, num_clients: int, num_classes: int | None, num_train: int | None) -> list[str]:
        """Too many clients, or a file that is not there."""
        missing = (
            [] if os.path.isfile(self.path) else [f"path={self.path}: no such file; give a JSON list of index lists"]
        )
        return super().check(num_clients, num_classes, num_train) + missing

    def split(self, labels: np.ndarray, num_classes: int, num_clients: int, seed: int) -> list[np.ndarray]:
        """The file's lists, N arrays of int64. Raises ConfigError naming the client and the index at fault."""
        return verify(load(self.path), len(labels), num_clients)
