"""Every single bit of a journal changed, one at a time: is it noticed, or does it change nothing?

    python -m benchmarks.bit_flips [--rows 300] [--every 1] [--offset 0]

A change is *detected* where the journal is refused, *harmless* where its history and the history behind every
decision are what they were, and *missed* otherwise, also where reading it ends in another error. Prints how many there
are of each; the exit status is 1 if one was missed.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import parser
from mfbo_torch.history import History, Query
from mfbo_torch.journal import Journal, JournalError


def make(path: Path, rows: int, seed: int = 0) -> None:
    """A journal with so many rows: queries asked, some tried again, done, failed, and one that is pending."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Change every bit, or every so many; the exit status."""
    given = parser(__doc__, rows=300, every=1, offset=0).parse_args(arguments)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path, started = Path(folder) / "history.sqlite", time.perf_counter()
        make(path, given.rows)
        known, whole, fates = read(path), path.read_bytes(), Counter[str]()
        for bit in range(given.offset, 8 * len(whole), given.every):
            with path.open("r+b", buffering=0) as file:
                file.seek(bit // 8)
                file.write(bytes([whole[bit // 8] ^ (1 << bit % 8)]))
                found = fate(path, known)
                file.seek(bit // 8)
                file.write(whole[bit // 8 : bit // 8 + 1])
            fates[found] += 1
            if found == "missed":
                print(f"missed: bit {bit % 8} of byte {bit // 8}", flush=True)
        seconds = time.perf_counter() - started
    print(f"{given.rows} rows, {len(whole)} bytes, {sum(fates.values())} changes in {seconds:.0f} s:", dict(fates))
    return int(fates["missed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
