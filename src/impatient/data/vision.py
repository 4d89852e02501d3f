"""MNIST, Fashion-MNIST and CIFAR-10 through torchvision."""

import contextlib
import logging
import math
import os
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torchvision
from torch import Tensor

from impatient.checks import ConfigError, check, one_of
from impatient.data.dataset import Dataset, Source

TIMEOUT = 10.0  # seconds that a download may stand still

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Known:
    """What torchvision calls a set, the files it wants under the root, archives it can unpack, and the arrays.

    sizes: of the files, in bytes, where torchvision reads them without looking at a checksum.
    """

    cls: str
    title: str
    files: tuple[str, ...]
    archives: tuple[str, ...]
    num_train: int
    shape: tuple[int, int, int]
    sizes: tuple[int, ...] = ()


def _idx(cls: str, title: str) -> _Known:
    stems = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    files = tuple(f"{cls}/raw/{stem}-ubyte" for stem in stems)
    sizes = tuple(head + n * each for n in (60_000, 10_000) for head, each in ((16, 28 * 28), (8, 1)))
    return _Known(cls, title, files, tuple(f"{file}.gz" for file in files), 60_000, (1, 28, 28), sizes)


_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta")
KNOWN = {
    "mnist": _idx("MNIST", "MNIST"),
    "fashion_mnist": _idx("FashionMNIST", "Fashion-MNIST"),
    "cifar10": _Known(
        "CIFAR10",
        "CIFAR-10",
        tuple(f"cifar-10-batches-py/{batch}" for batch in _BATCHES),
        ("cifar-10-python.tar.gz",),
        50_000,
        (3, 32, 32),
    ),
}


def check_channels(mean: Sequence[float], std: Sequence[float], channels: int) -> str | None:
    """Say why mean and std are not one finite number a channel, std positive; None if they are."""
    for name, values, low in (("mean", mean, -math.inf), ("std", std, 0.0)):
        listed = isinstance(values, Sequence) and not isinstance(values, str) and len(values) == channels
        if not listed or not all(type(v) in (int, float) and low < v < math.inf for v in values):
            positive = "positive " if name == "std" else ""
            return (
                f"{name}={values!s}: must be a list of {channels} {positive}number{'s' * (channels > 1)}, one a channel"
            )
    return None


def check_folder(name: str, value: Any) -> str | None:
    """Say that `value` is no path; None if it is one."""
    return None if isinstance(value, str | os.PathLike) and str(value) else f"{name}={value!s}: must be a folder's path"


class TorchVision(Source):
    """One of torchvision's image sets, found under `root` as torchvision unpacks it, or else downloaded there.

    x: uint8 [n, 1, 28, 28] (mnist, fashion_mnist: 60,000 and 10,000) or [n, 3, 32, 32] (cifar10: 50,000 and 10,000).
    mean, std: one number a channel, of x/255. A root with the files in it may be read-only.
    """

    num_classes = 10

    def __init__(self, name: str, root: str, mean: Sequence[float], std: Sequence[float]) -> None:
        check(one_of("name", name, list(KNOWN)), check_folder("root", root))
        self.name, self.known = name, KNOWN[name]
        check(check_channels(mean, std, self.known.shape[0]))
        self.root = Path(root).expanduser()
        self.mean, self.std = tuple(mean), tuple(std)
        self.num_train = self.known.num_train

    def load(self, num_clients: int, seed: int) -> Dataset:
        """Both arguments are ignored. Raises ConfigError if files are missing and cannot be had, or are broken."""
        if self._missing():
            self._download()
        folder = (self.root / self.known.files[0]).parent
        try:
            self._check_sizes()
            x, y, classes = self._read(train=True)
            x_test, y_test, _ = self._read(train=False)
        except Exception as error:  # torchvision meets a broken file with almost any of them
            raise ConfigError(
                f"data={self.name}: the files in {folder} are broken ({type(error).__name__}: {error}); "
                "delete that folder to download them again, or put the original files there"
            ) from error
        return Dataset(self.name, x, y, x_test, y_test, classes=classes, mean=self.mean, std=self.std)

    def _missing(self) -> list[str]:
        return [file for file in self.known.files if not (self.root / file).is_file()]

    def _check_sizes(self) -> None:
        for file, size in zip(self.known.files, self.known.sizes, strict=False):
            if (found := (self.root / file).stat().st_size) != size:
                raise ValueError(f"{Path(file).name} has {found:,} bytes instead of {size:,}")

    def _read(self, train: bool) -> tuple[Tensor, Tensor, tuple[str, ...]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old pickles, new numpy
            data = getattr(torchvision.datasets, self.known.cls)(str(self.root), train=train, download=False)
        x, y = torch.as_tensor(data.data), torch.as_tensor(data.targets, dtype=torch.int64)
        x = x.unsqueeze(1) if x.ndim == 3 else x.permute(0, 3, 1, 2).contiguous()
        expected = (self.num_train if train else 10_000, *self.known.shape)
        if x.dtype != torch.uint8 or tuple(x.shape) != expected or len(y) != len(x):
            raise ValueError(f"images {list(x.shape)} and labels {list(y.shape)} instead of images {list(expected)}")
        if int(y.min()) < 0 or int(y.max()) > 9:
            raise ValueError(f"labels from {int(y.min())} to {int(y.max())} instead of 0 to 9")
        return x, y, tuple("0123456789") if self.name == "mnist" else tuple(data.classes)

    def _download(self) -> None:
        """Download into a folder of its own under root, then move each file into place: never half a file."""
        logger.info("%s is not under %s: downloading", self.known.title, self.root)
        was_there = self.root.exists()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".download-", dir=self.root) as fresh:
                for archive in filter(lambda a: (self.root / a).is_file(), self.known.archives):
                    (Path(fresh) / archive).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(self.root / archive, Path(fresh) / archive)
                with _patience(TIMEOUT), contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on torchvision's tarfile call
                    getattr(torchvision.datasets, self.known.cls)(fresh, download=True)
                for file in self.known.files:
                    (self.root / file).parent.mkdir(parents=True, exist_ok=True)
                    os.replace(Path(fresh) / file, self.root / file)
        except Exception as error:  # urllib, sockets, checksums, a full or read-only disk
            if not was_there:  # mistyped, perhaps
                with contextlib.suppress(OSError):
                    self.root.rmdir()
            reason = " ".join(str(error).split())
            if len(reason) > 160:  # the last of several tries
                reason = f"… {reason[-160:].partition(' ')[2]}"
            first, *others = self._missing()
            raise ConfigError(
                f"data={self.name}: {self.known.title} is not under {self.root.absolute()}, and the download failed "
                f"({type(error).__name__}: {reason}). Set paths.data_dir (or the variable IMPATIENT_DATA_DIR) "
                f"to the folder that holds {first} and {len(others)} other files of it, or {self.known.archives[0]}"
            ) from error


@contextlib.contextmanager
def _patience(seconds: float) -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
