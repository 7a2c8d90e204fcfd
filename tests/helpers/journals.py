"""Journals with some records, and journals changed behind the back of the package."""

import sqlite3
from contextlib import closing

from mfbo_torch.history import History, Query
from mfbo_torch.history.storage.journal import Journal
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
    return "it holds table event of another schema than 5"


def change(path, *statements):
    """Do what no one may, and leave no trace but that."""
    with closing(sqlite3.connect(path)) as connection, connection:
        guards = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
        for name in guards:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for sql in guards.values():
            connection.execute(sql)


def forge(path, sequence, **values):
    """Change a row, and sign all of them anew as their writer does."""
    change(
        path,
        f"UPDATE event SET {', '.join(f'{name} = {value}' for name, value in values.items())} "
        f"WHERE sequence = {sequence}",
    )
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute("SELECT * FROM event ORDER BY sequence")
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    signs = {row["sequence"]: made.hex() for row, made in zip(rows, chained(rows), strict=True)}
    change(path, *(f"UPDATE event SET {COLUMN} = x'{sign}' WHERE sequence = {i}" for i, sign in signs.items()))
