"""The best value found on the real problems of the MF-GP-UCB paper, at equal nominal capital and by the clock.

    python -m benchmarks.real.run [--workers N] [--strategies LABEL ...] [--problems NAME ...] [--seeds N]

Adds the runs that are missing to ``real.csv`` (see :mod:`benchmarks.runs`); ``python -m benchmarks.real.report``
makes the tables and the picture. Capital is in nominal costs, the initial design included; beside it are the seconds
that deciding and evaluating took until then. ``MFBO_DATA_DIR`` names the folder with the data
(:mod:`mfbo_torch.problems.real.data`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.common import cut_after, parser
from benchmarks.runs import measure
from mfbo_torch import strategies
from mfbo_torch.history import History, Record
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics import best_values, capital_spent, paid_for
from mfbo_torch.problems import SALSA, SVM, Problem, Supernova, ViolaJones
from mfbo_torch.strategies import Strategy

FILE = "real.csv"
COLUMNS = (
    *("problem", "strategy", "seed", "capital", "best", "held_out", "spent"),
    *("queries", "target_queries", "decision_seconds", "evaluation_seconds"),
)
CAPITALS = (5, 10, 15, 20, 30)
"""In units of the target's cost; each is read off one run to the largest."""
MINUTES = 2
"""A run that takes more processor time is cut and keeps what it had; its ``spent`` is below ``capital - 1``."""
SALSA_SIZES = (500, 1000, 2000)
"""A quarter of the paper's (2000, 4000, 8000): one evaluation on 8,000 points takes fifteen seconds on one core."""

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "SVM": lambda: SVM(data="magic"),
    "SALSA": lambda: SALSA(sizes=SALSA_SIZES),
    "Supernova": Supernova,
    "ViolaJones": ViolaJones,
}
STRATEGIES: dict[str, Callable[[int], Strategy]] = {
    "MFGPUCB": lambda seed: strategies.MFGPUCB(seed=seed),
    "MF-GP-UCB (published)": lambda seed: strategies.MFGPUCB(link="independent", strict=True, seed=seed),
    "GP-UCB": lambda seed: strategies.GPUCB(seed=seed),
    "EI": lambda seed: strategies.ExpectedImprovement(seed=seed),
    "PI": lambda seed: strategies.ProbabilityOfImprovement(seed=seed),
    "DiRect": lambda seed: strategies.Direct(seed=seed),
    "MF-NAIVE": lambda seed: strategies.MFNaive(seed=seed),
    "MF-SKO": lambda seed: strategies.MFSKO(seed=seed),
}
ONE_SEED = ("DiRect",)
"""What draws nothing."""
OWN = "OpenCV"
"""The thresholds that the face detector comes with, a run of one query."""


class Job(NamedTuple):
    """One run."""

    problem: str
    strategy: str
    seed: int
    capitals: tuple[int, ...]


def jobs(labels: Sequence[str], names: Sequence[str], seeds: int) -> list[Job]:
    """Every run, the first seed of all before the next."""
    own = [Job("ViolaJones", OWN, 0, (1,))] if "ViolaJones" in names else []
    return own + [
        Job(name, label, seed, CAPITALS)
        for seed in range(seeds)
        for name in names
        for label in labels
        if not (seed and label in ONE_SEED)
    ]


def execute(job: Job) -> list[tuple[object, ...]]:
    """Run a job; one row for each capital."""
    problem = PROBLEMS[job.problem]()
    if job.strategy == OWN:
        x = problem.thresholds
        value = problem.evaluate(x, problem.space.target)
        return [(*job[:3], *job.capitals, value, problem.held_out(x), 1.0, 1, 1, 0.0, 0.0)]
    target, top = problem.space.target, problem.space.costs[-1]
    with cut_after(MINUTES):
        history = run(problem, STRATEGIES[job.strategy](job.seed), max(job.capitals) * top, progress=False)
    spent, best = capital_spent(history) / top, best_values(history, target)
    rows: list[tuple[object, ...]] = []
    for capital, within in zip(job.capitals, paid_for(spent, job.capitals).tolist(), strict=True):
        records = history.records[:within]
        rows.append(
            (
                *(job.problem, job.strategy, job.seed, capital),
                problem.signed(best[within - 1].item()),
                _held_out(problem, History(records)),
                round(spent[within - 1].item(), 6),
                within,
                sum(record.query.fidelity == target for record in records),
                round(sum(record.decision_seconds for record in records), 3),
                round(sum(record.evaluation_seconds for record in records), 3),
            )
        )
    return rows


def _held_out(problem: Problem, history: History) -> object:
    """What the best design of the target comes to on data that no query has seen, where the problem has such."""
    if not hasattr(problem, "held_out"):
        return ""
    found: list[Record] = [r for r in history if r.query.fidelity == problem.space.target and r.value is not None]
    return problem.held_out(max(found, key=lambda r: r.value or 0.0).query.x) if found else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; the exit status."""
    grid = {"strategies": list(STRATEGIES), "problems": list(PROBLEMS), "seeds": 10}
    given = parser(__doc__, workers=1, **grid).parse_args(arguments)
    wanted = jobs(given.strategies, given.problems, given.seeds)
    return measure(wanted, execute, given.results / FILE, COLUMNS, key=4, workers=given.workers)


if __name__ == "__main__":
    sys.exit(main())
