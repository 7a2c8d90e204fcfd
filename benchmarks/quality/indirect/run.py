"""Simple and instant regret with indirect queries: Figures 1 and 2 of Zhang et al., with baselines.

A study (:mod:`benchmarks.study`): ``indirect.csv`` and what :mod:`benchmarks.quality.indirect.report` makes of it.
``fixed``: Branin (standardised, upside down) on 20 x 20 queries whose windows have the variance 1/2, noise of
deviation 0.1 that no model knows. ``D1`` has 2000 samples.
``tree``: heights 0 to 6 with the paper's costs and noise, both known, as are the windows; CMETS searches the box,
the others the 64 x 64 nodes of the greatest height. Capital 70, which is 20 of them. MES, UCB and EI infer the
noise of their own process over queries.
``learned``: the same with windows that are learned from 200 samples a height, as in the paper's Algorithm 1.

Simple regret is ``f* - max f(x)`` over the inputs recommended after each query so far, instant regret
``f* - max g(a)`` over the queries. Every strategy but CMETS starts with the same random query.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial

from benchmarks.quality.indirect import report
from benchmarks.quality.indirect.report import CAPITALS, SETTINGS
from benchmarks.study import Job, Row, Study
from mfbo_torch import strategies
from mfbo_torch.history import History, Recommendation
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.metrics import capital_spent, paid_for
from mfbo_torch.problems import IndirectBranin, IndirectProblem
from mfbo_torch.strategies import Strategy

STRICT = {"CMETS, strict": "tree", "CMES, strict": "fixed"}
"""The paper's rules to the letter, and the kind of setting where they run."""
MAKERS: dict[str, Callable[[int], Strategy]] = {
    "CMETS": lambda seed: strategies.CMETS(seed=seed),
    "CMETS, strict": lambda seed: strategies.CMETS(strict=True, seed=seed),
    "CMES": lambda seed: strategies.CMES(seed=seed),
    "CMES, strict": lambda seed: strategies.CMES(strict=True, seed=seed),
    "MES": lambda seed: strategies.QueryMES(seed=seed),
    "UCB": lambda seed: strategies.QueryUCB(seed=seed),
    "EI": lambda seed: strategies.QueryEI(seed=seed),
}


def problem_of(job: Job) -> IndirectBranin:
    """The problem of a run: what is learned from differs from seed to seed."""
    kind, transformation = job.problem.split()
    if kind == "fixed":
        return IndirectBranin(transformation, grid=20, num_samples=2000, seed=job.seed)
    grid = None if job.method in report.TREES else 64
    return IndirectBranin(transformation, resolutions=7, grid=grid, known=kind == "tree", seed=job.seed)


def plan(problem: str, method: str, seed: int) -> Iterable[tuple[float, ...]]:
    """The capitals of a setting; a tree only where there are resolutions."""
    kind = problem.split()[0]
    return [] if (method in report.TREES and kind == "fixed") or STRICT.get(method, kind) != kind else [CAPITALS[kind]]


def execute(job: Job) -> list[Row]:
    """Run a job."""
    return explored(job, problem_of(job), MAKERS[job.method])


def advised_run(
    job: Job, problem: IndirectProblem, make: Callable[[int], Strategy]
) -> tuple[History, list[Recommendation | None], list[float]]:
    """A run to the largest capital: its history, what is recommended after each query, and processor time by then."""
    problem.trial, most = job.seed, max(job.capitals)
    optimizer = Optimizer(make(job.seed).bind(problem.space, most))
    started, seconds, advised = time.process_time(), [], []
    while asked := optimizer.ask(capital=most):
        (record,) = asked
        optimizer.tell(record.id, problem.observe(record.query.x, record.query.fidelity, record.id))
        advised.append(optimizer.recommend())
        seconds.append(round(time.process_time() - started, 2))
    return optimizer.history, advised, seconds


def explored(job: Job, problem: IndirectProblem, make: Callable[[int], Strategy]) -> list[Row]:
    """One row for each capital at which there is a recommendation."""
    history, advised, seconds = advised_run(job, problem, make)
    simple, instant = (regret.tolist() for regret in problem.regrets(history, advised))
    within = zip(job.capitals, paid_for(capital_spent(history), job.capitals).tolist(), strict=True)
    return [
        (*job[:3], capital, round(simple[n - 1], 6), round(instant[n - 1], 6), n, seconds[n - 1])
        for capital, n in within
        if n
    ]


COLUMNS = ("simple", "instant", "queries", "cpu_seconds")
STUDY = Study(
    "benchmarks.quality.indirect.run",
    "indirect",
    {name: partial(IndirectBranin, name.split()[1]) for name in SETTINGS},
    MAKERS,
    (),
    COLUMNS,
    plan=plan,
    execute=execute,
    report=report.write,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
