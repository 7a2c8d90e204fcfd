"""Save the undamaged rows of a journal in a new one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from mfbo_torch.history.storage.journal import COLUMNS, Journal, JournalError, limit
from mfbo_torch.history.storage.journal_rows import columns, rows, states
from mfbo_torch.utils.checksum import COLUMN, chained
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import content, replacing, temporary_folder

_MAGIC, MOST_CUT = b"SQLite format 3\0", 2**20
"""How a file of SQLite's begins, and how many bytes may be cut off at its end beside as many as are left."""


def salvage(path: Path, new: Path) -> int:
    """Write the rows of a journal up to the first that is damaged into a new one; their number. The old one stays as it
    is. A ``SettingError`` where the new file exists, or not a single row is good."""
    if os.path.lexists(new):
        raise SettingError("new", str(new), "a file that does not exist yet")
    with temporary_folder() as folder:
        copy = folder / "copy.sqlite"
        try:
            copy.write_bytes(_whole(_MAGIC + content(path)[len(_MAGIC) :]))
            with suppress(FileNotFoundError):
                Path(f"{copy}-wal").write_bytes(content(Path(f"{path}-wal")))
        except OSError as error:
            raise JournalError(path, f"a readable file: {error.strerror}") from error
        signed, good = [*_good(copy)], []
        with suppress(ValueError):  # a row that its writer, or somebody else, has signed may be none of a journal's
            for row, _ in zip(signed, states(signed), strict=False):
                good.append(row)
        if not good:
            raise JournalError(path, "a journal with a good row; this one has none")
        with Journal(folder / "new.sqlite") as journal:  # not beside the new one, where its lock would stay
            journal.copy(good)
        try:
            with replacing(new) as draft:
                draft.write((folder / "new.sqlite").read_bytes())
        except OSError as error:
            raise SettingError("new", str(new), f"a file that can be written: {error.strerror or error}") from error
    return len(good)


def _whole(held: bytes) -> bytes:
    """A file of SQLite's with zeros for the pages that are cut off at its end: it opens none that has too few."""
    pages = int.from_bytes(held[16:18], "big") * int.from_bytes(held[28:32], "big")
    return held.ljust(min(pages, 2 * len(held) + MOST_CUT), b"\0")


def _good(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows before the first that cannot be read or is not as it was written."""
    before = b""
    with suppress(sqlite3.Error, UnicodeDecodeError), closing(sqlite3.connect(path)) as connection:
        limit(connection, path)
        if columns(connection) != COLUMNS:
            return
        for number, row in enumerate(rows(connection), 1):
            (before,) = chained([row], before)
            if row["sequence"] != number or row[COLUMN] != before:
                return
            yield row
