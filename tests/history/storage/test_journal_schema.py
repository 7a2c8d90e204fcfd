"""Databases of strangers: another schema than a journal's, files that are none, rows that someone has signed anew."""

import os
import sqlite3
import time
from contextlib import closing

import pytest
from journals import change, fill, forge
from refusals import refused

from mfbo_torch.history import Query, Record
from mfbo_torch.history.storage import journal_schema
from mfbo_torch.history.storage.journal import Journal, JournalError
from mfbo_torch.history.storage.repair import salvage

FOREIGN = {
    "trigger swallow": "CREATE TRIGGER swallow BEFORE INSERT ON event BEGIN SELECT RAISE(IGNORE); END",
    "view other": "CREATE VIEW other AS SELECT 1",
    "table more": "CREATE TABLE more (a)",
    "index slow": "CREATE INDEX slow ON event (abs(cost))",
}
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
CELLS = "i, 'asked', i, '[0.0]', 0, '{}', 0.0, 1.0, NULL, NULL, NULL, NULL, 0, NULL, x'00', NULL"


@pytest.fixture
def path(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        fill(journal)
    return tmp_path / "a.sqlite"


def endless(path):
    """The table as a view that has all columns and no end."""
    columns = ", ".join(journal_schema.COLUMNS)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE event")
        connection.execute(f"CREATE VIEW event ({columns}) AS {ENDLESS} SELECT {CELLS} FROM n")


def test_the_schema_is_compared_whole(tmp_path):
    for name, statement in FOREIGN.items():
        path = tmp_path / f"{name}.sqlite"
        with Journal(path) as journal:
            fill(journal)
        change(path, statement)
        before = path.read_bytes()
        for read_only in (True, False):
            refused(f"it holds {name} of another schema", Journal, path, read_only=read_only, error=JournalError)
        assert path.read_bytes() == before


def test_a_guard_that_is_gone(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER event_is_never_changed")
    refused("it has no trigger event_is_never_changed of schema 5", Journal, path, error=JournalError)


def test_a_row_that_is_swallowed_is_not_counted(path):
    """Also where the trigger came after the journal was opened."""
    with Journal(path) as journal:
        sequence, known = journal.sequence, journal.history()
        journal._connection.execute(FOREIGN["trigger swallow"])
        new = [Record(3, Query((0.0, 0.0), 0), 1.0), Record(4, Query((0.0, 0.0), 0), 1.0)]
        for write, given in ((journal.asked, new), (journal.ended, known.records[2].done(1.0)), (journal.given, new)):
            refused("must be one that keeps what is written: 0 of [124] rows were", write, given, error=JournalError)
        assert journal.sequence == sequence
        assert journal.history() == known
        journal._connection.execute("DROP TRIGGER swallow")
        journal.asked(new)
        assert len(journal.history()) == 5


def test_a_view_without_end_is_refused_before_it_is_read(path, tmp_path, monkeypatch):
    endless(path)
    monkeypatch.setattr(journal_schema, "SECONDS", 0.5)
    started = time.perf_counter()
    refused("it holds view event of another schema", Journal, path, read_only=True, error=JournalError)
    refused("a journal with a good row", salvage, path, tmp_path / "new.sqlite")
    assert time.perf_counter() - started < 5


def test_reading_takes_a_time_that_goes_with_the_size(path, monkeypatch):
    """Pages that lead in circles have the schema of a journal."""
    endless(path)
    monkeypatch.setattr(journal_schema, "SECONDS", 0.5)
    monkeypatch.setattr("mfbo_torch.history.storage.journal.foreign", lambda connection: "")
    started = time.perf_counter()
    refused("a readable journal: interrupted", Journal, path, read_only=True, error=JournalError)
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_only_regular_files_are_opened(path, tmp_path, suffix, kind):
    place = path.with_name(f"{path.name}{suffix}")
    place.unlink(missing_ok=True)
    (tmp_path / "elsewhere").write_bytes(b"mine")
    {"pipe": os.mkfifo, "folder": os.mkdir, "link": lambda to: to.symlink_to(tmp_path / "elsewhere")}[kind](place)
    for read_only in (True, False):
        said = f"beside which {place.name} is a file" if suffix else "readable file|a journal of mfbo_torch"
        refused(said, Journal, path, read_only=read_only, error=JournalError)
    if kind != "link" and suffix in ("", "-wal"):
        refused("a readable file", salvage, path, tmp_path / "new.sqlite", error=JournalError)
    assert (tmp_path / "elsewhere").read_bytes() == b"mine"


def test_pages_that_nobody_has_looked_at_are_not_put_in_place(path):
    path.with_name(f"{path.name}-journal").write_bytes(b"x" * 600)
    refused("a journal without a.sqlite-journal beside it", Journal, path, error=JournalError)


DEEP = "'" + "[" * 2000 + "]" * 2000 + "'"
FORGED = [
    (1, {"x": DEEP}, "recursion"),
    (1, {"x": "'3'"}, "a list and a mapping"),
    (1, {"x": "'[true]'"}, "x = True: must be a finite number"),
    (1, {"x": "'[1e999]'"}, "x = inf: must be a finite number"),
    (1, {"x": f"'[{'9' * 400}]'"}, "must be a finite number"),
    (1, {"meta": "'[1]'"}, "a list and a mapping"),
    (1, {"meta": f"'{{\"a\": {DEEP[1:-1]}}}'"}, "recursion"),
    (1, {"fidelity": "'low'"}, "fidelity = 'low'"),
    (1, {"fidelity": "-1"}, "fidelity = -1"),
    (1, {"id": "7"}, "id = 7"),
    (1, {"cost": "'dear'"}, "cost = 'dear'"),
    (1, {"cost": "9e999"}, "cost = inf"),
    (1, {"cost": "-1"}, r"cost = -1\.0"),
    (1, {"seen": "5"}, "seen = 5"),
    (1, {"decision_seconds": "'long'"}, "decision_seconds = 'long'"),
    (4, {"id": "-1"}, "id = -1"),
    (4, {"reason": "NULL"}, "reason = None: must be a text"),
    (4, {"evaluation_seconds": "x'00'"}, "evaluation_seconds = b"),
    (
        5,
        {"id": "1", "kind": "'retried'", "status": "NULL", "value": "NULL", "standard_error": "NULL"},
        "a pending query",
    ),
    (5, {"value": "'high'"}, "value = 'high'"),
    (5, {"value": "9e999"}, "value = inf"),
    (5, {"standard_error": "'small'"}, "standard_error = 'small'"),
    (5, {"outcomes": "'[1]'"}, "no attribute 'items'"),
    (5, {"outcomes": "'{\"a\": 3}'"}, "must be an iterable"),
    (5, {"outcomes": "'{\"a\": [1, null, 3]}'"}, "a is met = 3"),
    (5, {"outcomes": "'{\"a\": [NaN, null, true]}'"}, "a = nan: must be a finite number"),
]


@pytest.mark.parametrize(("sequence", "values", "said"), FORGED)
def test_a_row_that_was_signed_anew_is_named(path, sequence, values, said):
    forge(path, sequence, **values)
    with Journal(path, read_only=True) as journal:
        refused(f"row {sequence} not as a journal writes it: .*{said}", journal.history, error=JournalError)


def test_a_decision_that_has_seen_the_future_is_no_decision(path):
    for seen in ("-9e15", "'x'", "9e300"):
        forge(path, 3, seen=seen)
        with Journal(path, read_only=True) as journal:
            refused("row 3 not as a journal writes it: seen", lambda opened: [*opened.replay()], journal)
