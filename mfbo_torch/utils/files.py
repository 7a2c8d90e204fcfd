"""Files that are replaced at once, and temporary folders that do not outlive their process for long."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory, gettempdir
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: nothing is swept
    fcntl = None  # type: ignore[assignment]

PREFIX, SUFFIX = "mfbo-", ".tmp"
_OWN = re.compile(rf"{PREFIX}[a-z0-9_]{{8}}{re.escape(SUFFIX)}")
"""The names of temporary folders."""
LONGEST = 2**30
"""Bytes of the longest file that is read into memory."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file beside ``path`` that takes its place once it is whole; where writing fails, what was there stays.

    A link at ``path`` is replaced, not followed. ``OSError`` where the file cannot be written.
    """
    draft = path.with_name(f".{token_hex(8)}.part")
    file = draft.open("xb")
    try:
        with file:
            yield file
        with suppress(FileNotFoundError):
            if stat.S_ISREG((old := path.lstat()).st_mode):
                draft.chmod(stat.S_IMODE(old.st_mode))
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Replace a file at once, so that it is never half there; see :func:`replacing`."""
    with replacing(path) as file:
        file.write(text.encode())


def opened(path: Path) -> BinaryIO:
    """A file to be read; an ``OSError`` for what is none, such as a pipe that nobody writes to."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))  # noqa: SIM115
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def content(path: Path) -> bytes:
    """The bytes of a file; an ``OSError`` also for more than :data:`LONGEST`: a hole takes no room on a disk."""
    with opened(path) as file:
        if os.fstat(file.fileno()).st_size > LONGEST:
            raise OSError(errno.EFBIG, f"longer than {LONGEST:,} bytes", str(path))
        return file.read()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed at the end, or by a later process of the same user where this one is killed."""
    sweep(gettempdir())
    while True:
        made = TemporaryDirectory(prefix=PREFIX, suffix=SUFFIX, ignore_cleanup_errors=True)
        try:
            lock = _locked(made.name)
        except (BlockingIOError, FileNotFoundError):  # swept before it was locked
            continue
        except OSError:  # a file system that knows no locks: nobody can sweep it
            lock = -1
        try:
            yield Path(made.name)
            return
        finally:
            with suppress(RecursionError):  # folders in folders, a thousand deep
                made.cleanup()
            if lock >= 0:
                os.close(lock)


@cache
def sweep(within: str) -> None:
    """Remove the temporary folders of this user's processes that are gone; once in a process.

    A process holds a lock on its folder, which ends with it however it ends.
    """
    found: list[str] = []
    with suppress(OSError):
        found = [name for name in os.listdir(within) if _OWN.fullmatch(name)]
    for name in found if fcntl else ():
        path = os.path.join(within, name)
        with suppress(OSError, RecursionError):  # of folders in folders, a thousand deep
            lock = _locked(path)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def _locked(path: str) -> int:
    """The descriptor of a folder that this process alone has locked; ``OSError`` where it cannot, or for a link."""
    if fcntl is None:
        return -1
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(lock), os.lstat(path)):
            raise FileNotFoundError
    except BaseException:
        os.close(lock)
        raise
    return lock
