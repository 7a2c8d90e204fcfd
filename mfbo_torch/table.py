"""A history as a table of other programs, and observations of other programs as a history."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Query, Record, Status
from mfbo_torch.problems.base import Problem

SUFFIXES = (".csv", ".parquet")
COLUMNS = (
    *("id", "fidelity", "value", "status", "cost", "retries", "reason"),
    *("decision_seconds", "evaluation_seconds", "standard_error"),
)
"""What there is of every record. A parameter of such a name, or one that begins with ``parameter.``, is
written as ``parameter.NAME``."""
GIVEN = {"stage": "given"}
"""What a query carries that was observed before the run began; it costs the run nothing."""


def write(history: History, problem: Problem, path: Path) -> None:
    """One row a record, values in the problem's own sign; CSV or Parquet by the name's ending.

    Raises:
        SettingError: Another ending, Parquet without pyarrow, or a file that cannot be written.
    """
    if path.suffix not in SUFFIXES:
        raise SettingError("file", str(path), f"a name that ends with {' or '.join(SUFFIXES)}")
    rows = [_row(record, problem) for record in history]
    columns = [COLUMNS[0], *map(_column, (p.name for p in problem.space.parameters)), *COLUMNS[1:]]
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
        table = pyarrow.table({column: [row[column] for row in rows] for column in columns})
        pyarrow.parquet.write_table(table, path)
    except OSError as error:
        raise SettingError("file", str(path), f"a file that can be written: {error.strerror}") from error


def _row(record: Record, problem: Problem) -> dict[str, Any]:
    return {
        "id": record.id,
        **{_column(name): value for name, value in problem.space.named(record.query.x).items()},
        "fidelity": record.query.fidelity,
        "value": problem.value_of(record),
        "status": str(record.status),
        "cost": record.cost,
        "retries": record.retries,
        "reason": record.reason,
        "decision_seconds": record.decision_seconds,
        "evaluation_seconds": record.evaluation_seconds,
        "standard_error": record.standard_error,
    }


def _column(parameter: str) -> str:
    return f"parameter.{parameter}" if parameter in COLUMNS or parameter.startswith("parameter.") else parameter


def read(path: Path, problem: Problem) -> list[Record]:
    """Observations of a CSV file: a column for each parameter, ``value`` and ``fidelity``, in the user's units.

    Columns are named as :func:`write` names them. Without a ``fidelity`` the values are the target's; a
    ``standard_error`` may be left out or empty. Other columns do not matter; rows without a value are passed over.

    Raises:
        SettingError: No such file, a column that is missing, or a row that is outside the problem's space.
    """
    space = problem.space
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
            columns = list(reader.fieldnames or [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SettingError("warm_start", str(path), f"a readable CSV file: {error}") from error
    if twice := [name for i, name in enumerate(columns) if name in columns[:i]]:
        raise SettingError("warm_start", str(path), f"a table with one column {twice[0]}")
    wanted = [*(_column(p.name) for p in space.parameters), "value"]
    if missing := [name for name in wanted if name not in columns]:
        raise SettingError("warm_start", str(path), f"a table with a column {', '.join(missing)}")
    records: list[Record] = []
    for line, row in enumerate(rows, 2):
        if row["value"]:
            records.append(_record(len(records), row, problem, f"{path}, line {line}"))
    return records


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

    x = tuple(number(p.name, row[_column(p.name)]) for p in space.parameters)
    for parameter, value in zip(space.parameters, x, strict=True):
        if not parameter.lower <= value <= parameter.upper:
            allowed = f"between {parameter.lower:g} and {parameter.upper:g} ({place})"
            raise SettingError("warm_start", f"{parameter.name} = {value:g}", allowed)
        if parameter.integer and value != round(value):
            raise SettingError("warm_start", f"{parameter.name} = {value:g}", f"a whole number ({place})")
    fidelity = number("fidelity", row["fidelity"]) if row.get("fidelity") else space.target
    if fidelity not in range(space.num_fidelities):
        raise SettingError("warm_start", f"fidelity = {fidelity:g}", f"0 to {space.target} ({place})")
    value = problem.signed(number("value", row["value"]))
    error = number("standard_error", row["standard_error"]) if row.get("standard_error") else None
    if error is not None and error < 0:
        raise SettingError("warm_start", f"standard_error = {error:g}", f"a number from 0 on ({place})")
    return Record(id, Query(x, int(fidelity), GIVEN), 0.0, value + 0.0, Status.DONE, standard_error=error)
