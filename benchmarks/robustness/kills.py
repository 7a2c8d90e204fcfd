"""Twelve kills on each engine, and what else happens to evaluations on a cluster; every query is accounted for.

    python -m benchmarks.robustness.kills [--engines processes dask ray submitit slurm] [--rounds 4]

``mfbo run`` with two workers and random designs. Each round kills a worker, the driver and the engine's scheduler with
SIGKILL: Dask's scheduler, Ray's GCS, ``slurmctld``, submitit's process that watches a job. Processes have no scheduler,
so there a worker and the driver take turns. Once each: an evaluation takes more memory than there is (processes and
submitit have no limit of their own), one takes longer than it may, one is cancelled by hand (``scancel``, elsewhere
SIGTERM), and the disk of the run's folder is full for some seconds. Needs root, for that disk and for Slurm.

Afterwards every query must have ended once, with its value, and nothing may have been evaluated again that was not in
flight at a kill. Adds to ``kills.json`` for each engine the strikes, the evaluations ``in_flight`` then, those
``repeated``, ``lost`` (queries without their value), ``twice`` (queries that ended twice) and ``beyond`` (repeated
though not in flight).
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.common import about, parser, write_json
from benchmarks.robustness.engines import ENGINES, Engine, ended
from mfbo_torch.history import Status
from mfbo_torch.history.storage.journal import Journal

TROUBLES = ("memory", "time", "cancel", "disk")
BETWEEN, PATIENCE, FULL = 2, 300.0, 8.0
"""Evaluations between two strikes; seconds in which something has to happen, and that the disk is full."""


def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for what other processes do."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > give_up:
            raise RuntimeError(f"not within {PATIENCE:g} seconds: {what}")
        time.sleep(0.02)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of its own, so that it can be filled."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


class Torment:
    """A run, its drivers one after another, and what is done to it."""

    def __init__(self, engine: Engine, folder: Path, out: Path, evaluations: int) -> None:
        self.engine, self.folder, self.out, self.evaluations = engine, folder, out, evaluations
        self.in_flight, self.last = Counter[float](), ""
        problem = {"class_path": "benchmarks.robustness.noted.Noted", "init_args": {"folder": str(folder)}}
        again = {"retries": 100, "charge_retries": False}
        run = {"problem": problem, "strategy": "RandomSearch", "capital": evaluations, **again}
        (folder / "run.yaml").write_text(yaml.safe_dump({**run, **engine.settings}))
        self.driver = self.begin()

    def begin(self) -> subprocess.Popen[bytes]:
        """Start a driver."""
        command = [sys.executable, "-m", "mfbo_torch", "run", self.folder / "run.yaml", "--out", self.out / "run"]
        with (self.folder / "driver.log").open("ab") as said:
            return subprocess.Popen(
                command, env=self.engine.environment(), stdout=said, stderr=said, start_new_session=True
            )

    def notes(self) -> list[tuple[str, float, int]]:
        """The beginnings and ends of evaluations."""
        path = self.folder / "notes"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(what, float(x), int(process)) for what, x, process in lines]

    def running(self) -> list[int]:
        """The processes that are evaluating."""
        last = {process: what for what, _, process in self.notes()}
        return [process for process, what in last.items() if what == "begun" and not ended(process)]

    def evaluated_by(self, process: int) -> set[float]:
        """The point that a process has evaluated last."""
        return {[x for _, x, pid in self.notes() if pid == process][-1]}

    def pending(self) -> set[float]:
        """The points whose values are not in the journal yet."""
        path = self.out / "run" / "history.sqlite"
        if not path.exists():
            return set()
        with Journal(path, read_only=True) as journal:
            return {record.query.x[0] for record in journal.history().pending}

    def goes_on(self) -> bool:
        """Whether the driver runs, which is started again where a scheduler took it along; at the end it has ended."""
        if (code := self.driver.poll()) is None:
            return True
        if code and self.last != "scheduler":
            raise RuntimeError(f"a driver ended with {code}:\n{(self.folder / 'driver.log').read_text()[-2000:]}")
        if code:
            self.driver = self.begin()
        return bool(code)

    def advance(self) -> None:
        """Wait until some evaluations more have ended and another runs."""
        wanted = BETWEEN + sum(what == "ended" for what, *_ in self.notes())

        def there() -> bool:
            if not self.goes_on():
                raise RuntimeError(f"{self.evaluations} evaluations are too few")
            return sum(what == "ended" for what, *_ in self.notes()) >= wanted and bool(self.running())

        until(there, f"{BETWEEN} evaluations after {self.last or 'the start'}")

    def strike(self, what: str) -> None:
        """Do something to it."""
        self.advance()
        before, self.last = self.pending(), what
        if what == "driver":
            self.driver.kill()
            self.driver.wait()
            before |= self.pending()
            self.driver = self.begin()
        elif what == "disk":
            ballast = self.out / "ballast"
            with suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 12))
            time.sleep(FULL)
            before |= self.pending()
            ballast.unlink()
        elif what in ("memory", "time"):
            order = self.folder / "order"
            (self.folder / "next").write_text("eat" if what == "memory" else "hang")
            (self.folder / "next").rename(order)
            until(lambda: self.goes_on() and not order.exists(), f"an evaluation that does {what}")
            process = int(max(self.folder.glob("order of *"), key=os.path.getmtime).name.split()[-1])
            before = self.evaluated_by(process)
            until(lambda: self.goes_on() and ended(process), f"the end of {process} after {what}")
        else:
            while not (running := self.running()):
                time.sleep(0.01)
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                getattr(self.engine, what)(running[0])
            before = before | self.pending() if what == "scheduler" else self.evaluated_by(running[0])
        if what not in self.engine.survives:
            self.in_flight.update(before)

    def end(self) -> None:
        """Wait for the end."""
        until(lambda: not self.goes_on(), "the end of the run")

    def found(self) -> dict[str, int]:
        """What became of the queries."""
        with Journal(self.out / "run" / "history.sqlite", read_only=True) as journal:
            history = journal.history()
            ends = journal._connection.execute("SELECT count(*) FROM event WHERE kind = 'ended' GROUP BY id").fetchall()
        kept = {record.id for record in history if record.status == Status.DONE and record.value == record.query.x[0]}
        begun = Counter(x for what, x, _ in self.notes() if what == "begun")
        unknown = len(set(begun) ^ {record.query.x[0] for record in history})
        return {
            "evaluations": len(history),
            "in_flight": self.in_flight.total(),
            "repeated": begun.total() - len(begun),
            "lost": len(set(range(self.evaluations)) ^ kept) + unknown,
            "twice": sum(count - 1 for (count,) in ends),
            "beyond": sum(max(0, count - 1 - self.in_flight[x]) for x, count in begun.items()),
        }


def torment(name: str, rounds: int, troubles: Sequence[str], seed: int = 0) -> dict[str, Any]:
    """Strike at a run and go on with it, to its end; what was done and what became of it."""
    kind, started = ENGINES[name], time.perf_counter()
    kills = [what for what in ("worker", "driver", "scheduler") if what not in kind.without]
    strikes = (kills * 3 * rounds)[: 3 * rounds] + [what for what in troubles if what not in kind.without]
    random.Random(seed).shuffle(strikes)
    with tempfile.TemporaryDirectory(prefix="kills-") as place:
        folder = Path(place)
        disk = small_disk(folder / "disk") if "disk" in strikes else nullcontext(folder)
        with disk as out, kind(folder) as engine:
            made = Torment(engine, folder, out, 6 * len(strikes) + 20)
            for strike in strikes:
                print(name, strike, len(made.notes()), round(time.perf_counter() - started), flush=True)
                made.strike(strike)
            made.end()
            found = made.found()
    row = {"kills": 3 * rounds, "troubles": len(strikes) - 3 * rounds, **found}
    print(name, row, flush=True)
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    """Strike, count, write; the exit status. An engine that is not asked for stays as it was."""
    given = parser(__doc__, engines=tuple(ENGINES), rounds=4, seed=0).parse_args(arguments)
    path = given.results / "kills.json"
    rows = json.loads(path.read_text())["engines"] if path.exists() else {}
    for engine in given.engines:
        rows[engine] = torment(engine, given.rounds, TROUBLES, given.seed)
        write_json(path, {"about": about(), "engines": rows})
    return int(any(rows[engine][what] for engine in given.engines for what in ("lost", "twice", "beyond")))


if __name__ == "__main__":
    sys.exit(main())
