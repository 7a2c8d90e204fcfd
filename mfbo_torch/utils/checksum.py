"""Checksums of rows, each over a row and the checksum of the one before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any

COLUMN = "checksum"
_BYTES = 8


def chained(rows: Iterable[Mapping[str, Any]], before: bytes = b"") -> Iterator[bytes]:
    """The checksums of rows, from the one before the first on. Columns without a value do not count, so that a table
    may get more of them later."""
    for row in rows:
        before = _checksum(row, before)
        yield before


def _checksum(row: Mapping[str, Any], before: bytes) -> bytes:
    """That of ``repr(sorted((name, value) ...))``, keyed with the one before; most rows have one of a few forms."""
    form, values = _form(tuple([name for name, value in row.items() if value is not None]))
    known = form % values(row)
    return blake2b(known.encode("utf-8", "surrogatepass"), digest_size=_BYTES, key=before).digest()


@lru_cache
def _form(present: tuple[str, ...]) -> tuple[str, Callable[[Mapping[str, Any]], tuple[Any, ...]]]:
    """The text of a row with these columns, with places for their values, and what takes those in its order."""
    names = sorted({*present} - {COLUMN})
    pairs = ", ".join(f"({name!r}, ".replace("%", "%%") + "%r)" for name in names)
    return f"[{pairs}]", itemgetter(*names) if len(names) > 1 else lambda row: tuple(row[name] for name in names)


def wrong(rows: Iterable[Mapping[str, Any]]) -> Iterator[int]:
    """The numbers of the rows, counted from 1, that are not as they were written, or follow one that is missing."""
    before = b""
    for number, row in enumerate(rows, 1):
        found = _checksum(row, before)
        if row.get("sequence") != number or row[COLUMN] != found:
            yield number
        stored = row[COLUMN]
        before = stored if isinstance(stored, bytes) and len(stored) == _BYTES else found


def spans(numbers: Iterable[int]) -> str:
    """Ascending numbers in words, ``"3, 17 to 19"``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in found)
