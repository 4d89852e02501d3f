"""A folder of images, one subfolder a class; decoded once."""

import hashlib
import logging
import os
import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torchvision.datasets.folder import IMG_EXTENSIONS

from impatient.checks import ConfigError, check, integer, one_of
from impatient.data.dataset import Dataset, Source
from impatient.data.vision import check_channels, check_folder
from impatient.machine import free_bytes

SHOWN = 5  # faults named in one message
# What IMG_EXTENSIONS stand for. Pillow goes by a file's content, and runs Ghostscript on PostScript.
FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP")
MOST_PIXELS = 2**26  # of one image: 8000 x 8000, 200 MB while it is decoded
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
        classes, train, test = self._list()
        key = self._key(train + test)
        arrays = self._cached(key)
        if arrays is None:
            arrays = [tensor for listing in (train, test) for tensor in self._decode(listing)]
            self._keep(key, arrays)
        x, y, x_test, y_test = arrays
        return Dataset("image_folder", x, y, x_test, y_test, classes=tuple(classes), mean=self.mean, std=self.std)

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
            if entry.name.lower().endswith(IMG_EXTENSIONS) and entry.is_file():
                stat = entry.stat()
                found.append((os.path.relpath(entry.path, self.root), label, stat.st_size, stat.st_mtime_ns))
        return found

    def _key(self, listing: Listing) -> str:
        text = repr((1, self.height, self.width, self.channels, listing))
        return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()

    @property
    def _cache(self) -> Path:
        home = hashlib.blake2b(os.fsencode(self.root.resolve()), digest_size=6).hexdigest()
        return self.cache_dir / f"{home}-{self.channels}x{self.height}x{self.width}.pt"

    def _cached(self, key: str) -> list[torch.Tensor] | None:
        if not self._cache.is_file():
            return None
        try:
            kept = torch.load(self._cache, weights_only=True)
            if kept["key"] != key:
                logger.info("the images under %s have changed: decoding them again", self.root)
                return None
            return [kept[name] for name in ("x", "y", "x_test", "y_test")]
        except Exception as error:  # a torn or foreign file: as good as none
            logger.warning("cannot read the cache %s (%s): decoding again", self._cache, error)
            return None

    def _keep(self, key: str, arrays: list[torch.Tensor]) -> None:
        half = self._cache.with_name(f".{self._cache.name}.{os.getpid()}")
        try:
            self.cache_dir.mkdir(parents=True, exist_ok=True)
            torch.save({"key": key, **dict(zip(("x", "y", "x_test", "y_test"), arrays, strict=True))}, half)
            os.replace(half, self._cache)
        except (OSError, RuntimeError) as error:
            logger.warning("no cache of decoded images in %s (%s)", self.cache_dir, error)
        finally:
            if half.is_file():
                half.unlink()

    def _decode(self, listing: Listing) -> tuple[torch.Tensor, torch.Tensor]:
        """uint8 [n, C, H, W] and int64 [n]. Raises ConfigError naming the images that cannot be read."""
        start = time.perf_counter()
        size, free = len(listing) * self.height * self.width * self.channels, free_bytes()
        if free is not None and 2 * size > free:  # held twice while channels move to the front
            raise ConfigError(
                f"size={[self.height, self.width]}: {len(listing)} images of {self.root} take {2 * size / 1e9:.3g} GB "
                f"of memory while they are decoded, and {free / 1e9:.3g} GB are free; make them smaller, or fewer"
            )
        x = np.empty((len(listing), self.height, self.width, self.channels), dtype=np.uint8)

        def decode(i: int) -> str | None:
            try:
                x[i] = self._read(self.root / listing[i][0])
            except Exception as error:  # Pillow meets a broken file with almost any of them
                return f"{listing[i][0]} ({error})"
            return None

        with warnings.catch_warnings(), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            warnings.simplefilter("ignore")  # odd but readable metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            broken = [fault for fault in pool.map(decode, range(len(listing))) if fault]
        check(_differ(f"{self.root.absolute()}: cannot read {len(broken)} of {len(listing)} images", broken))
        logger.info("decoded %d images of %s in %.1f s", len(x), self.root, time.perf_counter() - start)
        labels = torch.tensor([item[1] for item in listing], dtype=torch.int64)
        return torch.from_numpy(x).permute(0, 3, 1, 2).contiguous(), labels

    def _read(self, path: Path) -> np.ndarray:
        """[H, W, C]."""
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels; more than {MOST_PIXELS:,} are not decoded")
            if image.mode.startswith(("I", "F")):  # Pillow would clip these, not scale them
                raise ValueError(f"mode {image.mode}: more than 8 bits a channel; convert it first")
            image.load()
            upright = ImageOps.exif_transpose(image).convert("L" if self.channels == 1 else "RGB")
        if upright.size != (self.width, self.height):
            upright = upright.resize((self.width, self.height), Image.Resampling.BILINEAR)
        return np.asarray(upright).reshape(self.height, self.width, self.channels)


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
