"""Simple and cumulative regret of every strategy on the synthetic problems at equal capital.

    python -m benchmarks.regret.run [--workers N] [--strategies LABEL ...] [--problems NAME ...] [--seeds N]
        [--largest CAPITAL]

Adds the runs that are missing to ``regret.csv`` (see :mod:`benchmarks.runs`); ``python -m benchmarks.regret.report``
makes the tables and the picture. Capital counts everything, the initial design included.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.common import cut_after, parser
from benchmarks.runs import measure
from mfbo_torch import problems, strategies
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics import average_regret, capital_spent, paid_for, simple_regret
from mfbo_torch.strategies import Strategy

FILE = "regret.csv"
COLUMNS = ("problem", "strategy", "seed", "capital", "regret", "spent", "queries", "decision_seconds", "average")
"""``average`` is the cumulative regret per unit of capital, ``R(Λ) / Λ``."""
PROBLEMS = ("Currin", "BadCurrin", "Park", "Borehole", "Hartmann3", "Hartmann6")
CAPITALS = (15, 20, 30, 50, 100)
"""In units of the target's cost."""
MINUTES = 5
"""A run that takes more processor time is cut and keeps the regret it had; its ``spent`` is below ``capital - 1``."""


class Entry(NamedTuple):
    """A strategy to compare.

    Attributes:
        make: From a seed to the strategy.
        capitals: At which capitals its regret is told.
        separate: Problems where each capital is a run of its own, for a strategy that plans with the
            capital; elsewhere all are read off one run to the largest.
        problems: Where it runs.
        seeds: At most so many seeds.
        slow: Problems where only the first two seeds run: there a run is cut long before its capital is spent.
    """

    make: Callable[[int], Strategy]
    capitals: tuple[int, ...] = CAPITALS
    separate: tuple[str, ...] = ()
    problems: tuple[str, ...] = PROBLEMS
    seeds: int = 20
    slow: tuple[str, ...] = ()


TWO_FIDELITIES = PROBLEMS[:4]
"""Where half of the capital pays for less than MF-NAIVE's 500 cheap queries."""

ENTRIES = {
    "MFGPUCB": Entry(lambda seed: strategies.MFGPUCB(seed=seed), (15, 20, 30), seeds=10),
    "MFGPUCB (no hedge)": Entry(lambda seed: strategies.MFGPUCB(hedge=False, seed=seed), seeds=10),
    "MFGPUCB (paper)": Entry(lambda seed: strategies.MFGPUCB(link="independent", seed=seed)),
    "GP-UCB": Entry(lambda seed: strategies.GPUCB(seed=seed)),
    "LogEI": Entry(lambda seed: strategies.ExpectedImprovement(seed=seed)),
    "PI": Entry(lambda seed: strategies.ProbabilityOfImprovement(seed=seed), seeds=10),
    "DiRect": Entry(lambda seed: strategies.Direct(seed=seed), seeds=1),
    "Random": Entry(lambda seed: strategies.RandomSearch(seed=seed), seeds=10),
    "MF-NAIVE": Entry(lambda seed: strategies.MFNaive(seed=seed), (15, 20, 30), TWO_FIDELITIES),
    "MF-NAIVE (random)": Entry(
        lambda seed: strategies.MFNaive(explore="random", seed=seed), CAPITALS, TWO_FIDELITIES, seeds=10
    ),
    "MF-SKO": Entry(lambda seed: strategies.MFSKO(seed=seed), (15, 20, 30), slow=("Hartmann6",)),
    "MF-GIBBON": Entry(lambda seed: strategies.MFGIBBON(seed=seed), (15, 20, 30), seeds=10, slow=("Hartmann6",)),
    "MF-KG": Entry(
        lambda seed: strategies.MFKnowledgeGradient(seed=seed), (15, 20, 30), (), ("Currin", "Hartmann3"), 3
    ),
}


class Job(NamedTuple):
    """One run: which, and the capitals at which its regret is told."""

    problem: str
    strategy: str
    seed: int
    capitals: tuple[int, ...]


def jobs(labels: Sequence[str], names: Sequence[str], seeds: int, largest: int) -> list[Job]:
    """Every run, the first seeds of all strategies before the next ones."""
    found = []
    for seed in range(seeds):
        for name in names:
            for label in labels:
                entry = ENTRIES[label]
                if seed >= (2 if name in entry.slow else entry.seeds) or name not in entry.problems:
                    continue
                capitals = tuple(capital for capital in entry.capitals if capital <= largest)
                parts = [(capital,) for capital in capitals] if name in entry.separate else [capitals]
                found += [Job(name, label, seed, part) for part in parts]
    return found


def execute(job: Job) -> list[tuple[object, ...]]:
    """Run a job; one row for each capital."""
    problem = getattr(problems, job.problem)()
    target, top = problem.space.target, problem.space.costs[-1]
    strategy = ENTRIES[job.strategy].make(job.seed)
    with cut_after(MINUTES):
        history = run(problem, strategy, max(job.capitals) * top, progress=False)
    spent = capital_spent(history) / top
    regret = simple_regret(history, target, problem.optimum, problem.worst)
    rows: list[tuple[object, ...]] = []
    for capital, within in zip(job.capitals, paid_for(spent, job.capitals).tolist(), strict=True):
        seconds = sum(record.decision_seconds for record in history.records[:within])
        found = (regret[within - 1].item(), round(spent[within - 1].item(), 6), within, round(seconds, 3))
        average = average_regret(history, target, problem.optimum, problem.worst, capital * top)
        rows.append((job.problem, job.strategy, job.seed, capital, *found, average))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; the exit status."""
    grid = {"strategies": list(ENTRIES), "problems": PROBLEMS, "seeds": 20, "largest": max(CAPITALS)}
    given = parser(__doc__, workers=os.cpu_count(), **grid).parse_args(arguments)
    wanted = jobs(given.strategies, given.problems, given.seeds, given.largest)
    return measure(wanted, execute, given.results / FILE, COLUMNS, key=4, workers=given.workers)


if __name__ == "__main__":
    sys.exit(main())
