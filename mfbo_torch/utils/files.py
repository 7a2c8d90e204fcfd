"""Files written whole or not at all, and read only where they are files."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside ``path`` to be written, which takes its place at the end: what is there, also a link, is
    replaced at once, or stays where that fails. An ``OSError`` where something else than a file is there."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    draft = path.with_name(f".mfbo-{secrets.token_hex(4)}{path.suffix}")
    draft.open("xb").close()  # never through a link
    try:
        yield draft
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write(path: Path, text: str) -> None:
    """Put a text in place of a file at once, so that it is never half there."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def opened(path: Path) -> BinaryIO:
    """A file to be read; an ``OSError`` for what is none, such as a pipe that nobody writes to."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))  # noqa: SIM115
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file", str(path))
