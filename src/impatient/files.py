"""Files that are there in full or not at all, whenever the power goes, and that are never written through a link."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole(path: Path, shared: bool = False) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` at the end of the block; if that raises, what was there stays.

    shared: several processes may write it at the same time. Raises OSError.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part" if shared else f".{path.name}.part")
    try:
        part.unlink(missing_ok=True)  # it may be a link
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def unwritable(folder: Path) -> str | None:
    """Why nothing could be written into a folder, which need not exist yet; None if something could."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK):
        return None
    return f"cannot be written, for {there} is {'read-only' if there.is_dir() else 'a file'}"


def write(path: Path, text: str, shared: bool = False) -> None:
    """The whole text, in UTF-8, or what was there before."""
    with whole(path, shared) as file:
        file.write(text.encode())
