"""A long run: 10,000 observations, and what memory and disk are used.

    python -m benchmarks.robustness.soak [--parts run dask] [--observations 10000] [--workers 8]

A whole run of Hartmann-3D with random search, journal included: resident memory, bytes of the journal and seconds an
evaluation after every tenth part; ``dask`` is the same on workers of a Dask cluster on this machine, one run without a
break, looked at as it grows. One thread. Writes ``soak.json``.
"""

import json
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import about, parser, quiet, write_json
from mfbo_torch.history import History, Query
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop import executors
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import Hartmann3
from mfbo_torch.strategies import RandomSearch


def resident() -> float:
    """Megabytes in memory at present."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def long_run(observations: int) -> list[dict[str, float]]:
    """Go on with one run, part after part."""
    problem, rows = Hartmann3(), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite"
        for part in range(1, 11):
            count, started = observations * part // 10, time.perf_counter()
            with Journal(path) as journal:
                run(problem, RandomSearch(), count * problem.space.costs[-1], journal=journal, progress=False)
            taken = time.perf_counter() - started
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
            row = {"observations": count, "resident_mb": round(resident(), 1), "journal_mb": round(size / 2**20, 2)}
            rows.append(row | {"ms_an_evaluation": round(1e4 * taken / observations, 3)})
            print(rows[-1], flush=True)
    return rows


class Watched(RandomSearch):
    """Looks at what is used whenever ``every`` more have been observed."""

    def __init__(self, every: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.every, self.started = every, time.perf_counter()
        self.rows: list[dict[str, float]] = []

    def look(self, done: int) -> None:
        """Note what is used by now."""
        taken = time.perf_counter() - self.started
        self.rows.append({"observations": done, "resident_mb": round(resident(), 1), "seconds": round(taken, 1)})
        print(self.rows[-1], flush=True)

    def decide(self, history: History) -> Query:
        if len(history) % self.every == 0 and history:
            self.look(len(history))
        return super().decide(history)


def on_dask(observations: int, workers: int) -> list[dict[str, float]]:
    """One run on Dask workers, looked at after every tenth part has been queried and at the end."""
    problem, strategy = Hartmann3(), Watched(max(observations // 10, 1))
    capital = observations * problem.space.costs[-1]
    with (
        tempfile.TemporaryDirectory() as folder,
        executors.start("dask", workers) as pool,
        Journal(Path(folder) / "history.sqlite") as journal,
    ):
        done = run(problem, strategy, capital, journal=journal, executor=pool, max_pending=None, progress=False)
        strategy.look(len(done))
    return strategy.rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write; a part that is not measured stays as it was."""
    made = parser(__doc__, parts=("run", "dask"), observations=10_000, workers=8)
    given = made.parse_args(arguments)
    quiet()
    torch.manual_seed(0)
    path = given.results / "soak.json"
    report = json.loads(path.read_text()) if path.exists() and len(given.parts) < 2 else {}
    report["about"] = report.get("about", {}) | {part: about() for part in given.parts}
    if "run" in given.parts:
        report["run"] = long_run(given.observations)
    if "dask" in given.parts:
        report["dask"] = on_dask(given.observations, given.workers)
    write_json(path, report)


if __name__ == "__main__":
    main()
