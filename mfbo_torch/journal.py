"""A history on disk: an append-only log of what was asked and how it ended, in SQLite."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Query, Record, Status

APPLICATION_ID = 0x6D66626F  # "mfbo"
SCHEMA_VERSION = 1

_SCHEMA = f"""
BEGIN;
CREATE TABLE event (
    sequence INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('asked', 'ended')),
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
    UNIQUE (kind, id),
    CHECK (kind = 'ended' OR (x IS NOT NULL AND fidelity IS NOT NULL AND meta IS NOT NULL)),
    CHECK (kind = 'asked' OR status IS NOT NULL),
    CHECK ((status IS 'done') = (value IS NOT NULL))
);
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER event_is_never_removed BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'append only'); END;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_COLUMNS = "sequence, kind, id, x, fidelity, meta, decision_seconds, cost, status, value, reason, evaluation_seconds"
_INSERT = f"INSERT INTO event ({_COLUMNS}) VALUES ({', '.join('?' * 12)})"


class JournalError(SettingError):
    """A file that cannot serve as a journal. It is left as it was."""

    def __init__(self, path: str | Path, allowed: str) -> None:
        super().__init__("journal", str(path), allowed)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value, self.allowed)


class Journal:
    """A :class:`~mfbo_torch.history.History` on disk.

    Two kinds of rows are ever written, numbered by one sequence: a query was *asked*, a query
    *ended*. Each is committed and synced before the call returns, and nothing is changed
    later, so the history at the moment of every decision can be rebuilt. Numbers come back
    exactly as they were given.

    Args:
        path: The file; it is made if it does not exist.
        read_only: Whether to only look, also while another process writes.

    Raises:
        JournalError: The file is something else, is damaged, comes from a newer version of
            this package, or cannot be opened. It is not touched.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        fresh = not self._check_header(read_only)
        try:
            if not fresh:
                self._check_content()
            self._connection = self._connect("ro" if read_only else "rwc")
            if not read_only:
                if fresh:
                    self._connection.executescript(_SCHEMA)
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
            self._sequence = self._last()
        except sqlite3.Error as error:
            raise JournalError(self.path, f"a readable journal: {error}") from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        if mode == "ro" and not self.path.with_name(f"{self.path.name}-wal").exists():
            uri += "&immutable=1"  # nobody writes: read without leaving files beside it
        return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30)

    def _check_header(self, read_only: bool) -> bool:
        """Whether the file is a journal; ``False`` where there is none yet."""
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
            return False
        # The file header of SQLite keeps user_version at byte 60 and application_id at byte 68.
        ours = len(header) == 100 and struct.unpack(">I", header[68:72])[0] == APPLICATION_ID
        if not header.startswith(b"SQLite format 3\0") or not ours:
            raise JournalError(self.path, "a journal of mfbo_torch" if header else "an existing journal")
        version = struct.unpack(">I", header[60:64])[0]
        if version != SCHEMA_VERSION:
            raise JournalError(self.path, f"a journal of schema {SCHEMA_VERSION}; this one has schema {version}")
        return True

    def _check_content(self) -> None:
        with closing(self._connect("ro")) as connection:
            answer = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if answer != "ok":
            raise JournalError(self.path, f"an undamaged journal: {' '.join(answer.split())}")

    def asked(self, records: Iterable[Record]) -> None:
        """Append pending records, all of them or none.

        Raises:
            SettingError: A query holds something that JSON cannot hold exactly.
        """
        rows = []
        for record in records:
            query = plain(record.query)
            row = (record.id, json.dumps(query.x), query.fidelity, json.dumps(query.meta), record.decision_seconds)
            rows.append(("asked", *row, float(record.cost), None, None, None, None))
        self._append(rows)

    def ended(self, record: Record) -> None:
        """Append the end of one record, done or failed."""
        end = (float(record.cost), str(record.status), record.value, record.reason, record.evaluation_seconds)
        self._append([("ended", record.id, None, None, None, None, *end)])

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
            if isinstance(error, sqlite3.IntegrityError):
                raise JournalError(self.path, f"written by one process, each query once: {error}") from error
            if isinstance(error, sqlite3.Error):
                raise JournalError(self.path, f"a writable journal: {error}") from error
            self._sequence = self._last()  # Ctrl-C arrives before or after the commit
            raise

    def _last(self) -> int:
        """The number of the last event, 0 if there is none."""
        last: int = self._connection.execute("SELECT coalesce(max(sequence), 0) FROM event").fetchone()[0]
        return last

    def _states(self) -> Iterator[tuple[History, Query | None]]:
        """The history before each event with the query it asks, then the last history."""
        history = History()
        try:
            for event in self._connection.execute(f"SELECT {_COLUMNS} FROM event ORDER BY sequence").fetchall():
                _, kind, id_, x, fidelity, meta, decided, cost, status, value, reason, evaluated = event
                if kind == "asked":
                    query = Query(tuple(json.loads(x)), fidelity, json.loads(meta))
                    yield history, query
                    history = history.asked(query, cost, decision_seconds=decided)
                    continue
                yield history, None
                changes = {"cost": cost, "evaluation_seconds": evaluated}
                record = history.records[id_]
                ended = record.done(value, **changes) if status == Status.DONE else record.failed(reason, **changes)
                history = history.updated(ended)
        except (sqlite3.Error, ValueError, IndexError) as error:
            raise JournalError(self.path, f"an undamaged journal: {error}") from error
        yield history, None

    def history(self) -> History:
        """Everything that was asked and what became of it."""
        *_, (history, _query) = self._states()
        return history

    def replay(self) -> Iterator[tuple[History, Query]]:
        """For every query asked, in order: the history its decision was made on, and the query."""
        return ((history, query) for history, query in self._states() if query is not None)

    def close(self) -> None:
        """Close the file. Nothing is lost without it."""
        self._connection.close()

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
