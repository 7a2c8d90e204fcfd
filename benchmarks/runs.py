"""Runs that are measured once: the rows of a CSV file that grows as they end.

A benchmark declares its grid, a list of jobs, and a function from a job to its rows; :func:`measure` does the rest.

- A job is a tuple. Its first fields are its key, mostly a problem, a method and a seed; they are the first columns of
  its rows. What else the function needs stands behind them. A field of the key that is itself a tuple stands for as
  many rows, one for each of its values, such as the capitals at which one run is looked at.
- ``execute(job)`` returns the rows of the run, each with a value for each column. Worker processes find it by name,
  so it belongs to a module. It runs on one thread.
- A run that is in the file is not done again, so a command can be stopped, killed and started again, with more
  methods or seeds too. Rows are on disk when their run has ended; what a kill has torn is cut off at the next start.
  A run that fails is told, has no rows, and the others go on.
- Beside ``NAME.csv``, ``NAME.about.json`` lists the commands that have added rows, each with the number of its
  ``first_row``, counted from 0, and what :func:`benchmarks.common.about` says. Rows before the first of them are older.
"""

from __future__ import annotations

import csv
import fcntl
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from io import FileIO, StringIO
from itertools import product
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.common import about, quiet
from mfbo_torch.loop import executors

Job = tuple[Any, ...]
Execute = Callable[[Any], Iterable[Sequence[object]]]
UNFINISHED = ".unfinished"


def read(path: Path) -> list[dict[str, str]]:
    """The rows that are there."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def measure(
    jobs: Sequence[Job], execute: Execute, path: Path, columns: Sequence[str], *, key: int = 3, workers: int = 1
) -> int:
    """Do the runs that are missing.

    Args:
        jobs: The grid, in the order in which the runs are to start.
        execute: From a job to its rows.
        path: The CSV file; made if it is not there.
        columns: Its header.
        key: How many of the columns tell a row from the others.
        workers: How many processes run at once; 1: all in this one, one run after another.

    Returns:
        The command's exit status: 1 if a run has failed, else 0.

    Raises:
        SystemExit: The file has other columns, or another command is adding to it.
    """
    quiet()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{path}: another command is adding to it") from None
        header, *rows = _rows_of(file, path.with_suffix(UNFINISHED)) or [list(columns)]
        if header != list(columns):
            raise SystemExit(f"{path} has the columns {', '.join(header)}, not {', '.join(columns)}")
        have = {tuple(row[:key]) for row in rows}
        left = [job for job in jobs if not _keys(job, key) <= have]
        session, failed = {"first_row": len(rows), **about()} if left else {}, False
        outcomes = _outcomes(left, execute, workers)
        for job, found in tqdm(outcomes, initial=len(jobs) - len(left), total=len(jobs), unit="run"):
            if isinstance(found, BaseException):
                failed = True
                tqdm.write(f"{job[:key]} failed, the others go on: {type(found).__name__}: {found}")
                continue
            if session:
                _note(path.with_suffix(".about.json"), session)
                session = {}
            new = {tuple(map(str, row[:key])) for row in found} - have
            lines = [] if file.tell() else [columns]
            lines += [row for row in found if tuple(map(str, row[:key])) in new]
            _add(file, lines, path.with_suffix(UNFINISHED))
            have |= new
    return int(failed)


def _keys(job: Job, key: int) -> set[tuple[str, ...]]:
    """What tells the rows of a job from the others."""
    return set(product(*(tuple(map(str, part if isinstance(part, tuple) else (part,))) for part in job[:key])))


def _rows_of(file: FileIO, unfinished: Path) -> list[list[str]]:
    """The header and the rows, without those of a run that a kill has torn."""
    if unfinished.exists():
        file.truncate(int(unfinished.read_text() or file.tell()))
        unfinished.unlink()
    file.seek(0)
    text = file.read().decode()
    if not text.endswith("\n") and text:
        raise SystemExit(f"{file.name}: its last line has no end")
    return list(csv.reader(StringIO(text, newline="")))


def _add(file: FileIO, rows: Iterable[Sequence[object]], unfinished: Path) -> None:
    """Put rows at the end; as long as they are not all there, a note beside the file says where they began."""
    text = StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    unfinished.write_text(str(file.tell()))
    if file.write(data := text.getvalue().encode()) < len(data):
        raise OSError(f"{file.name}: the disk is full")
    unfinished.unlink()


def _note(path: Path, session: dict[str, Any]) -> None:
    """Put a session behind those of a file."""
    sessions = json.loads(path.read_text()) if path.exists() else []
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps([*sessions, session], indent=1) + "\n")
    draft.replace(path)


def _outcomes(
    jobs: Sequence[Job], execute: Execute, workers: int
) -> Iterator[tuple[Job, list[Sequence[object]] | BaseException]]:
    """Each job with its rows or its error, as they come."""
    if workers == 1:
        for job in jobs:
            try:
                yield job, _rows(execute, job)
            except Exception as error:
                yield job, error
        return
    with executors.start("processes", workers) as pool:
        futures = {pool.submit(_rows, execute, job): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.exception() or future.result()


def _rows(execute: Execute, job: Job) -> list[Sequence[object]]:
    quiet()
    return list(execute(job))
