"""A history on disk: an append-only log of what was asked, tried again and how it ended, in SQLite."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Self
from weakref import WeakValueDictionary

from filelock import FileLock, Timeout

from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Query, Record, Status

APPLICATION_ID = 0x6D66626F  # "mfbo"
SCHEMA_VERSION = 3

_STANDARD_ERROR = "standard_error REAL CHECK (standard_error IS NULL OR (standard_error >= 0 AND status IS 'done'))"
_TABLE = f"""
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
    {_STANDARD_ERROR},
    CHECK (kind <> 'asked' OR (x IS NOT NULL AND fidelity IS NOT NULL AND meta IS NOT NULL)),
    CHECK ((kind = 'ended') = (status IS NOT NULL)),
    CHECK ((status IS 'done') = (value IS NOT NULL))
);
CREATE UNIQUE INDEX event_happens_once ON event (kind, id) WHERE kind <> 'retried';
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER event_is_never_removed BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'append only'); END;
"""
_SCHEMA = f"""
BEGIN;
{_TABLE}
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_COLUMNS = (
    "sequence, kind, id, x, fidelity, meta, decision_seconds, cost, status, value, reason, evaluation_seconds, "
    "seen, standard_error"
)
_INSERT = f"INSERT INTO event ({_COLUMNS}) VALUES ({', '.join('?' * 14)})"
_WITHOUT_ERRORS = _COLUMNS.replace("standard_error", "NULL")
_UNSEEN = _WITHOUT_ERRORS.replace("seen", "sequence - 1")
_READ = {1: _UNSEEN, 2: _WITHOUT_ERRORS, 3: _COLUMNS}
"""The columns of each schema; in the first every decision knew all that had happened, in the first two no value had a
standard error."""
_FROM_1 = f"""
BEGIN IMMEDIATE;
DROP TRIGGER event_is_never_changed;
DROP TRIGGER event_is_never_removed;
ALTER TABLE event RENAME TO former;
{_TABLE}
INSERT INTO event ({_COLUMNS}) SELECT {_UNSEEN} FROM former;
DROP TABLE former;
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_FROM_2 = f"""
BEGIN IMMEDIATE;
ALTER TABLE event ADD COLUMN {_STANDARD_ERROR};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_UPDATE = {0: _SCHEMA, 1: _FROM_1, 2: _FROM_2}


_IN_USE = "open, and used in the thread that opened it"
_WRITTEN_HERE: WeakValueDictionary[Path, Journal] = WeakValueDictionary()
"""The journals that this process has open to write, by their files."""


class JournalError(SettingError):
    """A file that cannot serve as a journal. It is left as it was."""

    def __init__(self, path: str | Path, allowed: str) -> None:
        super().__init__("journal", str(path), allowed)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value, self.allowed)


class DiskFull(JournalError):
    """There is no room for another row. What was written before is whole, and writing can be tried again."""


class _State(NamedTuple):
    """A moment of a journal: the events so far, the history they made, and the query and basis of the next one."""

    sequence: int
    history: History
    query: Query | None = None
    seen: int = 0


class Journal:
    """A :class:`~mfbo_torch.history.History` on disk: one writer, any number of readers.

    Three kinds of rows are ever written, numbered by one sequence: a query was *asked*, was
    *retried* after a failed attempt, has *ended*. Each is committed and synced before the call
    returns, and nothing is changed later. A query that was asked remembers the last event its
    decision had *seen*, so the history behind every decision can be rebuilt, also where values came
    in while it was being made. Numbers come back exactly as they were given.

    A journal of an older schema is read as it is, and brought up to date when it is next written.

    Args:
        path: The file; it is made if it does not exist.
        read_only: Whether to only look, also while another process writes.

    Raises:
        JournalError: The file is something else, is damaged, comes from a newer version of
            this package, is being written by another process, or cannot be opened. It is not touched.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        version = self._check_header(read_only)
        try:
            if version:
                self._check_content()
        except (sqlite3.Error, UnicodeDecodeError) as error:  # what a damaged file says may not be text
            raise JournalError(self.path, f"a readable journal: {error}") from error
        self._lock = FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=0)
        if not read_only:
            self._claim()
            version = self._check_header(read_only)
        try:
            self._connection = self._connect("ro" if read_only else "rwc")
            if version:  # the header may lag behind the write-ahead log
                version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            self._columns = _READ[version] if read_only else _COLUMNS
            if not read_only:
                if version != SCHEMA_VERSION:
                    self._connection.executescript(_UPDATE[version])
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
            self._sequence = self._last()
        except BaseException as error:
            self._lock.release()
            if isinstance(error, sqlite3.Error):
                raise JournalError(self.path, f"a readable journal: {error}") from error
            raise

    def _claim(self) -> None:
        place = self.path.resolve()
        try:
            self._lock.acquire()
            _WRITTEN_HERE[place] = self
        except Timeout:
            here = "close the one that is open in this process first, as in optimizer.journal.close()"
            who = here if place in _WRITTEN_HERE else "another one is writing it now"
            raise JournalError(self.path, f"written by one process; {who}") from None
        except OSError as error:
            raise JournalError(self.path, f"in a folder that can be written: {error.strerror}") from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        if mode == "ro" and not self.path.with_name(f"{self.path.name}-wal").exists():
            uri += "&immutable=1"  # nobody writes: read without leaving files beside it
        return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30)

    def _check_header(self, read_only: bool) -> int:
        """The schema of the journal; 0 where there is none yet."""
        try:
            header = b""
            if self.path.exists():
                with self.path.open("rb") as file:
                    header = file.read(100)
        except OSError as error:
            raise JournalError(self.path, f"a readable file: {error.strerror}") from error
        if not header and not read_only:
            if not self.path.parent.is_dir():
                raise JournalError(self.path, "in a folder that exists")
            return 0
        # The file header of SQLite keeps user_version at byte 60 and application_id at byte 68.
        ours = len(header) == 100 and struct.unpack(">I", header[68:72])[0] == APPLICATION_ID
        if not header.startswith(b"SQLite format 3\0") or not ours:
            raise JournalError(self.path, "a journal of mfbo_torch" if header else "an existing journal")
        version: int = struct.unpack(">I", header[60:64])[0]
        if not 1 <= version <= SCHEMA_VERSION:
            wanted = f"a journal of schema 1 to {SCHEMA_VERSION}; this one has schema {version}"
            raise JournalError(self.path, f"{wanted}: a newer version of this package reads it")
        return version

    def _check_content(self) -> None:
        with closing(self._connect("ro")) as connection:
            answer = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if answer != "ok":
            raise JournalError(self.path, f"an undamaged journal: {' '.join(answer.split())}")

    @property
    def sequence(self) -> int:
        """The number of the last event, 0 before the first."""
        return self._sequence

    def asked(self, records: Iterable[Record], seen: int | None = None) -> None:
        """Append pending records, all of them or none.

        Args:
            records: Each was decided with the ones before it pending.
            seen: The :attr:`sequence` the first decision was made at; the present one if not given.

        Raises:
            SettingError: A query holds something that JSON cannot hold exactly.
        """
        rows = []
        seen = self._sequence if seen is None else seen
        for known, record in enumerate(records, seen):
            query = plain(record.query)
            row = (record.id, json.dumps(query.x), query.fidelity, json.dumps(query.meta), record.decision_seconds)
            rows.append(("asked", *row, float(record.cost), None, None, None, None, known, None))
        self._append(rows)

    def retried(self, record: Record) -> None:
        """Append that one record is tried again, with the cost and the reason it has now."""
        end = (None, None, record.reason, None, None, None)
        self._append([("retried", record.id, *[None] * 4, float(record.cost), *end)])

    def ended(self, record: Record) -> None:
        """Append the end of one record, done or failed."""
        end = (float(record.cost), str(record.status), record.value, record.reason, record.evaluation_seconds)
        self._append([("ended", record.id, None, None, None, None, *end, None, record.standard_error)])

    def given(self, records: Iterable[Record]) -> None:
        """Append records that ended before this journal began, all of them or none."""
        rows: list[tuple[Any, ...]] = []
        for record in records:
            query = plain(record.query)
            asked = (record.id, json.dumps(query.x), query.fidelity, json.dumps(query.meta), 0.0, record.cost)
            rows.append(("asked", *asked, None, None, None, None, self._sequence + len(rows), None))
            end = (record.cost, "done", record.value, "", 0.0, None, record.standard_error)
            rows.append(("ended", record.id, *[None] * 4, *end))
        self._append(rows)

    def _append(self, rows: Sequence[tuple[Any, ...]]) -> None:
        numbered = [(self._sequence + i, *row) for i, row in enumerate(rows, 1)]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(_INSERT, numbered)
            self._connection.execute("COMMIT")
            self._sequence += len(rows)
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.ProgrammingError):
                raise JournalError(self.path, f"{_IN_USE}: {error}") from error
            if isinstance(error, sqlite3.IntegrityError):
                raise JournalError(self.path, f"written by one process, each query once: {error}") from error
            if isinstance(error, sqlite3.Error):
                full = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
                kind, wanted = (DiskFull, "on a disk with room") if full else (JournalError, "a writable journal")
                raise kind(self.path, f"{wanted}: {error}") from error
            self._sequence = self._last()  # Ctrl-C arrives before or after the commit
            raise

    def _last(self) -> int:
        """The number of the last event, 0 if there is none."""
        last: int = self._connection.execute("SELECT coalesce(max(sequence), 0) FROM event").fetchone()[0]
        return last

    def _states(self) -> Iterator[_State]:
        """The moment before each event, then the last one."""
        sequence, history = 0, History()
        try:
            for event in self._connection.execute(f"SELECT {self._columns} FROM event ORDER BY sequence").fetchall():
                _, kind, id_, x, fidelity, meta, decided, cost, status, value, reason, evaluated, seen, error = event
                if kind == "asked":
                    query = Query(tuple(json.loads(x)), fidelity, json.loads(meta))
                    yield _State(sequence, history, query, seen)
                    history = history.asked(query, cost, decision_seconds=decided)
                else:
                    yield _State(sequence, history)
                    former = history.records[id_]
                    if kind == "retried":
                        changed = former.retried(reason, cost)
                    elif status == Status.DONE:
                        changed = former.done(value, error, cost=cost, evaluation_seconds=evaluated)
                    else:
                        changed = former.failed(reason, cost=cost, evaluation_seconds=evaluated)
                    history = history.updated(changed)
                sequence = event[0]
        except sqlite3.ProgrammingError as error:
            raise JournalError(self.path, f"{_IN_USE}: {error}") from error
        except (sqlite3.Error, ValueError, TypeError, IndexError) as error:
            raise JournalError(self.path, f"an undamaged journal: {error}") from error
        yield _State(sequence, history)

    def history(self) -> History:
        """Everything that was asked and what became of it."""
        (last,) = deque(self._states(), maxlen=1)
        return last.history

    def replay(self) -> Iterator[tuple[History, Query]]:
        """For every query asked, in order: the history its decision was made on, and the query."""
        late = "SELECT coalesce(max(sequence - 1 - seen), 0) FROM event WHERE kind = 'asked'"
        lag = self._connection.execute(late).fetchone()[0] if self._columns != _UNSEEN else 0
        recent: deque[_State] = deque(maxlen=lag + 1)
        for state in self._states():
            recent.append(state)
            if state.query is not None:
                yield next(past.history for past in recent if past.sequence >= state.seen), state.query

    def close(self) -> None:
        """Close the file. Nothing is lost without it."""
        self._connection.close()
        self._lock.release()
        if _WRITTEN_HERE.get(self.path.resolve()) is self:
            del _WRITTEN_HERE[self.path.resolve()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def plain(query: Query) -> Query:
    """The query as it comes back from JSON: floats, an integer, and JSON values only.

    Raises:
        SettingError: Its metadata is not JSON or holds a number that is not finite, or ``x``
            is not finite.
    """
    x = tuple(float(value) for value in query.x)
    for setting, value in (("meta", dict(query.meta)), ("x", x)):
        try:
            text = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise SettingError(setting, value, f"finite JSON values: {error}") from error
        if setting == "meta":
            meta = json.loads(text)
    return Query(x, int(query.fidelity), meta)
