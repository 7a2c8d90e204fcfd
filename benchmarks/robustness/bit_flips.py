"""Every single bit of a journal changed, one at a time: is it noticed, or does it change nothing?

    python -m benchmarks.robustness.bit_flips [--rows 300] [--every 1] [--check 97] [--workers 1]

A change is *detected* where the journal is refused, *harmless* where its history and the history behind every decision
are what they were, and *missed* otherwise, also where reading it ends in another error. For speed, rows are compared
with those that were written, the first that differs is verified as the journal does, and only where none does SQLite
looks the file over; one in ``--check``, and those in the file's header, are read by the journal itself, and the two
must agree. Writes ``bit_flips.json``; the exit status is 1 if a change was missed.
"""

import random
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.common import parser, write_json
from mfbo_torch.history import History, Query
from mfbo_torch.history.storage.journal import COLUMNS, Journal, JournalError, foreign
from mfbo_torch.loop import executors
from mfbo_torch.utils.checksum import COLUMN, chained

HEADER, PARTS = 100, 16
"""Bytes of SQLite's header; into so many parts the file is divided."""


def make(path: Path, rows: int, seed: int = 0) -> None:
    """A journal of some length: queries asked, some tried again, done, failed, and one that is pending."""
    numbers, history = random.Random(seed), History()
    with Journal(path) as journal:
        while journal.sequence < rows:
            query = Query((numbers.random(), -numbers.random()), numbers.randrange(2), {"beta": numbers.random()})
            history = history.asked(query, 1.0 + numbers.randrange(9), decision_seconds=numbers.random())
            record, seen = history.records[-1], max(0, journal.sequence - numbers.randrange(3))
            journal.asked([record], seen)
            if journal.sequence < rows - 2 and numbers.random() < 0.1:
                record = record.retried("RuntimeError: not yet", record.cost + 1)
                journal.retried(record)
            if journal.sequence < rows:
                failed = numbers.random() < 0.1
                record = record.failed("ValueError: é") if failed else record.done(numbers.gauss(0.0, 1.0))
                journal.ended(record)
            history = history.updated(record)


def fate(path: Path, known: object) -> str:
    """What becomes of a changed journal."""
    try:
        found = read(path)
    except JournalError:
        return "detected"
    except Exception:  # a traceback names no damage
        return "missed"
    return "harmless" if found == known else "missed"


def read(path: Path) -> object:
    """All that a journal says."""
    with Journal(path, read_only=True) as journal:
        return journal.history(), list(journal.replay())


class Quick:
    """The fate of a changed journal, as far as that hangs on its rows."""

    def __init__(self, path: Path) -> None:
        self._place = f"{path.as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(self._place, uri=True)) as connection:
            self._select = f"SELECT {', '.join(COLUMNS)} FROM event ORDER BY sequence"
            self._rows = connection.execute(self._select).fetchall()
        self._sums = [b"", *chained(dict(zip(COLUMNS, row, strict=True)) for row in self._rows)]

    def __call__(self) -> str:
        """The fate of the file as it is now."""
        try:
            with closing(sqlite3.connect(self._place, uri=True)) as connection:
                if foreign(connection):
                    return "detected"
                found = connection.execute(self._select).fetchall()
                for number, row in enumerate(found):
                    if number >= len(self._rows) or _exactly(row) != _exactly(self._rows[number]):
                        return "detected" if self._wrong(row, number) else "missed"
                whole = connection.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok"
        except (sqlite3.Error, UnicodeDecodeError):
            return "detected"
        if not whole:
            return "detected"
        return "harmless" if len(found) == len(self._rows) else "missed"

    def _wrong(self, row: tuple[Any, ...], number: int) -> bool:
        """As :func:`~mfbo_torch.utils.checksum.wrong` finds it after rows that are as they were."""
        named = dict(zip(COLUMNS, row, strict=True))
        (found,) = chained([named], self._sums[min(number, len(self._rows))])
        return named["sequence"] != number + 1 or named[COLUMN] != found


def _exactly(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """With the types: ``1 == 1.0`` in Python, and not on disk."""
    return (*row, *map(type, row))


def span(path: Path, first: int, last: int, every: int, check: int) -> tuple[Counter[str], list[str]]:
    """The fates of the changes of some bits, and what is wrong with them."""
    whole, fates, wrong = path.read_bytes(), Counter[str](), []
    known = read(path)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        copy = Path(folder) / "history.sqlite"
        copy.write_bytes(whole)
        quick = Quick(copy)
        for bit in range(first, last, every):
            byte = bit // 8
            with copy.open("r+b", buffering=0) as file:
                file.seek(byte)
                file.write(bytes([whole[byte] ^ (1 << bit % 8)]))
                found = "" if byte < HEADER else quick()
                if not found or bit // every % check == 0:
                    opened = fate(copy, known)
                    if found and opened != found:
                        wrong.append(f"bit {bit % 8} of byte {byte}: {opened}, and {found} by its rows")
                    found = opened
                    fates["opened"] += 1
                file.seek(byte)
                file.write(whole[byte : byte + 1])
            fates[found] += 1
            if found == "missed":
                wrong.append(f"missed: bit {bit % 8} of byte {byte}")
    return fates, wrong


def _spans(jobs: list[tuple[Any, ...]], workers: int) -> Iterator[tuple[Counter[str], list[str]]]:
    """What :func:`span` says of each, here or in so many processes."""
    if workers == 1:
        yield from (span(*job) for job in jobs)
        return
    with executors.start("processes", workers) as pool:
        yield from (future.result() for future in [pool.submit(span, *job) for job in jobs])


def main(arguments: Sequence[str] | None = None) -> int:
    """Change every bit, or every so many; the exit status."""
    given = parser(__doc__, rows=300, every=1, check=97, workers=1).parse_args(arguments)
    fates, wrong, started = Counter[str](), list[str](), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite"
        make(path, given.rows)
        bits = 8 * path.stat().st_size
        size = -(-bits // given.every // PARTS) * given.every
        spans = [(first, min(first + size, bits)) for first in range(0, bits, size)]
        jobs = [(path, *ends, given.every, given.check) for ends in spans]
        for some, complaints in _spans(jobs, given.workers):
            fates += some
            wrong += complaints
            print(*complaints, sep="\n", end="\n" if complaints else "", flush=True)
    opened = fates.pop("opened")
    report = {"rows": given.rows, "bytes": bits // 8, "changes": sum(fates.values()), "opened_by_the_journal": opened}
    report |= {"fates": dict(fates), "wrong": wrong, "seconds": round(time.perf_counter() - started)}
    write_json(given.results / "bit_flips.json", report)
    print(f"{report['changes']} changes of {bits // 8} bytes in {report['seconds']} s:", dict(fates))
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
