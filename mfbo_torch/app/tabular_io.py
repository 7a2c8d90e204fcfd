"""A record as a row: tables of other programs to and from a history, and the table of a page."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mfbo_torch.history import COLUMNS, GIVEN, History, Query, Record, Status, column
from mfbo_torch.history.observation import parse_finite, parse_several
from mfbo_torch.problems.base import Problem
from mfbo_torch.space import Space
from mfbo_torch.space.parameter import text
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import opened, replacing, write_text
from mfbo_torch.utils.validation import written

SUFFIXES = (".csv", ".parquet")
MOST_ROWS = 100_000
"""Rows of the longest table that is read: models are made of 1,000 observations of a fidelity at most."""


def write(history: History, problem: Problem, path: Path) -> list[str]:
    """:func:`rows` in a file: CSV or Parquet by the name's ending; gives what :func:`write_rows` does."""
    return write_rows(rows(history, problem, typed(path)), path, columns_of(problem.space))


def columns_of(space: Space) -> list[str]:
    """The columns of :func:`rows`."""
    named = [] if space.fidelities is None else [column(space.fidelities.name)]
    outcomes = [name for limit in space.outcomes for name in _outcome(limit.name)]
    return [COLUMNS[0], *(column(p.name) for p in space.parameters), *named, *COLUMNS[1:], *outcomes]


def typed(path: Path) -> bool:
    """Whether the columns of a file have types."""
    return path.suffix == ".parquet"


def rows(history: History, problem: Problem, typed: bool = False) -> list[dict[str, Any]]:
    """One row a record, values in the problem's own sign; ``None`` where there is nothing. Choices are texts, or, for a
    ``typed`` column, what they are where all of a parameter's are of one type."""
    return [_row(record, problem, typed) for record in history]


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path, columns: Sequence[str]) -> list[str]:
    """Rows in a file, empty where one lacks a column: CSV or Parquet by the name's ending.

    Gives the columns of a CSV file of which a spreadsheet would run a cell: they are written as they are, to be read
    again.
    """
    if path.suffix not in SUFFIXES:
        raise SettingError("file", str(path), f"a name that ends with {' or '.join(SUFFIXES)}")
    try:
        if path.suffix == ".csv":
            write_text(path, csv_text([columns, *([row.get(name) for name in columns] for row in rows)]))
            return [name for name in columns if any(map(is_formula, (name, *(row.get(name) for row in rows))))]
        pyarrow = _pyarrow("file", path)
        table = pyarrow.table({column: [row.get(column) for row in rows] for column in columns})
        with replacing(path) as file:
            pyarrow.parquet.write_table(table, file)
        return []
    except OSError as error:
        raise SettingError("file", str(path), f"a file that can be written: {error.strerror or error}") from error


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV; a cell with a line break of whatever kind is quoted."""
    text = io.StringIO()
    line = SimpleNamespace(write=lambda written: text.write(written.removesuffix("\r\n") + "\n"))
    csv.writer(line, lineterminator="\r\n").writerows(rows)  # until Python 3.13 it quotes what ends a line alone
    return text.getvalue()


def is_formula(cell: Any) -> bool:
    """Whether a spreadsheet would run a cell of a CSV file: a text, and no number, that begins like a formula."""
    if not isinstance(cell, str) or not cell.lstrip().startswith(("=", "+", "-", "@")):
        return False
    try:
        written(cell)
    except ValueError:
        return True
    return False


def _pyarrow(setting: str, path: Path) -> Any:
    """The library for Parquet."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise SettingError(setting, str(path), "a CSV file, or pyarrow must be installed for Parquet") from None
    return pyarrow


def shown(history: History, problem: Problem) -> list[dict[str, Any]]:
    """The columns of the table of a page: their ``"title"``, ``"kind"``, ``"num"`` or ``"string"``, and ``"cells"``.

    Values are in the problem's own sign and exact but for times, which are in whole microseconds.
    """
    space, table = problem.space, rows(history, problem)
    cells = {name: [row[name] for row in table] for name in COLUMNS}
    unit = " (s)" if space.measured else ""
    found: list[tuple[str, list[Any]]] = [("query", cells["id"])]
    found.append(("fidelity", [space.fidelity_name(m) for m in cells["fidelity"]]))
    found += [(name, [row[name] for row in table]) for name in (column(p.name) for p in space.parameters)]
    found.append(("value", cells["value"]))
    if any(error is not None for error in cells["standard_error"]):
        found.append(("standard error", cells["standard_error"]))
    found += [(one.name, [row[_outcome(one.name)[0]] for row in table]) for one in space.objectives]
    if space.limits:
        found.append(("feasible", ["yes" if r.feasible else "no" for r in history]))
    found.append((f"cost{unit}", cells["cost"]))
    found.append((f"capital spent{unit}", list(accumulate(cells["cost"]))))
    found.append(("status", cells["status"]))
    found.append(("deciding (s)", [round(seconds, 6) for seconds in cells["decision_seconds"]]))
    found.append(("evaluating (s)", [round(seconds, 6) for seconds in cells["evaluation_seconds"]]))
    found.append(("reason", [reason or None for reason in cells["reason"]]))
    kinds = ["string" if any(isinstance(cell, str) for cell in each) else "num" for _, each in found]
    return [{"title": title, "kind": kind, "cells": each} for (title, each), kind in zip(found, kinds, strict=True)]


def _row(record: Record, problem: Problem, typed: bool) -> dict[str, Any]:
    space = problem.space
    named = space.named(record.query.x)
    as_text = {p.name for p in space.parameters if p.choices and not (typed and len({*map(type, p.choices)}) == 1)}
    values = {name: text(value) if name in as_text else value for name, value in named.items()}
    outcomes: dict[str, float | None] = {}
    for limit in space.outcomes:
        measured = record.outcomes.get(limit.name)
        outcomes |= zip(_outcome(limit.name), (None, None) if measured is None else measured[:2], strict=True)
    return {
        "id": record.id,
        **{column(p.name): values.get(p.name) for p in space.parameters},
        **{column(name): value for name, value in space.fidelity_value(record.query.fidelity).items()},
        "fidelity": record.query.fidelity,
        "value": problem.value_of(record),
        "status": str(record.status),
        **{name: getattr(record, name) for name in COLUMNS[4:]},
        **outcomes,
    }


def _outcome(name: str) -> tuple[str, str]:
    """The columns of an outcome and its standard error."""
    return f"outcome.{name}", f"outcome.{name}.standard_error"


def read(path: Path, problem: Problem) -> list[Record]:
    """Observations of a CSV or Parquet file: a column for each parameter, ``value`` and ``fidelity``, in user's units.

    Columns are named as :func:`write` names them. A fidelity with a name may be given by its value (``epochs``);
    without any the values are the target's. A ``standard_error`` may be left out or empty. Other columns do not
    matter; rows without a value are passed over.
    """
    parquet = typed(path)
    found, columns = _parquet(path) if parquet else _csv(path)
    if twice := [name for name, times in Counter(columns).items() if times > 1]:
        raise SettingError("warm_start", str(path), f"a table with one column {twice[0]}")
    if len(found) > MOST_ROWS:
        wanted = f"a table with at most {MOST_ROWS:,} rows; a model uses 1,000 of a fidelity: draw some at random"
        raise SettingError("warm_start", str(path), wanted)
    return _records(found, columns, problem, str(path), "row" if parquet else "line", 1 if parquet else 2)


def _csv(path: Path) -> tuple[list[dict[str, str]], list[str]]:
    """The rows and the names of the columns."""
    try:
        with io.TextIOWrapper(opened(path), newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            found = list(islice(reader, MOST_ROWS + 1))
            return found, list(reader.fieldnames or [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SettingError("warm_start", str(path), f"a readable CSV file: {error}") from error


def _parquet(path: Path) -> tuple[list[dict[str, str]], list[str]]:
    """The same of a Parquet file."""
    pyarrow = _pyarrow("warm_start", path)
    try:
        found = pyarrow.parquet.read_table(path).slice(0, MOST_ROWS + 1)
    except (OSError, pyarrow.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise SettingError("warm_start", str(path), f"a readable Parquet file: {reason}") from error
    return [_texts(row) for row in found.to_pylist()], list(found.column_names)


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    """A row as CSV has it: a cell without a value is empty."""
    return {name: "" if cell is None or cell != cell else text(cell) for name, cell in row.items()}


def taken(history: History, source: Problem, problem: Problem, place: str) -> list[Record]:
    """The observations of another run, whose problem is ``source``, by the names of their parameters."""
    own, other = problem.space.num_fidelities, source.space.num_fidelities
    if own != other:
        raise SettingError("warm_start", place, f"a run with as many fidelities as this one, {own}; it has {other}")
    found = [_texts(row) for row in rows(history, source) if row["status"] == Status.DONE]
    return _records(found, columns_of(source.space), problem, place, "observation", 1)


def _records(
    rows: Sequence[Mapping[str, str]], columns: Sequence[str], problem: Problem, path: str, what: str, first: int
) -> list[Record]:
    """Rows of texts as observations; where one is wrong the message says which, counted from ``first``."""
    space = problem.space
    outcomes = [_outcome(limit.name)[0] for limit in space.outcomes]
    own = [] if space.objectives else ["value"]  # that of the first objective, which has a column by its name
    wanted = [*(column(p.name) for p in space.parameters), *own, *outcomes]
    if missing := [name for name in wanted if name not in columns]:
        raise SettingError("warm_start", path, f"a table with a column {', '.join(missing)}")
    found: list[Record] = []
    for number, row in enumerate(rows, first):
        if row[own[0] if own else _outcome(space.objectives[0].name)[0]]:
            try:
                found.append(_record(len(found), row, problem))
            except SettingError as error:
                name = error.setting.removeprefix("row.")
                allowed = f"{error.allowed} ({path}, {what} {number})"
                raise SettingError("warm_start", f"{name} = {error.value}", allowed) from None
    return found


def _record(id: int, row: Mapping[str, str], problem: Problem) -> Record:
    space = problem.space
    cells = {p: row[column(p.name)] or "" for p in space.parameters}
    named = {p.name: p.decode(p.encode_text(cell, p.name)) for p, cell in cells.items() if cell or not p.when}
    measured = {limit.name: _pair(row, *_outcome(limit.name)) for limit in space.outcomes}
    if space.objectives:
        given: Any = parse_several(measured, space.objectives)
    else:
        given = {"value": _pair(row, "value", "standard_error"), **measured}
    found = parse_finite(given, space.outcomes).to_maximize(problem.maximize)
    query = Query(space.point(named, "row"), _fidelity(row, space), GIVEN)
    return Record(id, query, 0.0).observed(found)


def _pair(row: Mapping[str, str], name: str, noise: str) -> tuple[float, float | None]:
    """A value and its standard error."""
    return _number(name, row[name]), _number(noise, row[noise]) if row.get(noise) else None


def _fidelity(row: Mapping[str, str], space: Space) -> int:
    """The fidelity of a row, by its number or by its value under its name; the target without both."""
    named = None if space.fidelities is None else column(space.fidelities.name)
    by_value = space.fidelities.level(row[named]) if space.fidelities and named and row.get(named) else None
    if not row.get("fidelity"):
        return space.target if by_value is None else by_value
    number = _number("fidelity", row["fidelity"])
    if number not in range(space.num_fidelities):
        other = f", or its value in a column {named}" if named else ""
        raise SettingError("fidelity", f"{number:g}", f"0 to {space.target}{other}")
    if by_value not in (None, number):
        raise SettingError("fidelity", f"{number:g}", f"{by_value}, as {row[named or '']} says")
    return int(number)


def _number(name: str, text: str | None) -> float:
    try:
        value = written(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SettingError(name, text, "a finite number")
    return value
