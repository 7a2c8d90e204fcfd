"""Measured rows in a CSV file that grows run by run, so that a benchmark can be stopped and started again."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def read(path: Path) -> list[dict[str, str]]:
    """The rows that are there."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@contextmanager
def added_to(path: Path, columns: Sequence[str]) -> Iterator[Callable[[Iterable[Sequence[object]]], None]]:
    """A function that puts rows behind those of a file, on disk at once; the file is made if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")

        def add(rows: Iterable[Sequence[object]]) -> None:
            writer.writerows(rows)
            file.flush()

        if new:
            add([columns])
        yield add
