"""A folder of images, one subfolder a class; decoded once."""

import hashlib
import logging
import os
import stat
import threading
import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torchvision.datasets.folder import IMG_EXTENSIONS

from impatient.checks import ConfigError, check, integer, one_of
from impatient.data.dataset import Dataset, Source
from impatient.data.vision import check_channels, check_folder
from impatient.files import whole
from impatient.machine import free_bytes

SHOWN = 5  # faults named in one message
# What IMG_EXTENSIONS stand for, and GIF, which data from the web has under these names. Pillow goes by the content of a
# file, and runs Ghostscript on PostScript.
FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP", "GIF")
MOST_PIXELS = 2**26  # of one image: 8000 x 8000
MOST_BYTES = 2**30  # of one file: more than so many pixels take in any format
LARGE = 2**22  # pixels, or bytes of a file: at 12 bytes a pixel, 50 MB while it is decoded. Larger ones go one by one.
Listing = list[tuple[str, int, int, int]]

logger = logging.getLogger(__name__)


class ImageFolder(Source):
    """Images under root/train/<class>/ and root/test/<class>/, the same classes in both; hidden files are passed over.

    Each is turned upright (EXIF), made grey or RGB and resized (bilinear) to `size` = (height, width) if it differs.
    x: uint8 [n, channels, height, width]; classes and files in the order of their names. mean, std: one number a
    channel, of x/255.

    The arrays are kept in `cache_dir` (root/.impatient_cache by default) and read from there as long as no file
    was added, removed or changed in size or time; where that folder cannot be written there is no cache.
    """

    def __init__(
        self,
        root: str,
        size: Sequence[int],
        channels: int = 3,
        mean: Sequence[float] = (0.5, 0.5, 0.5),
        std: Sequence[float] = (0.5, 0.5, 0.5),
        cache_dir: str | None = None,
    ) -> None:
        channel_fault = one_of("channels", channels, (1, 3))
        check(
            check_folder("root", root),
            _check_size(size),
            channel_fault or check_channels(mean, std, channels),
            None if cache_dir is None else check_folder("cache_dir", cache_dir),
        )
        self.root = Path(root).expanduser()
        self.height, self.width = size
        self.channels, self.mean, self.std = channels, tuple(mean), tuple(std)
        self.cache_dir = self.root / ".impatient_cache" if cache_dir is None else Path(cache_dir).expanduser()

    def load(self, num_clients: int, seed: int) -> Dataset:
        """Both arguments are ignored. Raises ConfigError naming the folders or images at fault."""
        try:
            classes, train, test = self._list()
        except OSError as error:  # a loop of links, a folder that may not be read
            raise ConfigError(f"data.root={self.root}: {error.filename} cannot be read ({error.strerror})") from error
        self._fits(len(train) + len(test))
        key = self._key(train + test)
        arrays = self._cached(key, train, test)
        if arrays is None:
            arrays = [tensor for listing in (train, test) for tensor in self._decode(listing)]
            self._keep(key, arrays)
        x, y, x_test, y_test = arrays
        return Dataset("image_folder", x, y, x_test, y_test, classes=tuple(classes), mean=self.mean, std=self.std)

    def _fits(self, count: int) -> None:
        """Raise ConfigError where that many images of this size, and one being decoded, take more than is free."""
        size, free = count * self.height * self.width * self.channels, free_bytes()
        if free is not None and size > free:
            raise ConfigError(
                f"size={[self.height, self.width]}: {count} images of {self.root} take {size / 1e9:.3g} GB of memory, "
                f"and {free / 1e9:.3g} GB are free; make them smaller, or fewer"
            )

    def _list(self) -> tuple[list[str], Listing, Listing]:
        """The classes, and for each part (path below root, label, bytes, time) of every image."""
        parts = [self.root / part for part in ("train", "test")]
        way_out = f"expected under data.root={self.root.absolute()}: train/<class>/* and test/<class>/*"
        check(*(f"{part}: no such folder; {way_out}" for part in parts if not part.is_dir()))
        names = [sorted(e.name for e in _visible(part) if e.is_dir()) for part in parts]
        classes = names[0]
        check(
            None if classes else f"{parts[0]}: has no class folders; {way_out}",
            _differ(f"{parts[1]}: lacks classes of train/", set(classes) - set(names[1])),
            _differ(f"{parts[1]}: has classes that train/ lacks", set(names[1]) - set(classes)),
        )
        listings = [[item for c, name in enumerate(classes) for item in self._images(part / name, c)] for part in parts]
        empty = [
            str(part / name)
            for part, listing in zip(parts, listings, strict=True)
            for name in (classes[c] for c in sorted(set(range(len(classes))) - {item[1] for item in listing}))
        ]
        check(_differ(f"no images ({' '.join(IMG_EXTENSIONS)}) in", empty))
        return classes, listings[0], listings[1]

    def _images(self, folder: Path, label: int) -> Listing:
        found = []
        for entry in sorted(_visible(folder), key=lambda e: e.name):
            if entry.name.lower().endswith(IMG_EXTENSIONS):
                info = entry.stat()  # a link that leads nowhere is a fault: that image would be missed
                if stat.S_ISREG(info.st_mode):
                    found.append((os.path.relpath(entry.path, self.root), label, info.st_size, info.st_mtime_ns))
        return found

    def _key(self, listing: Listing) -> str:
        text = repr((1, self.height, self.width, self.channels, listing))
        return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()

    @property
    def _cache(self) -> Path:
        home = hashlib.blake2b(os.fsencode(self.root.resolve()), digest_size=6).hexdigest()
        return self.cache_dir / f"{home}-{self.channels}x{self.height}x{self.width}.pt"

    def _cached(self, key: str, train: Listing, test: Listing) -> list[torch.Tensor] | None:
        if not self._cache.is_file():
            return None
        try:
            kept = torch.load(self._cache, weights_only=True)
            if kept["key"] != key:
                logger.info("the images under %s have changed: decoding them again", self.root)
                return None
            arrays = [kept[name] for name in ("x", "y", "x_test", "y_test")]
            for x, y, listing in ((*arrays[:2], train), (*arrays[2:], test)):
                shape = (len(listing), self.channels, self.height, self.width)
                if x.dtype != torch.uint8 or tuple(x.shape) != shape or not torch.equal(y, _labels(listing)):
                    raise ValueError("its arrays are not those of the folder")
            return arrays
        except Exception as error:  # a torn or foreign file: as good as none
            logger.warning("cannot read the cache %s (%s): decoding again", self._cache, error)
            return None

    def _keep(self, key: str, arrays: list[torch.Tensor]) -> None:
        try:
            self.cache_dir.mkdir(parents=True, exist_ok=True)
            with whole(self._cache, shared=True) as file:
                torch.save({"key": key, **dict(zip(("x", "y", "x_test", "y_test"), arrays, strict=True))}, file)
        except (OSError, RuntimeError) as error:
            logger.warning("no cache of decoded images in %s (%s)", self.cache_dir, error)

    def _decode(self, listing: Listing) -> tuple[torch.Tensor, torch.Tensor]:
        """uint8 [n, C, H, W] and int64 [n]. Raises ConfigError naming the images that cannot be read."""
        start = time.perf_counter()
        x = np.empty((len(listing), self.channels, self.height, self.width), dtype=np.uint8)
        alone = threading.RLock()

        def decode(i: int) -> str | None:
            try:
                x[i] = self._read(self.root / listing[i][0], listing[i][2], alone).transpose(2, 0, 1)
            except Exception as error:  # Pillow meets a broken file with almost any of them
                return f"{listing[i][0]} ({error})"
            return None

        with warnings.catch_warnings(), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            warnings.simplefilter("ignore")  # odd but readable metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            broken = [fault for fault in pool.map(decode, range(len(listing))) if fault]
        check(_differ(f"{self.root.absolute()}: cannot read {len(broken)} of {len(listing)} images", broken))
        logger.info("decoded %d images of %s in %.1f s", len(x), self.root, time.perf_counter() - start)
        return torch.from_numpy(x), _labels(listing)

    def _read(self, path: Path, size: int, alone: threading.RLock) -> np.ndarray:
        """[H, W, C] of a file of so many bytes; one that is large with nothing else beside it that is."""
        if size > MOST_BYTES:
            raise ValueError(f"{size:,} bytes; more than {MOST_BYTES:,} are not read")
        with ExitStack() as held:
            if size > LARGE:
                held.enter_context(alone)
            image = held.enter_context(Image.open(path, formats=FORMATS))
            pixels = image.width * image.height
            if pixels > MOST_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels; more than {MOST_PIXELS:,} are not decoded")
            if image.mode.startswith(("I", "F")):  # Pillow would clip these, not scale them
                raise ValueError(f"mode {image.mode}: more than 8 bits a channel; convert it first")
            if pixels > LARGE:
                held.enter_context(alone)
                free = free_bytes()
                if free is not None and 12 * pixels > free:
                    raise ValueError(f"{pixels:,} pixels; {free / 1e6:.3g} MB of memory are free to decode it")
            image.load()
            upright = ImageOps.exif_transpose(image).convert("L" if self.channels == 1 else "RGB")
        if upright.size != (self.width, self.height):
            upright = upright.resize((self.width, self.height), Image.Resampling.BILINEAR)
        return np.asarray(upright).reshape(self.height, self.width, self.channels)


def _labels(listing: Listing) -> torch.Tensor:
    """int64 [n]."""
    return torch.tensor([item[1] for item in listing], dtype=torch.int64)


def _check_size(size: Any) -> str | None:
    if not isinstance(size, Sequence) or len(size) != 2 or any(integer("size", side, 1, 65_535) for side in size):
        return f"size={size!s}: must be two positive integers, [height, width]"
    return None


def _visible(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return [entry for entry in entries if not entry.name.startswith(".")]


def _differ(what: str, names: Iterable[str]) -> str | None:
    """One fault with the first few names, or None where there are none."""
    listed = sorted(names)
    more = f", … and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return f"{what}: {', '.join(listed[:SHOWN])}{more}" if listed else None
