"""Journals with some records, and journals changed behind the back of the package."""

import sqlite3
from contextlib import closing

from mfbo_torch.history import History, Query
from mfbo_torch.history.storage.journal import SCHEMA_VERSION, Journal
from mfbo_torch.utils.checksum import COLUMN, chained

AWKWARD = (0.1 + 0.2, 5e-324, 9.876543210987654e74, -1 / 3)


def fill(journal: Journal) -> History:
    """Three queries: one done, one failed with another cost, one pending."""
    history = History()
    for i, value in enumerate(AWKWARD[:3]):
        query = Query((value, -value), i % 2, {"beta": value, "tree": [1, None, {"a": True}]})
        history = history.asked(query, 1.5 + i, decision_seconds=0.25)
    journal.asked(history.records[:2])
    journal.asked(history.records[2:])
    for record in (
        history.records[1].failed("ValueError: é", cost=0.7, evaluation_seconds=0.1),
        history.records[0].done(AWKWARD[2], AWKWARD[1], evaluation_seconds=1e-9),
    ):
        journal.ended(record)
        history = history.updated(record)
    return history


def other_columns(path):
    with Journal(path) as journal:
        journal._connection.execute("ALTER TABLE event RENAME COLUMN seen TO known")
    return f"its table event is not as in schema {SCHEMA_VERSION}"


def change(path, statement):
    """Do what no one may, and hide that it was done."""
    with closing(sqlite3.connect(path)) as connection, connection:
        kept = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in kept:
            connection.execute(f"DROP TRIGGER {name}")
        connection.executescript(statement)
        for _, sql in kept:
            connection.execute(sql)


def forge(path, sequence, **values):
    """Change a row, and sign all of them anew as their writer does."""
    cells = ", ".join(f"{name} = {value}" for name, value in values.items())
    change(path, f"UPDATE event SET {cells} WHERE sequence = {sequence}")
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute("SELECT * FROM event ORDER BY sequence")
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    signs = {row["sequence"]: made.hex() for row, made in zip(rows, chained(rows), strict=True)}
    signed = (f"UPDATE event SET {COLUMN} = x'{sign}' WHERE sequence = {i};" for i, sign in signs.items())
    change(path, "".join(signed))
