"""Checksums of rows, each over a row and the checksum of the one before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

COLUMN = "checksum"
_BYTES = 8


def chained(rows: Iterable[Mapping[str, Any]], before: bytes = b"") -> Iterator[bytes]:
    """The checksums of rows, from the one before the first on. Columns without a value do not count, so that a table
    may get more of them later."""
    for row in rows:
        known = sorted((name, value) for name, value in row.items() if value is not None and name != COLUMN)
        before = blake2b(repr(known).encode("utf-8", "surrogatepass"), digest_size=_BYTES, key=before).digest()
        yield before


def wrong(rows: Iterable[Mapping[str, Any]]) -> Iterator[int]:
    """The numbers of the rows, counted from 1, that are not as they were written, or follow one that is missing."""
    before = b""
    for number, row in enumerate(rows, 1):
        (found,) = chained([row], before)
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
