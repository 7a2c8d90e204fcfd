"""A lock that lets one process at a time write a file, whatever links lead to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from mfbo_torch.utils.files import replacing

try:
    import fcntl
except ImportError:  # Windows: the lock beside the file's own name has to do
    fcntl = None  # type: ignore[assignment]
if TYPE_CHECKING:
    from filelock import FileLock

_HELD: WeakValueDictionary[tuple[int, int], Lock] = WeakValueDictionary()
"""The files that this process has locked, by device and inode number."""


class Held(Exception):
    """Someone else has the lock: ``here`` tells whether it is this process."""

    def __init__(self, here: bool) -> None:
        super().__init__()
        self.here = here


def locked(path: Path) -> bool:
    """Whether a process holds the :class:`Lock` of a file, or this system cannot tell; it is not taken."""
    place = Path(os.path.realpath(path))
    try:
        with place.with_name(f".{place.name}.lock").open("rb") as file:
            if fcntl is None:
                return True
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


class Lock:
    """The lock of a file, which is made if it does not exist. It is on the file itself, where the system can do that,
    so that links to it are locked too, and on a file beside it."""

    def __init__(self, path: Path) -> None:
        self._place = Path(os.path.realpath(path))  # unlike resolve, also of links in a circle
        self._beside: FileLock | None = None
        self._file, self._key = -1, (0, 0)

    @property
    def here(self) -> bool:
        """Whether this process has locked the file."""
        return self._place.exists() and self._number() in _HELD

    def acquire(self, empty: bytes) -> None:
        """Take the lock: :class:`Held` where someone else has it, ``OSError`` where nothing can be written. A file that
        does not exist, or has no content, is made whole with the content ``empty``."""
        from filelock import FileLock, Timeout  # it loads asyncio, which a reader does without

        if self.here:
            raise Held(here=True)
        self._beside = FileLock(self._place.with_name(f".{self._place.name}.lock"), timeout=0)
        try:
            self._beside.acquire()
        except Timeout:
            raise Held(here=False) from None
        try:
            if not (self._place.exists() and self._place.stat().st_size):
                with replacing(self._place) as file:
                    file.write(empty)
            self._file = os.open(self._place, os.O_RDWR)
            self._lock_file()
        except BaseException:
            self._leave()
            raise
        self._key = self._number()
        _HELD[self._key] = self

    def holds(self, path: Path) -> bool:
        """Whether a path still leads to the file that is locked."""
        try:
            found = path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._key

    def release(self) -> None:
        """Release the lock, if it was taken."""
        if _HELD.get(self._key) is self:
            del _HELD[self._key]
        self._leave()

    def _lock_file(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Held(here=False) from None
        except OSError:  # a file system that knows no locks
            return

    def _number(self) -> tuple[int, int]:
        found = self._place.stat()
        return found.st_dev, found.st_ino

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._beside is not None:
            self._beside.release()
