"""Runs in which everything goes wrong, checked to the last query.

    python -m benchmarks.faults [--kind processes|dask] [--repeats N] [--evaluations 200]

Of the evaluations one in ten kills its worker, one in ten raises, one in twenty outlives its timeout; the driver
is killed with SIGKILL five times and started again. Afterwards every query must have ended exactly once, as its
point says it must, and the capital must add up. Adds a line for each run to ``benchmarks/results/faults.csv``.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.troubled import CENTS, Troubled, expected
from mfbo_torch import executors
from mfbo_torch.history import Record, Status
from mfbo_torch.journal import Journal
from mfbo_torch.runner import run

RESULTS = Path(__file__).parent / "results" / "faults.csv"
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
        capital = evaluations * CENTS / 100
        run(
            Troubled(),
            RandomSearch(seed=seed),
            capital,
            executor=workers,
            max_pending=None,
            journal=journal,
            progress=False,
        )


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
                raise SystemExit(f"{kind}, seed {seed}: a driver ended with {driver.returncode}")
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
        SystemExit: A query did not end exactly once and as it must, or the capital does not add up.
    """
    with Journal(path, read_only=True) as journal:
        history = journal.history()
        ends = journal._connection.execute("SELECT id, count(*) FROM event WHERE kind = 'ended' GROUP BY id").fetchall()
    wrong = [(r.id, expected(r.query.x[0]), r.reason) for r in history if expected(r.query.x[0]) != found(r)]
    if wrong or sorted(ends) != [(i, 1) for i in range(evaluations)] or len(history) != evaluations:
        raise SystemExit(f"{path}: {len(history)} queries, {len(ends)} ends, not as they must: {wrong}")
    if round(100 * history.spent) != CENTS * evaluations:
        raise SystemExit(f"{path}: {history.spent} was spent, not {CENTS * evaluations / 100}")
    outcomes = [found(record) for record in history]
    return {kind: outcomes.count(kind) for kind in ("value", "raised", "timeout", "lost")}


def main() -> None:
    """Torment and check, again and again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=executors.KINDS, default="processes")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.drive:
        return drive(options.kind, options.drive, options.evaluations, options.seed)
    for seed in range(options.seed, options.seed + options.repeats):
        with tempfile.TemporaryDirectory() as folder:
            path, started = Path(folder) / "history.sqlite", time.perf_counter()
            kills = torment(options.kind, path, options.evaluations, seed)
            counts = check(path, options.evaluations)
        row = (options.kind, seed, options.evaluations, *counts.values(), kills, round(time.perf_counter() - started))
        new = not options.results.exists()
        with options.results.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(COLUMNS)
            writer.writerow(row)
        print(*(f"{name} {value}" for name, value in zip(COLUMNS, row, strict=True)), flush=True)


if __name__ == "__main__":
    main()
