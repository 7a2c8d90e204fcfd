"""A history as a table of other programs, and observations of other programs as a history."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mfbo_torch.history import COLUMNS, GIVEN, History, Query, Record, Status, column
from mfbo_torch.history.observation import Outcome
from mfbo_torch.problems.base import Problem
from mfbo_torch.space import Space
from mfbo_torch.space.fidelities import Fidelities
from mfbo_torch.space.parameter import text
from mfbo_torch.utils.errors import SettingError

SUFFIXES = (".csv", ".parquet")


def write(history: History, problem: Problem, path: Path) -> None:
    """:func:`rows` in a file: CSV or Parquet by the name's ending.

    Raises:
        SettingError: Another ending, Parquet without pyarrow, or a file that cannot be written.
    """
    named = problem.space.fidelities
    names = map(column, [*(p.name for p in problem.space.parameters), *([] if named is None else [named.name])])
    outcomes = [name for limit in problem.space.limits for name in _outcome(limit.name)]
    write_rows(rows(history, problem), path, [COLUMNS[0], *names, *COLUMNS[1:], *outcomes])


def rows(history: History, problem: Problem) -> list[dict[str, Any]]:
    """One row a record, values in the problem's own sign."""
    return [_row(record, problem) for record in history]


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path, columns: Sequence[str]) -> None:
    """Rows in a file, empty where one lacks a column: CSV or Parquet by the name's ending.

    Raises:
        SettingError: Another ending, Parquet without pyarrow, or a file that cannot be written.
    """
    if path.suffix not in SUFFIXES:
        raise SettingError("file", str(path), f"a name that ends with {' or '.join(SUFFIXES)}")
    try:
        if path.suffix == ".csv":
            text = io.StringIO()
            writer = csv.DictWriter(text, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            path.write_text(text.getvalue(), encoding="utf-8")
            return
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise SettingError("file", str(path), "a .csv file, or pyarrow must be installed for Parquet") from None
        table = pyarrow.table({column: [row.get(column) for row in rows] for column in columns})
        pyarrow.parquet.write_table(table, path)
    except OSError as error:
        raise SettingError("file", str(path), f"a file that can be written: {error.strerror}") from error


def _row(record: Record, problem: Problem) -> dict[str, Any]:
    named = problem.space.named(record.query.x)
    values = {
        p.name: text(named[p.name]) if p.choices else named[p.name] for p in problem.space.parameters if p.name in named
    }
    return {
        "id": record.id,
        **{column(p.name): values.get(p.name) for p in problem.space.parameters},
        **{column(name): value for name, value in problem.space.fidelity_value(record.query.fidelity).items()},
        "fidelity": record.query.fidelity,
        "value": problem.value_of(record),
        "status": str(record.status),
        "cost": record.cost,
        "retries": record.retries,
        "reason": record.reason,
        "decision_seconds": record.decision_seconds,
        "evaluation_seconds": record.evaluation_seconds,
        "standard_error": record.standard_error,
        **_outcomes(record, problem),
    }


def _outcome(name: str) -> tuple[str, str]:
    """The columns of an outcome and its standard error."""
    return f"outcome.{name}", f"outcome.{name}.standard_error"


def _outcomes(record: Record, problem: Problem) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for limit in problem.space.limits:
        measured = record.outcomes.get(limit.name)
        pair = (None, None) if measured is None else measured[:2]
        found |= dict(zip(_outcome(limit.name), pair, strict=True))
    return found


def read(path: Path, problem: Problem) -> list[Record]:
    """Observations of a CSV or Parquet file: a column for each parameter, ``value`` and ``fidelity``, in user's units.

    Columns are named as :func:`write` names them. A fidelity with a name may be told by its value (``epochs``);
    without any the values are the target's. A ``standard_error`` may be left out or empty. Other columns do not
    matter; rows without a value are passed over.

    Raises:
        SettingError: No such file, a column that is missing, or a row that is outside the problem's space.
    """
    parquet = path.suffix == ".parquet"
    found, columns = _parquet(path) if parquet else _csv(path)
    if twice := [name for i, name in enumerate(columns) if name in columns[:i]]:
        raise SettingError("warm_start", str(path), f"a table with one column {twice[0]}")
    return _records(found, columns, problem, str(path), "row" if parquet else "line", 1 if parquet else 2)


def _csv(path: Path) -> tuple[list[dict[str, str]], list[str]]:
    """The rows and the names of the columns."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            return list(reader), list(reader.fieldnames or [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SettingError("warm_start", str(path), f"a readable CSV file: {error}") from error


def _parquet(path: Path) -> tuple[list[dict[str, str]], list[str]]:
    """The same of a Parquet file."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise SettingError("warm_start", str(path), "a CSV file, or pyarrow must be installed for Parquet") from None
    try:
        found = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise SettingError("warm_start", str(path), f"a readable Parquet file: {reason}") from error
    return [_texts(row) for row in found.to_pylist()], list(found.column_names)


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    """A row as CSV has it: a cell without a value is empty."""
    return {name: "" if cell is None or cell != cell else text(cell) for name, cell in row.items()}


def taken(history: History, source: Problem, problem: Problem, place: str) -> list[Record]:
    """The observations of another run, by the names of their parameters.

    Args:
        history: What it has.
        source: Its problem.
        problem: That of the run that is to begin with them.
        place: Where it is, for messages.

    Raises:
        SettingError: The problems have other fidelities, or an observation is outside the new problem's space.
    """
    own, other = problem.space.num_fidelities, source.space.num_fidelities
    if own != other:
        raise SettingError("warm_start", place, f"a run with as many fidelities as this one, {own}; it has {other}")
    found = [_texts(row) for row in rows(history, source) if row["status"] == Status.DONE]
    outcomes = [name for limit in source.space.limits for name in _outcome(limit.name)]
    columns = [*map(column, [p.name for p in source.space.parameters]), *COLUMNS, *outcomes]
    return _records(found, columns, problem, place, "observation", 1)


def _records(
    rows: Sequence[Mapping[str, str]], columns: Sequence[str], problem: Problem, path: str, what: str, first: int
) -> list[Record]:
    """Rows of texts as observations; where one is wrong the message says which, counted from ``first``."""
    space = problem.space
    outcomes = [_outcome(limit.name)[0] for limit in space.limits]
    wanted = [*(column(p.name) for p in space.parameters), "value", *outcomes]
    if missing := [name for name in wanted if name not in columns]:
        raise SettingError("warm_start", path, f"a table with a column {', '.join(missing)}")
    found: list[Record] = []
    for number, row in enumerate(rows, first):
        if row["value"]:
            found.append(_record(len(found), row, problem, f"{path}, {what} {number}"))
    return found


def _level(told: str, fidelities: Fidelities, place: str) -> int:
    try:
        return fidelities.level(told)
    except SettingError as error:
        raise SettingError("warm_start", f"{error.setting} = {told}", f"{error.allowed} ({place})") from None


def _record(id: int, row: Mapping[str, str], problem: Problem, place: str) -> Record:
    space = problem.space

    def number(name: str, text: str | None) -> float:
        try:
            value = float(text or "")
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise SettingError("warm_start", f"{name} = {text}", f"a finite number ({place})")
        return value

    x = (
        _design(row, space, place)
        if space.mixed
        else tuple(number(p.name, row[column(p.name)]) for p in space.parameters)
    )
    for parameter, value in zip(space.parameters, x, strict=True):
        if not parameter.lower <= value <= parameter.upper:
            allowed = f"between {parameter.lower:g} and {parameter.upper:g} ({place})"
            raise SettingError("warm_start", f"{parameter.name} = {value:g}", allowed)
        if parameter.integer and value != round(value):
            raise SettingError("warm_start", f"{parameter.name} = {value:g}", f"a whole number ({place})")
    told = row.get(column(space.fidelities.name)) if space.fidelities else None
    known = _level(told, space.fidelities, place) if space.fidelities and told else space.target
    fidelity = number("fidelity", row["fidelity"]) if row.get("fidelity") else known
    if fidelity not in range(space.num_fidelities):
        other = f", or its value in a column {column(space.fidelities.name)}" if space.fidelities else ""
        raise SettingError("warm_start", f"fidelity = {fidelity:g}", f"0 to {space.target}{other} ({place})")
    if told and fidelity != known:
        raise SettingError("warm_start", f"fidelity = {fidelity:g}", f"{known}, as {told} says ({place})")
    value = problem.signed(number("value", row["value"]))
    error = number("standard_error", row["standard_error"]) if row.get("standard_error") else None
    if error is not None and error < 0:
        raise SettingError("warm_start", f"standard_error = {error:g}", f"a number from 0 on ({place})")
    measured = {}
    for limit in space.limits:
        name, noise = _outcome(limit.name)
        found, own = number(name, row[name]), number(noise, row[noise]) if row.get(noise) else None
        if own is not None and own < 0:
            raise SettingError("warm_start", f"{noise} = {own:g}", f"a number from 0 on ({place})")
        measured[limit.name] = Outcome(found, own, limit.met(found))
    query = Query(x, int(fidelity), GIVEN)
    return Record(id, query, 0.0, value + 0.0, Status.DONE, standard_error=error, outcomes=measured)


def _design(row: Mapping[str, str], space: Space, place: str) -> tuple[float, ...]:
    """The design of a row where there are labels, or cells that are empty because a parameter is not there."""
    cells = {p: row[column(p.name)] for p in space.parameters}
    try:
        named = {p.name: p.decode(p.encode_text(cell)) for p, cell in cells.items() if cell}
        return space.point(named, "row")
    except SettingError as error:
        name = error.setting.removeprefix("row.")
        raise SettingError("warm_start", f"{name} = {error.value}", f"{error.allowed} ({place})") from None
