"""The schema of a journal, and the reading of files that may hold another one."""

from __future__ import annotations

import re
import sqlite3
import stat
import time
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

SCHEMA_VERSION = 5
TABLE = """
CREATE TABLE event (
    sequence INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('asked', 'retried', 'ended')),
    id INTEGER NOT NULL,
    x TEXT,
    fidelity INTEGER,
    meta TEXT,
    decision_seconds REAL,
    cost REAL NOT NULL,
    status TEXT CHECK (status IN ('done', 'failed')),
    value REAL,
    reason TEXT,
    evaluation_seconds REAL,
    seen INTEGER,
    standard_error REAL CHECK (standard_error IS NULL OR (standard_error >= 0 AND status IS 'done')),
    checksum BLOB NOT NULL,
    outcomes TEXT CHECK (outcomes IS NULL OR status IS 'done'),
    CHECK (kind <> 'asked' OR (x IS NOT NULL AND fidelity IS NOT NULL AND meta IS NOT NULL)),
    CHECK ((kind = 'ended') = (status IS NOT NULL)),
    CHECK ((status IS 'done') = (value IS NOT NULL))
);
CREATE UNIQUE INDEX event_happens_once ON event (kind, id) WHERE kind <> 'retried';
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER event_is_never_removed BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'append only'); END;
"""
COLUMNS = re.findall(r"^    ([a-z_]+) [A-Z]+", TABLE, flags=re.MULTILINE)
"""The names of the table's columns."""
REAL = set(re.findall(r"([a-z_]+) REAL", TABLE))
BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite puts behind a file's name for those that it keeps beside it."""
SECONDS, BYTES_A_SECOND = 5.0, 1_000_000
"""Time that reading takes at most: so long, and longer by the size of the file."""
_STEPS = 10_000
"""SQLite's instructions between two looks at the clock."""


def foreign(connection: sqlite3.Connection) -> str:
    """What of a database is not the schema of a journal, in words; empty where it is that schema and nothing else.

    A stranger's trigger swallows rows, a view has no end, and an expression in an index is computed at each write.
    """
    found = set(connection.execute("SELECT type, name, sql FROM sqlite_master"))
    surplus, missing = (sorted(f"{each[0]} {each[1]}" for each in part) for part in (found - _own(), _own() - found))
    if surplus:
        return f"it holds {', '.join(surplus[:5])} of another schema than {SCHEMA_VERSION}"
    return f"it has no {', '.join(missing)} of schema {SCHEMA_VERSION}" if missing else ""


@cache
def _own() -> frozenset[tuple[str, str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TABLE)
        return frozenset(connection.execute("SELECT type, name, sql FROM sqlite_master"))


def limit(connection: sqlite3.Connection, path: Path) -> None:
    """Let what is read of a file take a time that goes with its size: damaged pages can lead in circles."""
    size = sum(place.stat().st_size for place in (path, _beside(path, "-wal")) if place.exists())
    until = time.thread_time() + SECONDS + size / BYTES_A_SECOND
    connection.set_progress_handler(lambda: time.thread_time() > until, _STEPS)


def unusual(path: Path) -> str:
    """Which of the files that SQLite keeps beside a journal it must not open, in words; empty where it may."""
    for suffix in BESIDE:
        with suppress(FileNotFoundError):
            place = _beside(path, suffix)
            if not stat.S_ISREG(place.lstat().st_mode):
                return f"a journal beside which {place.name} is a file or is not there"
            if suffix == "-journal" and place.stat().st_size and path.stat().st_size:
                # SQLite would put pages in place that nobody has looked at
                return f"a journal without {place.name} beside it; move that away"
    return ""


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")
