"""A study: every method on every problem with every seed, looked at when some capitals are spent; one CSV file.

A module of a benchmark holds one :class:`Study`, named ``STUDY``. :meth:`Study.main` does the runs that are missing,
adds a row for each (problem, method, seed, capital) to ``NAME.csv``, and writes the report::

    python -m benchmarks.quality.regret [--problems NAME ...] [--methods LABEL ...] [--seeds N] [--first SEED]
        [--capital MOST] [--workers N] [--report | --anew | --again]

- A run that is in the file is not done again, so a command can be stopped, killed and started again. Rows are on disk
  when their run has ended; what a kill has truncated is cut off at the next start. A run that fails is reported, has no
  rows, and the others go on.
- ``NAME.about.json`` lists the commands that have added rows, each with the number of its ``first_row``, counted from
  0, what :func:`benchmarks.common.about` says, and by problem and method the ``code``: a hash of what their rows depend
  on (:mod:`benchmarks.dependencies`). Rows whose hash is another one now are stale. ``--anew`` forgets them first;
  ``--again`` does one seed of each again, and where its rows are the same, an entry without ``first_row`` says so. Of
  a run that was cut, which depends on the machine's speed, those until then are compared.
- Where there is ``NAME.csv.gz`` only, it is read, and unpacked before rows are added.
"""

import csv
import fcntl
import gzip
import math
import time
from argparse import ArgumentParser, Namespace
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from io import FileIO, StringIO
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks import dependencies
from benchmarks.common import cut_after, parser, quiet
from benchmarks.provenance import Code, Group, forget, note, states, told
from mfbo_torch.history import History
from mfbo_torch.loop import executors
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics import capital_spent, paid_for
from mfbo_torch.problems import Problem

KEY = ("problem", "method", "seed", "capital")
"""The first columns of every file."""
UNFINISHED = ".unfinished"
Row = Sequence[object]
Rows = dict[tuple[str, str, float], list[dict[str, str]]]
"""The rows of all seeds by problem, method and capital."""


class Job(NamedTuple):
    """One run: where, by what, with which seed, and the capitals at which it is looked at.

    Without capitals the run itself says at which it is: it is done when it has any row. A run that has rows for several
    methods has all of their names.
    """

    problem: str
    method: Any
    seed: int
    capitals: tuple[Any, ...] = ()


class Look(NamedTuple):
    """A run when a capital is spent: the ``history`` that it pays for, and the ``whole`` one.

    ``capital`` and ``spent`` are in units of the target's cost, ``seconds`` the processor time of the whole run.
    """

    job: Job
    problem: Problem
    history: History
    capital: float
    spent: float
    whole: History
    seconds: float

    @property
    def decision_seconds(self) -> float:
        """Of all decisions until then, by the clock."""
        return round(sum(record.decision_seconds for record in self.history), 3)


@dataclass(frozen=True)
class Study:
    """A grid of runs and what is measured of each.

    ``module`` has the study as its attribute ``STUDY``: worker processes find it there. ``problems`` and ``methods``
    make a problem, and the strategy of a seed, or whatever ``execute`` and ``play`` make of them. A run goes to the
    largest of the ``capitals``, in units of the target's cost, and is looked at when each is spent; ``plan`` says for
    a problem, a method and a seed with which capitals which runs are made. ``play`` makes the history of a job with
    its problem and capital, ``measure`` the values of the ``columns`` from a look at it; ``execute`` does both.
    Runs that take more processor time than ``minutes`` are cut, 0: none; ``longer`` has other limits, by problem and
    method. ``report`` writes tables and pictures of a CSV file beside it. ``together``: one run has the rows of all
    methods, which only look at it.
    """

    module: str
    name: str
    problems: Mapping[str, Any]
    methods: Mapping[str, Any]
    capitals: tuple[Any, ...]
    columns: tuple[str, ...]
    measure: Callable[[Look], Row] | None = None
    seeds: int = 10
    minutes: float = 0.0
    longer: Mapping[tuple[str, str], float] = field(default_factory=dict)
    plan: Callable[[Any, Any, int], Iterable[tuple[Any, ...]]] | None = None
    play: Callable[[Job, Any, float], History] | None = None
    execute: Callable[[Job], Iterable[Row]] | None = None
    report: Callable[[Path], object] | None = None
    together: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _study_of, (self.module,)

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of the file."""
        return (*KEY, *self.columns)

    def jobs(
        self,
        problems: Iterable[str] | None = None,
        methods: Iterable[str] | None = None,
        seeds: Iterable[int] | None = None,
        most: float | None = None,
    ) -> list[Job]:
        """Every run of these problems, methods, seeds and largest capital, a seed of all methods before the next."""
        labels = tuple(self.methods if methods is None else methods)
        pairs = list(product(self.problems if problems is None else problems, [labels] if self.together else labels))
        found: dict[Job, None] = {}
        for seed in range(self.seeds) if seeds is None else seeds:
            for problem, method in pairs:
                for capitals in self.plan(problem, method, seed) if self.plan else (self.capitals,):
                    some = capitals if most is None else tuple(c for c in capitals if c <= most) or (most,)
                    found[Job(problem, method, seed, some)] = None
        return list(found)

    def rows(self, job: Job) -> list[Row]:
        """Do a run; one row for each capital."""
        quiet()
        if self.execute is not None:
            return [*self.execute(job)]
        assert self.measure is not None
        problem, started = self.problems[job.problem](), time.process_time()
        problem.trial = job.seed
        top = problem.space.costs[-1]
        minutes = self.longer.get((job.problem, job.method), self.minutes)
        with cut_after(minutes) if minutes else nullcontext():
            history = (self.play or self._played)(job, problem, max(job.capitals) * top)
        seconds, spent = round(time.process_time() - started, 1), capital_spent(history) / top
        found: list[Row] = []
        for capital, within in zip(job.capitals, paid_for(spent, job.capitals).tolist(), strict=True):
            paid = round(spent[within - 1].item(), 6) if within else 0.0
            part = History(history.records[:within])
            look = Look(job, problem, part, capital, paid, history, seconds)
            found.append((*job[:3], capital, *self.measure(look)))
        return found

    def code(self, problem: str, method: str) -> str:
        """A hash of what the rows of a group depend on: how the study plays and measures, and what its module has for
        the problem and the method under their names, that of the method without `` @`` and its workers."""
        played = (self.measure, self.execute, self.play)
        # a module that runs as a program is called __main__
        home = {"__main__": self.module}
        roots = [(home.get(m.__module__, m.__module__), m.__qualname__) for m in played if m is not None]
        skipped, extra = [], []
        for label, table in ((problem, self.problems), (method.partition(" @")[0], self.methods)):
            if found := dependencies.entry(label, self.module):
                skipped.append(found[0])
                extra.append(found[1])
                roots += dependencies.named(found[1], self.module)
            elif (made := table.get(label)) is not None:
                made = getattr(made, "func", made)
                roots.append((home.get(made.__module__, made.__module__), made.__qualname__))
        return dependencies.digest(roots, skipped, extra)

    def _played(self, job: Job, problem: Any, capital: float) -> History:
        return run(problem, self.methods[job.method](job.seed), capital, progress=False)

    def parser(self, page: str | None, **defaults: Any) -> ArgumentParser:
        """The options of :meth:`main`."""
        grid = {"problems": list(self.problems), "methods": list(self.methods), "seeds": self.seeds, "first": 0}
        made = parser(page, **grid, workers=1, **defaults)
        made.add_argument("--capital", type=float, help="the largest at which runs are looked at")
        return with_ways(made)

    def finish(self, given: Namespace) -> int:
        """Do what is missing by the options, and write the report; the exit status."""
        path, failed = given.results / f"{self.name}.csv", 0
        if not given.report:
            seeds, most = range(given.first, given.first + given.seeds), given.capital
            most = int(most) if most is not None and most == int(most) else most
            wanted = self.jobs(given.problems, given.methods, seeds, most)
            failed = done(given, wanted, self.rows, path, self.header, self.code)
        if self.report is not None:
            reported(path, self.report)
        return failed

    def main(self, page: str | None, arguments: Sequence[str] | None = None) -> int:
        """Do what is missing, and write the report; the exit status."""
        return self.finish(self.parser(page).parse_args(arguments))


def with_ways(made: ArgumentParser) -> ArgumentParser:
    """A parser with the options of :func:`done`, and ``--report``."""
    ways = made.add_mutually_exclusive_group()
    ways.add_argument("--report", action="store_true", help="only write the report of the rows that are there")
    ways.add_argument("--anew", action="store_true", help="first forget the rows that older code has measured")
    ways.add_argument("--again", action="store_true", help="one seed of these again: are the rows the same?")
    return made


def done(
    given: Namespace,
    jobs: Sequence[Job],
    execute: Callable[[Job], Iterable[Row]],
    path: Path,
    columns: Sequence[str],
    code: Code,
) -> int:
    """:func:`measure`, or with ``given.again`` :func:`again`, with ``given.anew`` what is stale is forgotten first."""
    if given.again or given.anew:
        known = states(path, read(path), code)
        stale = {group for group in _all_groups(jobs) if known.get(group, "fresh") != "fresh"}
        if given.again:
            return again([job for job in jobs if _groups(job) & stale], execute, path, code)
        forget(path, read(path), stale)
    return measure(jobs, execute, path, columns, code, given.workers)


def _study_of(module: str) -> Study:
    study: Study = import_module(module).STUDY
    return study


def reported(path: Path, report: Callable[[Path], object]) -> None:
    """Write the report of a file, which must have rows."""
    if not read(path):
        raise SystemExit(f"{path}: there are no runs to report")
    report(path)


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a file, or of ``.gz`` beside it; none where neither is there."""
    packed = path.with_name(f"{path.name}.gz")
    if path.exists():
        text = path.read_text()
    elif packed.exists():
        text = gzip.decompress(packed.read_bytes()).decode()
    else:
        return []
    return list(csv.DictReader(StringIO(text, newline="")))


def grouped(path: Path) -> Rows:
    """The rows of a study's file, those of all seeds together."""
    found: Rows = defaultdict(list)
    for row in read(path):
        found[row["problem"], row["method"], float(row["capital"])].append(row)
    return found


def measure(
    jobs: Sequence[Job],
    execute: Callable[[Job], Iterable[Row]],
    path: Path,
    columns: Sequence[str],
    code: Code = lambda problem, method: "",
    workers: int = 1,
) -> int:
    """Do the jobs that are missing, in their order, in so many processes; the exit status, 1 if one has failed.

    ``execute`` makes the rows of a job, on one thread; worker processes find it by name. The CSV file is made if it is
    not there; it is an error if it has other columns, or another command is adding to it.
    """
    quiet()
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = path.with_name(f"{path.name}.gz")
    if packed.exists() and not path.exists():
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    with path.open("ab+", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{path}: another command is adding to it") from None
        header, *rows = _rows_of(file, path.with_suffix(UNFINISHED)) or [list(columns)]
        if header != list(columns):
            raise SystemExit(f"{path} has the columns {', '.join(header)}, not {', '.join(columns)}")
        have = {tuple(row[:length]) for row in rows for length in (3, 4)}
        left = [job for job in jobs if not _keys(job) <= have]
        entry, failed = {"first_row": len(rows), **told(_all_groups(left), code)} if left else {}, False
        outcomes = _outcomes(left, execute, workers)
        for job, found in tqdm(outcomes, initial=len(jobs) - len(left), total=len(jobs), unit="run"):
            if isinstance(found, BaseException):
                failed = True
                tqdm.write(f"{job[:3]} failed, the others go on: {type(found).__name__}: {found}")
                continue
            if entry:
                note(path, entry)
                entry = {}
            lines = [] if file.tell() else [columns]
            lines += [row for row in found if tuple(map(str, row[:4])) not in have]
            _add(file, lines, path.with_suffix(UNFINISHED))
    return int(failed)


def again(jobs: Sequence[Job], execute: Callable[[Job], Iterable[Row]], path: Path, code: Code) -> int:
    """Do the first job of each group again; note the groups whose rows are the same as in the file, as far as it has
    them and neither run was cut, if there are any such, times aside. The exit status, 1 if a row is another one."""
    known, same, other = {tuple(row[name] for name in KEY): row for row in read(path)}, list[Job](), list[Job]()
    first = {tuple(sorted(_groups(job))): job for job in reversed(jobs)}
    for job in tqdm([*first.values()][::-1], unit="run"):
        rows = [dict(zip(next(iter(known.values())), map(str, row), strict=True)) for row in _rows(execute, job)]
        pairs = [(row, known[key]) for row in rows if (key := tuple(row[name] for name in KEY)) in known]
        whole = [pair for pair in pairs if not any(map(cut, pair))]
        equal = [_equal(*pair) for pair in whole or pairs]
        (same if equal and all(equal) else other).append(job)
        tqdm.write(f"{job[:3]}: {sum(equal)} of {len(equal)} rows are the same")
    if same:
        note(path, told(_all_groups(same), code))
    return int(bool(other))


def cut(row: Mapping[str, Any]) -> bool:
    """Whether the time of a run was over before the capital of a row was spent."""
    return float(row.get("spent", math.inf)) < float(row["capital"]) - 1


def _equal(row: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(
        other[name] == value or _close(value, other[name])
        for name, value in row.items()
        if not (name.endswith("seconds") or name.startswith("ms_"))
    )


def _close(value: str, other: str) -> bool:
    try:
        return math.isclose(float(value), float(other), rel_tol=1e-4, abs_tol=1e-9)
    except ValueError:
        return False


def _groups(job: Job) -> set[Group]:
    return {(job.problem, method) for method in (job.method if isinstance(job.method, tuple) else (job.method,))}


def _all_groups(jobs: Iterable[Job]) -> set[Group]:
    return {group for job in jobs for group in _groups(job)}


def _keys(job: Job) -> set[tuple[str, ...]]:
    """What tells the rows of a job from the others."""
    parts = (part if isinstance(part, tuple) else (part,) for part in job[: 4 if job.capitals else 3])
    return set(product(*(map(str, part) for part in parts)))


def _rows_of(file: FileIO, unfinished: Path) -> list[list[str]]:
    """The header and the rows, without those of a run that a kill has truncated."""
    if unfinished.exists():
        file.truncate(int(unfinished.read_text() or file.tell()))
        unfinished.unlink()
    file.seek(0)
    text = file.read().decode()
    if not text.endswith("\n") and text:
        raise SystemExit(f"{file.name}: its last line has no end")
    return list(csv.reader(StringIO(text, newline="")))


def _add(file: FileIO, rows: Iterable[Row], unfinished: Path) -> None:
    """Put rows at the end, numbers with eight digits; as long as they are not all there, a note beside the file says
    where they began."""
    text = StringIO(newline="")
    lines = [[*row[:4], *(f"{v:.8g}" if isinstance(v, float) else v for v in row[4:])] for row in rows]
    csv.writer(text, lineterminator="\n").writerows(lines)
    unfinished.write_text(str(file.tell()))
    if file.write(data := text.getvalue().encode()) < len(data):
        raise OSError(f"{file.name}: the disk is full")
    unfinished.unlink()


def _outcomes(
    jobs: Sequence[Job], execute: Callable[[Job], Iterable[Row]], workers: int
) -> Iterator[tuple[Job, list[Row] | BaseException]]:
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


def _rows(execute: Callable[[Job], Iterable[Row]], job: Job) -> list[Row]:
    quiet()
    return list(execute(job))
