"""The rows of a journal: a record as rows, and rows as a history."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mfbo_torch.history.history import History
from mfbo_torch.history.observation import LARGEST, Outcome, unusable
from mfbo_torch.history.query import Query
from mfbo_torch.history.record import Record, Status
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, whole

TYPES = {"INTEGER": int, "REAL": float, "TEXT": str, "BLOB": bytes}
"""What SQLite's types of columns are here."""


_DECODER = json.JSONDecoder()


class JournalState(NamedTuple):
    """A moment of a journal: the events so far, the history they made, and the query and basis of the next one."""

    sequence: int
    history: History
    query: Query | None = None
    seen: int = 0


def rows(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """The rows of a journal in their order, by the names of their columns. A ``sqlite3.DataError`` where a value is not
    of its column's type, as SQLite would allow, or damaged pages lead back to former rows."""
    kinds = {row[1]: TYPES.get(row[2]) for row in connection.execute("PRAGMA table_info(event)")}
    found = connection.execute(f"SELECT {', '.join(kinds)} FROM event ORDER BY sequence")
    before, right, at = -math.inf, set[tuple[type, ...]](), [*kinds].index("sequence")
    for row in found:
        if (own := tuple(map(type, row))) not in right:
            for (name, kind), value in zip(kinds.items(), row, strict=True):
                if not (value is None or type(value) is kind):
                    raise sqlite3.DataError(f"row {row[at]}: {name} is a {type(value).__name__}")
            right.add(own)
        if row[at] is None or row[at] <= before:
            raise sqlite3.DataError(f"row {row[at]} follows row {before}")
        before = row[at]
        yield dict(zip(kinds, row, strict=True))


def states(events: Iterable[Mapping[str, Any]]) -> Iterator[JournalState]:
    """The moment before each event, then the last one; a ``ValueError`` where a row is none of a journal's, whoever
    has signed it."""
    sequence, history = 0, History()
    for row in events:
        record, seen = _after(history.records, row, sequence)
        yield JournalState(sequence, history, record.query if row["kind"] == "asked" else None, seen)
        if row["kind"] == "asked":
            history = history.asked(record.query, record.cost, decision_seconds=record.decision_seconds)
        else:
            history = history.updated(record)
        sequence = row["sequence"]
    yield JournalState(sequence, history)


def history_of(events: Iterable[Mapping[str, Any]]) -> History:
    """The last one of :func:`states`, without the histories before it."""
    sequence, records = 0, list[Record]()
    for row in events:
        record, _ = _after(records, row, sequence)
        records[record.id : record.id + 1] = [record]
        sequence = row["sequence"]
    return History(records)


def _after(records: Sequence[Record], row: Mapping[str, Any], sequence: int) -> tuple[Record, int]:
    """The record that the event of a row makes or changes, and what its decision has seen; ``sequence`` is that of the
    event before."""
    try:
        if row["kind"] != "asked":
            return _changed(_pending(records, row["id"]), row), 0
        query, seen = _query(row, len(records)), whole("seen", row["seen"], 0, sequence)
        return Record(len(records), query, _cost(row), decision_seconds=_seconds(row, "decision_seconds")), seen
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError) as error:
        raise ValueError(f"row {row['sequence']} not as a journal writes it: {error}") from error


def columns(connection: sqlite3.Connection) -> list[str]:
    """The names of the columns, none where there is no journal yet."""
    return [row[1] for row in connection.execute("PRAGMA table_info(event)")]


def asked(query: Query, record: Record, seen: int) -> dict[str, Any]:
    """The row of a query, after a decision that knew the events up to ``seen``."""
    what = {"x": json.dumps(query.x), "fidelity": query.fidelity, "meta": json.dumps(query.meta), "seen": seen}
    cost = number("cost", record.cost, 0, below=LARGEST)
    return {"kind": "asked", "id": record.id, "cost": cost, "decision_seconds": record.decision_seconds, **what}


def ended(record: Record) -> dict[str, Any]:
    """The row of a record's end; that of a training which was stopped is one that failed, with a note."""
    same = ("id", "cost", "evaluation_seconds", "value", "standard_error", "reason")
    outcomes = json.dumps(record.outcomes) if record.outcomes else None
    stopped = record.status == Status.STOPPED
    status, noted = Status.FAILED if stopped else record.status, {"stopped": True} if stopped else {}
    meta = json.dumps(noted | {"curve": record.curve}) if noted or record.curve else None
    end = {"kind": "ended", "status": str(status), "outcomes": outcomes, "meta": meta}
    return end | {name: getattr(record, name) for name in same}


def _query(row: Mapping[str, Any], id: int) -> Query:
    whole("id", row["id"], id, id)
    x, meta = _parsed(row["x"]), _parsed(row["meta"])
    if not isinstance(x, list) or not isinstance(meta, dict):
        raise SettingError("x, meta", (type(x).__name__, type(meta).__name__), "a list and a mapping")
    return Query(tuple([number("x", value) for value in x]), whole("fidelity", row["fidelity"], 0), meta)


def _parsed(text: str) -> Any:
    """``json.loads`` of what ``json.dumps`` has written, in half of the time."""
    found, end = _DECODER.raw_decode(text)
    if end < len(text):
        raise ValueError(f"more than one JSON value: {text[end:][:20]}")
    return found


def _pending(records: Sequence[Record], id: Any) -> Record:
    record = records[whole("id", id, 0, len(records) - 1)]
    if record.status != Status.PENDING:
        raise SettingError("id", id, "that of a pending query")
    return record


def _changed(record: Record, row: Mapping[str, Any]) -> Record:
    """A record after the event of a row."""
    cost = _cost(row)
    if row["kind"] == "retried":
        return record.retried(_text(row), cost)
    noted = json.loads(row["meta"]) if row["meta"] else {}
    end: dict[str, Any] = {"cost": cost, "evaluation_seconds": _seconds(row, "evaluation_seconds")}
    end["curve"] = tuple((number("step", step), number("value", value)) for step, value in noted.get("curve", ()))
    if row["status"] != Status.DONE:
        ends = record.stopped if noted.get("stopped") is True else record.failed
        return ends(_text(row), **end)
    outcomes = json.loads(row["outcomes"]) if row["outcomes"] else {}
    end["outcomes"] = {name: _outcome(name, *found) for name, found in outcomes.items()}
    value, error = number("value", row["value"]), row["standard_error"]
    error = None if error is None else number("standard_error", error, 0)
    if unusable(value):
        return record.done(value, error, **end)
    same: dict[str, Any] = {name: getattr(record, name) for name in ("decision_seconds", "retries", "sunk")}
    # what record.done makes, in a third of its time
    return Record(record.id, record.query, value=value, standard_error=error, status=Status.DONE, **same, **end)


def _outcome(name: str, value: Any, error: Any, met: Any) -> Outcome:
    noise = None if error is None else number(f"{name}'s standard error", error, 0)
    if type(met) is not bool:
        raise SettingError(f"{name} is met", met, "True or False")
    return Outcome(number(name, value), noise, met)


def _cost(row: Mapping[str, Any]) -> float:
    return number("cost", row["cost"], 0, below=LARGEST)


def _seconds(row: Mapping[str, Any], column: str) -> float:
    return number(column, 0.0 if row[column] is None else row[column], above=-LARGEST, below=LARGEST)


def _text(row: Mapping[str, Any]) -> str:
    if not isinstance(row["reason"], str):
        raise SettingError("reason", row["reason"], "a text")
    return row["reason"]
