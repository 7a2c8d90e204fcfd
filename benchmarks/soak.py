"""A long run: 10,000 observations, what deciding costs as they come, and what memory and disk are used.

    python -m benchmarks.soak [--parts run dask decisions] [--observations 10000] [--most 10000] [--workers 8]

First a whole run of Hartmann-3D with random search, journal included: resident memory, bytes of the journal and
seconds an evaluation, taken after every tenth part; ``dask`` is the same on workers of a Dask cluster on this machine,
one run without a break, looked at as it grows. Then MFGPUCB on histories of growing size, nine of ten
observations at the cheapest fidelity: seconds of a decision between two fits, of the extension of the factor by an
observation that is part of it, and of a decision that fits, median of three each (of one from 8,000 on), and the
fitted exponents. One thread.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.common import about, parser, quiet, write_json
from benchmarks.decision_time import observed
from benchmarks.timing import exponent, seconds
from mfbo_torch.history import History, Query
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop import executors
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import Hartmann3
from mfbo_torch.strategies import MFGPUCB, RandomSearch
from mfbo_torch.strategies.common.fit_schedule import refit_step
from mfbo_torch.strategies.common.initial_design import sobol

SIZES = (250, 500, 1000, 2000, 4000, 8000, 10_000)
LARGE = 1000
"""The exponents are of the sizes from here on."""
REPEATS = 3


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
    """Looks at what is used whenever a tenth part more has been observed.

    Args:
        every: How many observations that is.
        **settings: Those of random search.
    """

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
    """One run on Dask workers, looked at after every tenth part has been asked and at the end."""
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


def history(size: int) -> History:
    """A history of ``size`` nested Sobol designs, 90 / 8 / 2 % of them at the three fidelities."""
    problem, grown = Hartmann3(), History()
    U = sobol(3, size, 0)
    for i in range(size):
        m = 2 if i % 50 == 0 else 1 if i % 12 == 1 else 0
        grown = observed(grown, Query(tuple(U[i].tolist()), m, {"stage": "model"}), problem)
    return grown


def decisions(size: int, past: History) -> dict[str, float]:
    """Seconds of deciding with ``size`` observations."""
    problem, fits, extensions, between = Hartmann3(), [], [], []
    for _ in range(REPEATS if size < 8000 else 1):
        strategy, grown = MFGPUCB(space=problem.space), past
        fits.append(seconds(lambda strategy=strategy, grown=grown: strategy.ask(grown)))
        for _ in range(2):
            grown = observed(grown, Query(tuple(torch.rand(3).tolist()), 0, {"stage": "model"}), problem)
            extension = seconds(
                lambda strategy=strategy, grown=grown: strategy.rule.model(strategy.snapshot(grown)).caches
            )
            whole = seconds(lambda strategy=strategy, grown=grown: strategy.ask(grown))  # extends it again
        extensions.append(extension)
        between.append(whole)
    fit, extension, warm = median(fits), median(extensions), median(between)
    mean = warm + (fit - warm) / refit_step(size, 25)
    row = {"observations": size, "with_fit": fit, "extension": extension, "between": warm, "mean": mean}
    print({key: round(value, 4) for key, value in row.items()}, f"{resident():.0f} MB", flush=True)
    return row | {"peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write; a part that is not measured stays as it was."""
    given = parser(__doc__, parts=("run", "dask", "decisions"), observations=10_000, most=10_000, workers=8).parse_args(
        arguments
    )
    quiet()
    torch.manual_seed(0)
    path = given.results / "soak.json"
    report = json.loads(path.read_text()) if path.exists() and len(given.parts) < 3 else {}
    report["about"] = report.get("about", {}) | {part: about() for part in given.parts}
    if "run" in given.parts:
        report["run"] = long_run(given.observations)
    if "dask" in given.parts:
        report["dask"] = on_dask(given.observations, given.workers)
    if "decisions" in given.parts:
        sizes = [size for size in SIZES if size <= given.most]
        whole = history(sizes[-1])
        report["decisions"] = rows = [decisions(size, History(whole.records[:size])) for size in sizes]
        large, found = [row for row in rows if row["observations"] >= LARGE], {}
        for key in ("extension", "between", "with_fit", "mean"):
            found[key] = round(exponent([row["observations"] for row in large], [row[key] for row in large]), 2)
        report["exponents"] = found
        print(f"exponents from {LARGE:,} on", found)
    write_json(path, report)


if __name__ == "__main__":
    main()
