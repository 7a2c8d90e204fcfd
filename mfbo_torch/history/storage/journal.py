"""A history on disk: an append-only log of queries, retries and results in SQLite."""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NoReturn, Self

from mfbo_torch.history.history import History
from mfbo_torch.history.query import Query
from mfbo_torch.history.record import Record
from mfbo_torch.history.storage import journal_rows, wal_check
from mfbo_torch.history.storage.journal_rows import JournalState, history_of, rows, states
from mfbo_torch.history.storage.lock import Held, Lock
from mfbo_torch.utils.checksum import COLUMN, chained, spans, wrong
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import opened, replacing

APPLICATION_ID = 0x6D66626F  # "mfbo"
SCHEMA_VERSION = 5

_TABLE = """
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
COLUMNS = re.findall(r"^    ([a-z_]+) [A-Z]+", _TABLE, flags=re.MULTILINE)
"""The names of the table's columns."""
_REAL = set(re.findall(r"([a-z_]+) REAL", _TABLE))
_INSERT = f"INSERT INTO event ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
"""SQLite's error codes where a disk is full, or a quota or a limit on the size of files is reached."""
STEPS, LEAST_STEPS, STEPS_A_BYTE = 10_000, 2_000_000, 10
"""Steps of SQLite between two looks at their number, and how many a check may take: a forged file may take for ever,
journals of the shortest rows take 1.4 a byte."""
_BESIDE = ("-wal", "-shm", "-journal")
SAVED = "mfbo repair saves what can be read"
_IN_USE = "open, and used in the thread that opened it"


class JournalError(SettingError):
    """A file that cannot serve as a journal. It is left as it was."""

    def __init__(self, path: str | Path, allowed: str) -> None:
        super().__init__("journal", str(path), allowed)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value, self.allowed)


class DiskFull(JournalError):
    """There is no room for another row. What was written before is whole, and writing can be tried again."""


class JournalGone(JournalError):
    """The file was removed or replaced while it was written. What was written is still there until it is closed."""


class Journal:
    """A :class:`~mfbo_torch.history.History` on disk: one writer, any number of readers.

    There are three kinds of rows, numbered by one sequence: a query was *asked*, was *retried* after a failed attempt,
    or has *ended*. Each row is committed and synced before the call returns, and never changed. The row of a query has
    the number of the last event that its decision had *seen*. The history behind the decision is that of then, with all
    queries decided since pending, wherever values came in meanwhile. Numbers come back exactly as they were written.

    Args:
        path: The file; it is made if it does not exist.
        read_only: Whether to only look, also while another process writes.

    Raises:
        JournalError: The file is something else, is damaged, has another schema, is being written by another process,
            or cannot be opened. It is not touched.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path).absolute()
        self._process = os.getpid()
        self._checked: list[dict[str, Any]] = []  # the rows as they were at opening, until they are a history
        self._lock = Lock(self.path)
        own = self._lock.here  # then opened by SQLite alone: to close a file ends the locks of this process on it
        if own and not read_only:
            self._claim()
        exists = own or self._check_header(read_only)
        try:
            if exists and (found := self._damage(own)):
                raise JournalError(self.path, f"an undamaged journal: {found}")
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:  # what a damaged file says may not be text
            raise JournalError(self.path, f"a readable journal: {error}; {SAVED}") from error
        if not read_only:
            self._claim()
            self._check_header(read_only)
        try:
            self._connection = self._connect("ro" if read_only else "rw")
            if not read_only:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
                if other := foreign(self._connection):  # as it is now that nobody else writes
                    raise JournalError(self.path, f"an undamaged journal: {other}")
            self._sequence, self._checksum = self._last()
        except BaseException as error:
            self._lock.release()
            if isinstance(error, sqlite3.Error):
                raise JournalError(self.path, f"a readable journal: {error}; {SAVED}") from error
            raise

    def _claim(self) -> None:
        try:
            self._lock.acquire(empty())
        except Held as held:
            here = "close the one that is open in this process first, as in optimizer.journal.close()"
            who = here if held.here else "another one is writing it now"
            raise JournalError(self.path, f"written by one process; {who}") from None
        except OSError as error:
            raise JournalError(self.path, f"in a folder that can be written: {error.strerror}") from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        self._still = mode == "ro" and not self.path.with_name(f"{self.path.name}-wal").exists()
        if self._still:
            uri += "&immutable=1"  # nobody writes: read without leaving files beside it
        return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30)

    def _check_header(self, read_only: bool) -> bool:
        """Whether there is a journal already, and not something else."""
        try:
            header = b""
            for other in (self.path.with_name(f"{self.path.name}{ending}") for ending in _BESIDE):
                if other.is_symlink():
                    raise JournalError(self.path, f"a journal beside which {other.name} is a file, not a link")
                if other.exists():
                    opened(other).close()  # SQLite would wait for what a pipe may say
            if self.path.exists():
                with opened(self.path) as file:
                    header = file.read(100)
            if header and other.exists() and other.stat().st_size:  # it would put pages in place that nobody checked
                raise JournalError(self.path, f"a journal without {other.name} beside it; move that away")
        except OSError as error:
            raise JournalError(self.path, f"a readable file: {error.strerror}") from error
        if not header and not read_only:
            if not self.path.parent.is_dir():
                raise JournalError(self.path, "in a folder that exists")
            return False
        # The file header of SQLite keeps user_version at byte 60 and application_id at byte 68.
        ours = len(header) == 100 and struct.unpack(">I", header[68:72])[0] == APPLICATION_ID
        if not header.startswith(b"SQLite format 3\0") or not ours:
            there = "; this file is empty" if self.path.exists() else ""
            raise JournalError(self.path, "a journal of mfbo_torch" if header else f"an existing journal{there}")
        version: int = struct.unpack(">I", header[60:64])[0]
        if version != SCHEMA_VERSION:
            raise JournalError(self.path, f"a journal of schema {SCHEMA_VERSION}; this one has schema {version}")
        return True

    def _damage(self, own: bool) -> str:
        """What is wrong with the content, empty where nothing is; ``own`` where this process writes it."""
        if not own and wal_check.damaged(self.path):
            return f"{self.path.name}-wal not as written; mfbo repair saves what comes before"
        with closing(self._connect("ro")) as connection:
            limit(connection, self.path)
            if other := foreign(connection):
                return other
            self._checked = [*rows(connection)]
            if damaged := spans(wrong(self._checked)):
                return f"row {damaged} not as written; mfbo repair saves the ones before"
            answer = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        return "" if answer == "ok" else " ".join(answer.split())

    @property
    def sequence(self) -> int:
        """The number of the last event, 0 before the first."""
        return self._sequence

    def asked(self, records: Iterable[Record], seen: int | None = None) -> None:
        """Append pending records, all or none, each decided with those before it pending. ``seen`` is the
        :attr:`sequence` of the first decision, the present one if not given. A ``SettingError`` for what is no JSON."""
        first = self._sequence if seen is None else seen
        self._append([journal_rows.asked(plain(r.query), r, known) for known, r in enumerate(records, first)])

    def retried(self, record: Record) -> None:
        """Append that one record is tried again, with the cost and the reason it has now."""
        self._append([{"kind": "retried", "id": record.id, "cost": record.cost, "reason": record.reason}])

    def ended(self, record: Record) -> None:
        """Append the end of one record, done or failed."""
        self._append([journal_rows.ended(record)])

    def given(self, records: Iterable[Record]) -> None:
        """Append records that ended before this journal began, all of them or none."""
        given: list[dict[str, Any]] = []
        for record in records:
            known = self._sequence + len(given)
            given += [journal_rows.asked(plain(record.query), record, known), journal_rows.ended(record)]
        self._append(given)

    def copy(self, found: Iterable[Mapping[str, Any]]) -> None:
        """Append the events of another journal, all of them or none."""
        self._append([*found])

    def _append(self, made: Sequence[Mapping[str, Any]]) -> None:
        if os.getpid() != self._process:
            raise JournalError(self.path, "written by the process that has opened it, not by a fork of it")
        try:
            with self._transaction():
                last = self._insert([{"sequence": self._sequence + i, **row} for i, row in enumerate(made, 1)])
        except sqlite3.ProgrammingError as error:
            raise JournalError(self.path, f"{_IN_USE}: {error}") from error
        except sqlite3.IntegrityError as error:
            raise JournalError(self.path, f"written by one process, each query once: {error}") from error
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_ROOM
            kind, wanted = (DiskFull, "on a disk with room") if full else (JournalError, "a writable journal")
            raise kind(self.path, f"{wanted}: {error}") from error
        except BaseException:
            self._sequence, self._checksum = self._last()  # Ctrl-C arrives before or after the commit
            raise
        self._sequence, self._checksum = self._sequence + len(made), last
        if not self._lock.holds(self.path):
            raise JournalGone(self.path, "left where it is while it is written")

    def save(self, new: Path) -> None:
        """Write all there is to a new file, also where this one was removed, or :class:`JournalError`."""
        try:
            with replacing(new) as file, closing(sqlite3.connect(file.name)) as other:
                self._connection.backup(other)
        except (sqlite3.Error, OSError) as error:
            raise JournalError(new, f"a file that can be written: {error}") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _insert(self, found: Sequence[Mapping[str, Any]]) -> bytes:
        """Write rows after the last; the checksum of the last one written."""
        made = [{name: _stored(name, value) for name, value in row.items() if name != COLUMN} for row in found]
        last = self._checksum
        for row in made:
            (last,) = chained([row], last)
            row[COLUMN] = last
        written = self._connection.executemany(_INSERT, [[row.get(name) for name in COLUMNS] for row in made]).rowcount
        if written != len(made):
            raise JournalError(self.path, f"one that keeps what is written; of {len(made)} rows it kept {written}")
        return last

    def _last(self) -> tuple[int, bytes]:
        """The number of the last event and its checksum, 0 and none if there is none."""
        last = f"SELECT sequence, {COLUMN} FROM event ORDER BY sequence DESC LIMIT 1"
        return self._connection.execute(last).fetchone() or (0, b"")

    @contextmanager
    def _reading(self) -> Iterator[Iterator[dict[str, Any]]]:
        """The rows; what is wrong with them is a :class:`JournalError`."""
        try:
            if self._still:  # somebody may write by now
                self._connection.execute("SELECT 1")  # not where this journal was closed
                self._connection.close()
                self._connection = self._connect("ro")
            yield rows(self._connection)
        except sqlite3.ProgrammingError as error:
            raise JournalError(self.path, f"{_IN_USE}: {error}") from error
        except (sqlite3.Error, ValueError) as error:
            raise JournalError(self.path, f"an undamaged journal: {error}") from error

    def _states(self) -> Iterator[JournalState]:
        """The moment before each event, then the last one."""
        with self._reading() as found:
            yield from states([*found])

    def history(self) -> History:
        """All queries and their results."""
        checked, self._checked = self._checked, []
        with self._reading() as found:
            as_checked = checked and (checked[-1]["sequence"], checked[-1][COLUMN]) == self._last()
            return history_of(checked if as_checked else [*found])

    def replay(self) -> Iterator[tuple[History, Query]]:
        """For every query, in order: the history that its decision was made on, and the query."""
        late = "SELECT coalesce(max(sequence - 1 - seen), 0) FROM event WHERE kind = 'asked'"
        lag = self._connection.execute(late).fetchone()[0]
        recent: deque[JournalState] = deque(maxlen=int(min(max(lag, 0), self._sequence)) + 1)
        asked: list[Record] = []
        for state, after in pairwise(self._states()):
            recent.append(state)
            if state.query is not None:
                known = next(past.history for past in recent if past.sequence >= state.seen)
                for record in (record for record in asked[len(known) :] if record.decided):
                    known = known.asked(record.query, record.cost, decision_seconds=record.decision_seconds)
                yield known, state.query
                asked.append(after.history.records[-1])

    def __reduce__(self) -> NoReturn:
        raise JournalError(self.path, "opened by its path where it is used: a journal cannot be pickled or copied")

    def close(self) -> None:
        """Close the file. Nothing is lost without it."""
        self._connection.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def empty() -> bytes:
    """A journal without rows, as a file in WAL mode: so it comes into being at once, and is never half there."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        made.executescript(
            f"{_TABLE} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
        )
        found = bytearray(made.serialize())
    found[18:20] = b"\2\2"  # the file header's versions for writing and reading: 2 is WAL
    return bytes(found)


def limit(connection: sqlite3.Connection, path: Path) -> None:
    """Let what is read of a file take a number of steps that goes with its size."""
    places = [place for place in (path, path.with_name(f"{path.name}-wal")) if place.exists()]
    most = LEAST_STEPS + STEPS_A_BYTE * sum(place.stat().st_size for place in places)
    turns = count(STEPS, STEPS)
    connection.set_progress_handler(lambda: next(turns) > most, STEPS)


def _schema(connection: sqlite3.Connection) -> dict[str, str]:
    """What makes each part of a database, tables, indices, triggers and views, by name."""
    return dict(connection.execute("SELECT type || ' ' || name, sql FROM sqlite_schema ORDER BY name"))


def foreign(connection: sqlite3.Connection) -> str:
    """The first part of a database that is not as a journal has it, or that a journal has and it has not, in words."""
    with closing(sqlite3.connect(":memory:")) as own:
        own.executescript(_TABLE)
        wanted, found = _schema(own), _schema(connection)
    other = next((name for name in {**wanted, **found} if wanted.get(name) != found.get(name)), "")
    return other and f"its {other} is not as in schema {SCHEMA_VERSION}"


def _stored(column: str, value: Any) -> Any:
    """A value as SQLite returns it, without NaN and without a sign of zero."""
    if value is None or column not in _REAL:
        return value
    return None if math.isnan(value) else float(value) + 0.0


def plain(query: Query) -> Query:
    """The query as JSON returns it: floats, an integer, and JSON values only. A ``SettingError`` where the metadata is
    not JSON or a number is not finite."""
    given = {"meta": dict(query.meta), "x": [float(value) for value in query.x]}
    found = {}
    for setting, value in given.items():
        try:
            found[setting] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise SettingError(setting, value, f"finite JSON values: {error}") from error
    return Query(tuple(found["x"]), int(query.fidelity), found["meta"])
