"""Runs in which everything goes wrong, checked to the last query.

    python -m benchmarks.robustness.faults [--kind processes|dask] [--repeats N] [--evaluations 60]

Evaluations kill their worker, raise, outlive their timeout, leave with exit code 0, import a module that ends its
program, or let nothing else run in their process; the driver is killed with SIGKILL three times and interrupted twice
while its workers start, and started again. Afterwards every query must have ended exactly once, as its point says it
must, the capital must add up, and every decision must be the same again. Adds the runs that are missing to
``faults.csv`` (:mod:`benchmarks.study`), the method the kind of executor, the capital the number of evaluations.
"""

import faulthandler
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.common import parser
from benchmarks.dependencies import digest
from benchmarks.robustness.troubled import CENTS, OUTCOMES, Troubled, expected
from benchmarks.study import KEY, Job, Row, measure
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop import executors
from mfbo_torch.loop.runner import run
from mfbo_torch.strategies import RandomSearch

COLUMNS = (
    *KEY,
    *("lost_workers", "raised", "timeouts", "exits_with_0", "import_exits", "locks_held", "values"),
    *("driver_kills", "start_interrupts", "seconds"),
)
WORKERS, TIMEOUT, KILLS, INTERRUPTS = 4, 2.0, 3, 2
PATIENCE, LOOKING = 600.0, 2.0
"""Seconds in which an interrupted driver has to end, and to say where it stands if it does not."""


def drive(kind: str, path: Path, evaluations: int, seed: int) -> None:
    """A driver: go on until the capital is spent; SIGUSR1 has it say where it stands."""
    faulthandler.register(signal.SIGUSR1, sys.__stderr__, all_threads=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    with Journal(path) as journal, executors.start(kind, WORKERS, timeout=TIMEOUT) as workers:
        how = {"executor": workers, "max_pending": None, "journal": journal, "progress": False}
        run(Troubled(), RandomSearch(seed=seed), evaluations * CENTS / 100, **how)


def torment(kind: str, path: Path, evaluations: int, seed: int) -> tuple[int, int]:
    """Start drivers, kill and interrupt them until one comes to the end; how many were killed and interrupted."""
    moments, kills, interrupts = random.Random(seed), 0, 0
    call = f"drive({kind!r}, Path({str(path)!r}), {evaluations}, {seed})"
    command = [
        sys.executable,
        "-c",
        f"from pathlib import Path; from benchmarks.robustness.faults import drive; {call}",
    ]
    ends = [i / (KILLS + 1) * evaluations + moments.uniform(0.0, evaluations / (KILLS + 1)) for i in range(KILLS)]
    for end in [*([None] * INTERRUPTS), *ends, math.inf]:
        if end is None:
            interrupts += _interrupted(command, moments.uniform(0.0, 2.0))
            if _asked(path) >= evaluations:
                raise RuntimeError(f"{kind}, seed {seed}: a driver did not hear that it was interrupted")
            continue
        driver = subprocess.Popen(command, start_new_session=True)
        while driver.poll() is None:
            time.sleep(0.2)
            if _asked(path) >= end:
                driver.kill()
                driver.wait()
                kills += 1
                break
        else:
            if driver.returncode:
                raise RuntimeError(f"{kind}, seed {seed}: a driver ended with {driver.returncode}")
            break
    return kills, interrupts


def _interrupted(command: Sequence[str], seconds: float) -> int:
    """Press Ctrl-C so long after a driver has begun to start its workers; how often, 0 where it was quicker."""
    with tempfile.TemporaryFile() as said:
        driver = subprocess.Popen(command, start_new_session=True, stderr=said)
        while driver.poll() is None and not _children(driver.pid):
            time.sleep(0.02)
        with suppress(subprocess.TimeoutExpired):
            driver.wait(seconds)
            return 0
        os.killpg(driver.pid, signal.SIGINT)
        try:
            driver.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            driver.send_signal(signal.SIGUSR1)
            time.sleep(LOOKING)
            driver.kill()
            driver.wait()
            said.seek(0)
            raise RuntimeError(f"an interrupted driver went on:\n{said.read().decode()}") from None
    return 1


def _children(process: int) -> str:
    found = ""
    with suppress(OSError):  # a thread that has ended meanwhile
        found = "".join(path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children"))
    return found


def _asked(path: Path) -> int:
    if not path.exists() or not path.stat().st_size:
        return 0
    with Journal(path, read_only=True) as journal:
        return len(journal.history())


def check(path: Path, evaluations: int, seed: int) -> list[int]:
    """How often each of :data:`~benchmarks.robustness.troubled.OUTCOMES` happened.

    It is an error if a query did not end exactly once and as it must, if the capital does not add up, or if a decision
    is another one when it is made again.
    """
    with Journal(path, read_only=True) as journal:
        history, replay = journal.history(), list(journal.replay())
        ends = journal._connection.execute("SELECT id, count(*) FROM event WHERE kind = 'ended' GROUP BY id").fetchall()
    outcomes = [expected(record.query.x[0]) for record in history]
    wrong = [
        (record.id, what, record.reason)
        for record, what in zip(history, outcomes, strict=True)
        if record.reason.partition(":")[0] != OUTCOMES[what][1]
    ]
    if wrong or sorted(ends) != [(i, 1) for i in range(evaluations)] or len(history) != evaluations:
        raise RuntimeError(f"{len(history)} queries, {len(ends)} ends, not as they must: {wrong}")
    if round(100 * history.spent) != CENTS * evaluations:
        raise RuntimeError(f"{history.spent} was spent, not {CENTS * evaluations / 100}")
    strategy = RandomSearch(seed=seed).bind(Troubled().space, evaluations * CENTS / 100)
    if other := [query.x for past, query in replay if strategy.ask(past)[0] != query]:
        raise RuntimeError(f"not decided again: {other}")
    return [outcomes.count(what) for what in OUTCOMES]


def execute(job: Job) -> list[Row]:
    """Torment and check; what happened."""
    kind, seed, (evaluations,) = job.method, job.seed, job.capitals
    with tempfile.TemporaryDirectory() as folder:
        path, started = Path(folder) / "history.sqlite", time.perf_counter()
        done_to_it = torment(kind, path, evaluations, seed)
        counts = check(path, evaluations, seed)
    row = (*job[:3], evaluations, *counts, *done_to_it, round(time.perf_counter() - started))
    print(*(f"{name} {value}" for name, value in zip(COLUMNS, row, strict=True)), flush=True)
    return [row]


def code(*_: str) -> str:
    """A hash of what the rows depend on."""
    return digest([("benchmarks.robustness.faults", "execute")])


def main(arguments: Sequence[str] | None = None) -> int:
    """Torment and check, again and again; the exit status."""
    options = parser(__doc__, repeats=1, evaluations=60, seed=0)
    options.add_argument("--kind", choices=executors.KINDS, default="processes")
    given = options.parse_args(arguments)
    wanted = [Job("Troubled", given.kind, given.seed + i, (given.evaluations,)) for i in range(given.repeats)]
    return measure(wanted, execute, given.results / "faults.csv", COLUMNS, code)


if __name__ == "__main__":
    sys.exit(main())
