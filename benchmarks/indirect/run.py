"""Simple and instant regret with indirect queries: Figures 1 and 2 of Zhang et al., with baselines.

    python -m benchmarks.indirect.run [--settings NAME ...] [--strategies LABEL ...] [--seeds N] [--workers N]

Adds the runs that are missing to ``indirect.csv`` (see :mod:`benchmarks.runs`); ``python -m
benchmarks.indirect.report`` makes the table and the picture.

``fixed``: Branin (standardised, upside down) on 20 x 20 queries whose windows have the variance 1/2, noise of
deviation 0.1 that no model knows, 100 queries. ``D1`` has 2000 samples.
``tree``: heights 0 to 6 with the paper's costs and noise, both known, as are the windows; CMETS searches the box,
the others the 64 x 64 nodes of the greatest height. Capital 70, which is 20 of them. MES, UCB and EI infer the
noise of their own process over queries.
``learned``: the same with windows that are learned from 200 samples a height, as in the paper's Algorithm 1.

Simple regret is ``f* - max f(x)`` over the inputs recommended after each query so far, instant regret
``f* - max g(a)`` over the queries. Every strategy but CMETS starts with the same random query.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.common import parser
from benchmarks.runs import measure
from mfbo_torch import strategies
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.metrics import capital_spent, paid_for
from mfbo_torch.problems import IndirectBranin, IndirectProblem
from mfbo_torch.strategies import Strategy

FILE = "indirect.csv"
COLUMNS = ("setting", "strategy", "seed", "capital", "simple", "instant", "queries", "cpu_seconds")
TRANSFORMATIONS = ("linear", "nonlinear")
OF_A_TREE = (3.5, 5.25, 7, 8.75, 10.5, 14, 17.5, 21, 24.5, 28, 31.5, 35, 42, 49, 56, 63, 70)
CAPITALS = {
    "fixed": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100),
    "tree": OF_A_TREE,
    "learned": OF_A_TREE,
}
MAKERS: dict[str, Callable[[int], Strategy]] = {
    "CMETS": lambda seed: strategies.CMETS(seed=seed),
    "CMES": lambda seed: strategies.CMES(seed=seed),
    "MES": lambda seed: strategies.QueryMES(seed=seed),
    "UCB": lambda seed: strategies.QueryUCB(seed=seed),
    "EI": lambda seed: strategies.QueryEI(seed=seed),
}
SETTINGS = [f"{kind} {transformation}" for kind in CAPITALS for transformation in TRANSFORMATIONS]


class Job(NamedTuple):
    """One run."""

    setting: str
    strategy: str
    seed: int


def problem_of(job: Job) -> IndirectBranin:
    """The problem of a run: what is learned from differs from seed to seed."""
    kind, transformation = job.setting.split()
    if kind == "fixed":
        return IndirectBranin(transformation, grid=20, num_samples=2000, seed=job.seed)
    grid = None if job.strategy == "CMETS" else 64
    return IndirectBranin(transformation, resolutions=7, grid=grid, known=kind == "tree", seed=job.seed)


def jobs(settings: list[str], labels: list[str], seeds: int) -> list[Job]:
    """Every run, the first seeds of all strategies before the next ones."""
    found = [Job(setting, label, seed) for seed in range(seeds) for setting in settings for label in labels]
    return [job for job in found if job.strategy != "CMETS" or not job.setting.startswith("fixed")]


def execute(job: Job) -> list[tuple[object, ...]]:
    """Run a job."""
    return explored(job, problem_of(job), CAPITALS[job.setting.split()[0]])


def explored(
    job: Job,
    problem: IndirectProblem,
    capitals: Sequence[float],
    makers: Mapping[str, Callable[[int], Strategy]] = MAKERS,
) -> list[tuple[object, ...]]:
    """One row for each capital at which there is a recommendation."""
    problem.trial = job.seed
    optimizer = Optimizer(makers[job.strategy](job.seed).bind(problem.space, max(capitals)))
    started, seconds, advised = time.process_time(), [], []
    while asked := optimizer.ask(capital=max(capitals)):
        (record,) = asked
        optimizer.tell(record.id, problem.observe(record.query.x, record.query.fidelity, record.id))
        advised.append(optimizer.recommend())
        seconds.append(round(time.process_time() - started, 2))
    history = optimizer.history
    simple, instant = (regret.tolist() for regret in problem.regrets(history, advised))
    rows: list[tuple[object, ...]] = []
    for capital, n in zip(capitals, paid_for(capital_spent(history), capitals).tolist(), strict=True):
        if n:
            rows.append((*job, capital, round(simple[n - 1], 6), round(instant[n - 1], 6), n, seconds[n - 1]))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; the exit status."""
    given = parser(__doc__, workers=1, settings=SETTINGS, strategies=list(MAKERS), seeds=10).parse_args(arguments)
    wanted = jobs(given.settings, given.strategies, given.seeds)
    return measure(wanted, execute, given.results / FILE, COLUMNS, workers=given.workers)


if __name__ == "__main__":
    sys.exit(main())
