"""The best feasible value at equal capital, with limits on outcomes: several fidelities against the target alone.

    python -m benchmarks.constrained.run [--workers N] [--methods LABEL ...] [--problems NAME ...] [--seeds N]

Adds the runs that are missing to ``constrained.csv`` (see :mod:`benchmarks.runs`). Capital counts everything, the
initial design included, in units of the target's cost; ``best`` is in the function's own sign, empty where nothing
feasible was found. ``constrained LogEI`` is this package's ``ExpectedImprovement`` with a GP of BoTorch's own kind for
the objective (its noise next to none until the data say otherwise) and each slack; its acquisition is BoTorch's
``LogConstrainedExpectedImprovement`` (the tests compare them), and the probability of feasibility alone while nothing
feasible is known.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.common import cut_after, parser
from benchmarks.constrained.problems import NAMES, Cheapened
from benchmarks.runs import measure
from mfbo_torch import strategies
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics import best_values, capital_spent, paid_for
from mfbo_torch.strategies import Strategy

FILE = "constrained.csv"
COLUMNS = ("problem", "method", "seed", "capital", "best", "feasible", "queries", "spent", "processor_seconds")
CAPITALS = (10, 15)
"""In units of the target's cost."""
MINUTES = 4
"""A run that takes more processor time is cut; its ``spent`` is below ``capital - 1``."""
METHODS: dict[str, Callable[[int], Strategy]] = {
    "MFGPUCB": lambda seed: strategies.MFGPUCB(seed=seed),
    "constrained LogEI": lambda seed: strategies.ExpectedImprovement(seed=seed, initial=6),
}


class Job(NamedTuple):
    """One run."""

    problem: str
    method: str
    seed: int
    capitals: tuple[int, ...]


def execute(job: Job) -> list[tuple[object, ...]]:
    """Run a job; one row for each capital."""
    problem, started = Cheapened(job.problem), time.process_time()
    top = problem.space.costs[-1]
    with cut_after(MINUTES):
        history = run(problem, METHODS[job.method](job.seed), max(job.capitals) * top, progress=False)
    seconds = round(time.process_time() - started, 1)
    spent, best = capital_spent(history) / top, best_values(history, problem.space.target)
    rows: list[tuple[object, ...]] = []
    for capital, within in zip(job.capitals, paid_for(spent, job.capitals).tolist(), strict=True):
        some = History(history.records[:within])
        found = problem.signed(best[within - 1].item()) if some.best(problem.space.target) is not None else ""
        kept = sum(r.feasible for r in some.done if r.query.fidelity == problem.space.target)
        rows.append((*job[:3], capital, found, kept, within, round(spent[within - 1].item(), 3), seconds))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; the exit status."""
    given = parser(__doc__, workers=1, methods=list(METHODS), problems=NAMES, seeds=10).parse_args(arguments)
    seeds = range(given.seeds)
    wanted = [Job(p, m, seed, CAPITALS) for seed in seeds for p in given.problems for m in given.methods]
    return measure(wanted, execute, given.results / FILE, COLUMNS, key=4, workers=given.workers)


if __name__ == "__main__":
    sys.exit(main())
