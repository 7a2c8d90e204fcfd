"""Averaged queries one and four at a time: what is lost at equal capital, and what is won in rounds.

A study (:mod:`benchmarks.study`): ``indirect-batches.csv`` and ``.md``. The problems are ``fixed`` and ``tree`` of
:mod:`benchmarks.quality.indirect.run` with windows that are known. The queries of a round are chosen one after another,
each knowing which are pending; the next round begins when all values are there. A row is of the rounds that a capital
pays for: ``simple`` is the regret of the best input recommended after a round, ``instant`` that of the best query.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from benchmarks.common import markdown, mean_and_error
from benchmarks.study import Job, Row, Study, grouped
from mfbo_torch import strategies
from mfbo_torch.history import Recommendation, Record
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.metrics import capital_spent
from mfbo_torch.problems import IndirectBranin
from mfbo_torch.strategies import Strategy

SIZE = 4
TOGETHER = f", {SIZE} at a time"
"""In the name of a method whose rounds have so many queries."""
SINGLE: dict[str, Callable[[int], Strategy]] = {
    "CMES": lambda seed: strategies.CMES(seed=seed),
    "MES": lambda seed: strategies.QueryMES(seed=seed),
    "CMETS": lambda seed: strategies.CMETS(seed=seed),
}
METHODS = {label + how: make for label, make in SINGLE.items() for how in ("", TOGETHER)}
WINDOWS = ("linear", "nonlinear")
PROBLEMS = {f"fixed {name}": partial(IndirectBranin, name, grid=20, known=True) for name in WINDOWS} | {
    f"tree {name}": partial(IndirectBranin, name, resolutions=7, known=True) for name in WINDOWS
}
CAPITALS = {"fixed": (4, 8, 12, 20, 40), "tree": (7.0, 10.5, 17.5, 35.0, 70.0)}
"""The number of queries at one resolution, their costs in a tree."""


def plan(problem: str, method: str, seed: int) -> Iterable[tuple[float, ...]]:
    """CMETS in a tree, the others at one resolution."""
    kind = problem.split()[0]
    return [CAPITALS[kind]] if (kind == "tree") == method.startswith("CMETS") else []


def execute(job: Job) -> list[Row]:
    """Run a job; one row for each capital that pays for a round."""
    problem, most = PROBLEMS[job.problem](seed=job.seed), max(job.capitals)
    problem.trial, size = job.seed, SIZE if job.method.endswith(TOGETHER) else 1
    optimizer = Optimizer(METHODS[job.method](job.seed).bind(problem.space, most))
    advised, ends = list[Record | Recommendation | None](), list[int]()
    while asked := optimizer.ask(size, capital=most):
        for record in asked:
            optimizer.tell(record.id, problem.observe(record.query.x, record.query.fidelity, record.id))
        advised += [None] * (len(asked) - 1)
        advised.append(optimizer.recommend())
        ends.append(len(advised))
    spent = capital_spent(optimizer.history).tolist()
    simple, instant = (regret.tolist() for regret in problem.regrets(optimizer.history, advised))
    rows = list[Row]()
    for capital in job.capitals:
        paid = [end for end in ends if spent[end - 1] <= capital + 1e-9]
        if paid:
            last = paid[-1] - 1
            rows.append((*job[:3], capital, round(simple[last], 6), round(instant[last], 6), paid[-1], len(paid)))
    return rows


def report(path: Path) -> None:
    """Mean and standard error over the seeds, and the worst seed."""
    found = grouped(path)
    lines = ["# Averaged queries one and four at a time", ""]
    lines += [
        "Mean simple regret ± standard error over the seeds (worst seed) at equal capital, and the mean number of"
    ]
    lines += ["rounds. Branin's function has standard deviation 1 on its box.", ""]
    for problem in PROBLEMS:
        capitals, body = CAPITALS[problem.split()[0]], []
        for method in METHODS:
            cells = [found.get((problem, method, float(capital)), []) for capital in capitals]
            if any(cells):
                body.append([method, str(max(map(len, cells))), *map(_cell, cells)])
        if body:
            lines += [f"## {problem} windows", "", *markdown(["strategy", "seeds", *map(str, capitals)], body), ""]
    path.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")


def _cell(rows: list[dict[str, str]]) -> str:
    if not rows:
        return ""
    values = [float(row["simple"]) for row in rows]
    rounds = sum(int(row["rounds"]) for row in rows) / len(rows)
    return f"{mean_and_error(values, '.4f', '.4f')} ({max(values):.3f}); rounds {rounds:.3g}"


STUDY = Study(
    "benchmarks.quality.indirect.batches",
    "indirect-batches",
    PROBLEMS,
    METHODS,
    (),
    ("simple", "instant", "queries", "rounds"),
    plan=plan,
    execute=execute,
    report=report,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
