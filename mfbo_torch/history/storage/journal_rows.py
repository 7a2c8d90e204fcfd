"""The rows of a journal: a record as rows, and rows as a history."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mfbo_torch.history.history import History
from mfbo_torch.history.observation import Outcome
from mfbo_torch.history.query import Query
from mfbo_torch.history.record import Record, Status


class JournalState(NamedTuple):
    """A moment of a journal: the events so far, the history they made, and the query and basis of the next one."""

    sequence: int
    history: History
    query: Query | None = None
    seen: int = 0


def rows(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """The rows of a journal in their order, by the names of their columns."""
    names = columns(connection)
    for row in connection.execute(f"SELECT {', '.join(names)} FROM event ORDER BY sequence"):
        yield dict(zip(names, row, strict=True))


def states(events: Iterable[Mapping[str, Any]]) -> Iterator[JournalState]:
    """The moment before each event, then the last one."""
    sequence, history = 0, History()
    for row in events:
        if row["kind"] == "asked":
            query = Query(tuple(json.loads(row["x"])), row["fidelity"], json.loads(row["meta"]))
            yield JournalState(sequence, history, query, row["seen"])
            history = history.asked(query, row["cost"], decision_seconds=row["decision_seconds"])
        else:
            yield JournalState(sequence, history)
            history = history.updated(_changed(history.records[row["id"]], row))
        sequence = row["sequence"]
    yield JournalState(sequence, history)


def columns(connection: sqlite3.Connection) -> list[str]:
    """The names of the columns, none where there is no journal yet."""
    return [row[1] for row in connection.execute("PRAGMA table_info(event)")]


def asked(query: Query, record: Record, seen: int) -> dict[str, Any]:
    """The row of a query, after a decision that knew the events up to ``seen``."""
    what = {"x": json.dumps(query.x), "fidelity": query.fidelity, "meta": json.dumps(query.meta), "seen": seen}
    return {"kind": "asked", "id": record.id, "cost": record.cost, "decision_seconds": record.decision_seconds, **what}


def ended(record: Record) -> dict[str, Any]:
    """The row of a record's end."""
    same = ("id", "cost", "evaluation_seconds", "value", "standard_error", "reason")
    outcomes = json.dumps(record.outcomes) if record.outcomes else None
    end = {"kind": "ended", "status": str(record.status), "outcomes": outcomes}
    return end | {name: getattr(record, name) for name in same}


def _changed(record: Record, row: Mapping[str, Any]) -> Record:
    """A record after the event of a row."""
    if row["kind"] == "retried":
        return record.retried(row["reason"], row["cost"])
    end: dict[str, Any] = {"cost": row["cost"], "evaluation_seconds": row["evaluation_seconds"]}
    if row["status"] != Status.DONE:
        return record.failed(row["reason"], **end)
    measured = json.loads(row["outcomes"] or "{}")
    end["outcomes"] = {name: Outcome(*found) for name, found in measured.items()}
    return record.done(row["value"], row["standard_error"], **end)
