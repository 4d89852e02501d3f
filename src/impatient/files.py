"""Files that are there in full or not at all, whenever the power goes, and never written through a link; and a lock."""

import contextlib
import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger(__name__)


@contextlib.contextmanager
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


def no_link(path: str, flags: int) -> int:
    """An opener for `open` that raises OSError for a link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """The lock file `path` is this process' while the block lasts, or until the process dies; then it is gone.

    Raises BlockingIOError, with the process that has it as its text, and OSError where it cannot be written. On file
    systems without locks nothing is promised, with a warning.
    """
    with contextlib.ExitStack() as held:
        while True:
            file = held.enter_context(open(path, "ab+", buffering=0, opener=no_link))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise BlockingIOError(file.read().decode(errors="replace") or "another process") from error
            except OSError as error:
                log.warning("%s cannot be locked (%s): no two runs may share its folder", path, error.strerror)
            # Its owner may have removed it between our opening and our locking it: that lock shuts nobody out.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    break
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        held.callback(path.unlink, missing_ok=True)  # before the lock is let go
        yield
