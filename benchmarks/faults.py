"""Runs in which everything goes wrong, checked to the last query.

    python -m benchmarks.faults [--kind processes|dask] [--repeats N] [--evaluations 200]

Of the evaluations one in ten kills its worker, one in ten raises, one in twenty outlives its timeout; the driver
is killed with SIGKILL five times and started again. Afterwards every query must have ended exactly once, as its
point says it must, and the capital must add up. Adds the runs that are missing to ``faults.csv`` (see
:mod:`benchmarks.runs`).
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
import tempfile
import time
from argparse import SUPPRESS
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import parser
from benchmarks.runs import measure
from benchmarks.troubled import CENTS, Troubled, expected
from mfbo_torch import executors
from mfbo_torch.history import Record, Status
from mfbo_torch.journal import Journal
from mfbo_torch.runner import run

COLUMNS = ("kind", "seed", "evaluations", "values", "raised", "timeouts", "lost_workers", "driver_kills", "seconds")
WORKERS, TIMEOUT, KILLS = 4, 2.0, 5


def found(record: Record) -> str:
    """What came of it."""
    if record.status == Status.DONE:
        return "value"
    return {"WorkerLost": "lost", "TimeoutError": "timeout", "RuntimeError": "raised"}[record.reason.partition(":")[0]]


def drive(kind: str, path: Path, evaluations: int, seed: int) -> None:
    """A driver: go on until the capital is spent."""
    from mfbo_torch.strategies import RandomSearch  # its workers load this module too

    with Journal(path) as journal, executors.start(kind, WORKERS, timeout=TIMEOUT) as workers:
        how = {"executor": workers, "max_pending": None, "journal": journal, "progress": False}
        run(Troubled(), RandomSearch(seed=seed), evaluations * CENTS / 100, **how)


def torment(kind: str, path: Path, evaluations: int, seed: int) -> int:
    """Start drivers and kill them until one comes to the end; how many were killed."""
    moments = random.Random(seed)
    command = [sys.executable, "-m", "benchmarks.faults", "--kind", kind, "--drive", str(path)]
    command += ["--evaluations", str(evaluations), "--seed", str(seed)]
    for kills in range(KILLS + 1):
        driver = subprocess.Popen(command, start_new_session=True)
        end = math.inf if kills == KILLS else (kills + moments.uniform(0.2, 0.9)) * evaluations / (KILLS + 1)
        while driver.poll() is None:
            time.sleep(0.2)
            if _asked(path) >= end:
                driver.kill()
                driver.wait()
                break
        else:
            if driver.returncode:
                raise RuntimeError(f"{kind}, seed {seed}: a driver ended with {driver.returncode}")
            return kills
    return KILLS


def _asked(path: Path) -> int:
    if not path.exists() or not path.stat().st_size:
        return 0
    with Journal(path, read_only=True) as journal:
        return len(journal.history())


def check(path: Path, evaluations: int) -> dict[str, int]:
    """How often each thing happened.

    Raises:
        RuntimeError: A query did not end exactly once and as it must, or the capital does not add up.
    """
    with Journal(path, read_only=True) as journal:
        history = journal.history()
        ends = journal._connection.execute("SELECT id, count(*) FROM event WHERE kind = 'ended' GROUP BY id").fetchall()
    wrong = [(r.id, expected(r.query.x[0]), r.reason) for r in history if expected(r.query.x[0]) != found(r)]
    if wrong or sorted(ends) != [(i, 1) for i in range(evaluations)] or len(history) != evaluations:
        raise RuntimeError(f"{len(history)} queries, {len(ends)} ends, not as they must: {wrong}")
    if round(100 * history.spent) != CENTS * evaluations:
        raise RuntimeError(f"{history.spent} was spent, not {CENTS * evaluations / 100}")
    outcomes = [found(record) for record in history]
    return {kind: outcomes.count(kind) for kind in ("value", "raised", "timeout", "lost")}


def execute(job: tuple[str, int, int]) -> list[tuple[object, ...]]:
    """Torment and check; what happened."""
    kind, seed, evaluations = job
    with tempfile.TemporaryDirectory() as folder:
        path, started = Path(folder) / "history.sqlite", time.perf_counter()
        kills = torment(kind, path, evaluations, seed)
        counts = check(path, evaluations)
    row = (*job, *counts.values(), kills, round(time.perf_counter() - started))
    print(*(f"{name} {value}" for name, value in zip(COLUMNS, row, strict=True)), flush=True)
    return [row]


def main(arguments: Sequence[str] | None = None) -> int:
    """Torment and check, again and again; the exit status."""
    options = parser(__doc__, repeats=1, evaluations=200, seed=0)
    options.add_argument("--kind", choices=executors.KINDS, default="processes")
    options.add_argument("--drive", type=Path, help=SUPPRESS)
    given = options.parse_args(arguments)
    if given.drive:
        drive(given.kind, given.drive, given.evaluations, given.seed)
        return 0
    wanted = [(given.kind, given.seed + i, given.evaluations) for i in range(given.repeats)]
    return measure(wanted, execute, given.results / "faults.csv", COLUMNS)


if __name__ == "__main__":
    sys.exit(main())
