"""How busy sixteen workers are kept, and what each kind of executor costs an evaluation.

Busy: Hartmann-6D with GPBUCB (target only) and with MFGPUCB, evaluations that sleep for 1 to 9 seconds in sixteen
worker processes; the share of their time that evaluations took, from the start of the sixteenth evaluation until four
fifths of them have begun (towards the end the capital refuses queries). Overhead: random search on evaluations that
take no time, in milliseconds an evaluation, deciding and the journal included. Writes ``workers.json``.
"""

import random
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import wait
from contextlib import nullcontext
from pathlib import Path

from benchmarks.common import parser, write_json
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop import executors
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import Hartmann6

WORKERS, SHORTEST, LONGEST = 16, 1.0, 9.0
LOADED = 5.0
"""Seconds that every worker sleeps first, so that all have loaded what they need."""
BUSY = (("GPBUCB", 200), ("MFGPUCB", 12))
"""Strategies, and capitals in units of the target's cost."""
KINDS = ((None, 1), ("processes", 1), ("processes", 4), ("dask", 1), ("dask", 4))
EVALUATIONS = 500


class Slow(Hartmann6):
    """Hartmann-6D whose evaluations take a while and note when."""

    def __init__(self, notes: Path) -> None:
        super().__init__()
        self.notes, self.span = notes, (SHORTEST, LONGEST)

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        started = time.monotonic()
        time.sleep(random.Random(repr(tuple(x))).uniform(*self.span))
        with self.notes.open("a") as file:
            file.write(f"{started} {time.monotonic()}\n")
        return super().evaluate(x, fidelity)


def busy(label: str, capital: float) -> dict[str, float]:
    """Spend a capital, in units of the target's cost, and count."""
    from mfbo_torch import strategies  # the workers load this module too

    strategy = getattr(strategies, label)()
    with tempfile.TemporaryDirectory() as folder, executors.start("processes", WORKERS) as workers:
        problem = Slow(Path(folder) / "notes")
        wait([workers.submit(time.sleep, LOADED) for _ in range(WORKERS)])
        spent = capital * problem.space.costs[-1]
        history = run(problem, strategy, spent, executor=workers, max_pending=None, progress=False)
        lines = problem.notes.read_text().splitlines()
    spans = sorted((float(start), float(end)) for start, end in map(str.split, lines))
    first, last = spans[WORKERS - 1][0], spans[4 * len(spans) // 5][0]
    worked = sum(max(min(end, last) - max(start, first), 0.0) for start, end in spans)
    decided = [record.decision_seconds for record in history]
    return {
        "evaluations": len(spans),
        "seconds": round(last - first, 1),
        "busy": round(worked / WORKERS / (last - first), 4),
        "seconds_a_decision": round(sum(decided) / len(decided), 4),
        "longest_decision": round(max(decided), 3),
    }


def overhead(kind: str | None, workers: int) -> float:
    """Milliseconds an evaluation; ``kind`` is ``None`` for this process, one evaluation after another."""
    from mfbo_torch.strategies import RandomSearch

    problem = Hartmann6()
    some = executors.start(kind, workers) if kind else nullcontext()
    with tempfile.TemporaryDirectory() as folder, some as executor:
        if executor is not None:
            wait([executor.submit(time.sleep, LOADED) for _ in range(workers)])
        with Journal(Path(folder) / "history.sqlite") as journal:
            capital, started = EVALUATIONS * problem.space.costs[-1], time.perf_counter()
            how = {"executor": executor, "max_pending": workers, "journal": journal, "progress": False}
            run(problem, RandomSearch(), capital, **how)
            return 1e3 * (time.perf_counter() - started) / EVALUATIONS


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    given = parser(__doc__).parse_args(arguments)
    report: dict[str, dict[str, float]] = {"overhead_ms": {}}
    for kind, workers in KINDS:
        label = f"{kind}, {workers}" if kind else "here"
        report["overhead_ms"][label] = round(overhead(kind, workers), 2)
        print(label, report["overhead_ms"][label], "ms an evaluation", flush=True)
    for label, capital in BUSY:
        report[label] = busy(label, capital)
        print(label, report[label], flush=True)
    write_json(given.results / "workers.json", report)


if __name__ == "__main__":
    main()
