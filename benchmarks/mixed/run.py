"""Tunings with choices, conditions and booleans, beside Optuna and SMAC3, at equal capital.

    python -m benchmarks.mixed.run [--problems NAME ...] [--methods NAME ...] [--seeds N] [--first SEED] [--capital 20]
        [--workers N] [--results FOLDER]

Adds the runs that are missing to ``mixed.csv`` (see :mod:`benchmarks.runs`) and writes ``mixed.md``, the median and the
worst seed of each. Capital is in units of the target's cost and counts everything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.common import cut_after, parser
from benchmarks.mixed.tunings import TUNINGS
from benchmarks.robust.peers import PEERS, Ledger, missing
from benchmarks.runs import measure, read
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics import capital_spent, paid_for
from mfbo_torch.strategies import MFGPUCB, ExpectedImprovement, RandomSearch, Strategy

FILE = "mixed.csv"
COLUMNS = ("problem", "method", "seed", "capital", "value", "spent", "queries", "target_queries", "decision_seconds")
"""``value``: the best at the target, empty before there is one."""
OURS: dict[str, Callable[[int], Strategy]] = {
    "MFGPUCB": lambda seed: MFGPUCB(seed=seed),
    "EI": lambda seed: ExpectedImprovement(seed=seed),
    "Random": lambda seed: RandomSearch(seed=seed),
}
OTHERS = ("OptunaTPE", "OptunaHyperband", "SMACMultiFidelity")
METHODS = (*OURS, *OTHERS)
MINUTES = 20


class Job(NamedTuple):
    """One run: where, what, the capitals at which it is looked at."""

    problem: str
    method: str
    seed: int
    capitals: tuple[int, ...]


def execute(job: Job) -> list[tuple[object, ...]]:
    """Run a job; one row for each capital."""
    problem = TUNINGS[job.problem]()
    top, target = problem.space.costs[-1], problem.space.target
    capital = max(job.capitals) * top
    with cut_after(MINUTES):
        if job.method in OURS:
            history = run(problem, OURS[job.method](job.seed), capital, progress=False)
        else:
            history = Ledger(problem, capital).filled(PEERS[job.method], job.seed)
    rows = []
    spent = capital_spent(history) / top
    for amount, within in zip(job.capitals, paid_for(spent, job.capitals).tolist(), strict=True):
        part = History(history.records[:within])
        best = part.best(target)
        rows.append(
            (
                *(job.problem, job.method, job.seed, amount, "" if best is None else best.value),
                *(round(part.spent / top, 6), within, part.queries_per_fidelity(target + 1)[-1]),
                round(sum(record.decision_seconds for record in part), 3),
            )
        )
    return rows


def report(rows: Sequence[dict[str, str]]) -> str:
    """The median and the worst seed of the best value, for each problem and capital."""
    lines = ["# Tunings with choices", "", "Median (worst seed) of the best value at the target; larger is better.", ""]
    methods = [method for method in METHODS if any(row["method"] == method for row in rows)]
    for problem in TUNINGS:
        own = [row for row in rows if row["problem"] == problem]
        if not own:
            continue
        lines += [f"## {problem}", "", f"| capital | {' | '.join(methods)} |", f"| ---: |{' ---: |' * len(methods)}"]
        for capital in sorted({int(row["capital"]) for row in own}):
            cells = []
            for method in methods:
                at = [row["value"] for row in own if (row["method"], row["capital"]) == (method, str(capital))]
                values = [float(value) if value else float("-inf") for value in at]
                cells.append(f"{median(values):.3f} ({min(values):.3f}), {len(values)}" if values else "-")
            lines.append(f"| {capital} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join([*lines, "The number behind each is that of its seeds.", ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the table; the exit status."""
    made = parser(__doc__, problems=list(TUNINGS), methods=METHODS, seeds=10, first=0, capital=20, workers=1)
    given = made.parse_args(arguments)
    methods = [method for method in given.methods if not missing(method)]
    capitals = tuple(sorted({max(1, given.capital // 4), max(1, given.capital // 2), given.capital}))
    seeds = range(given.first, given.first + given.seeds)
    jobs = [Job(problem, method, seed, capitals) for seed in seeds for problem in given.problems for method in methods]
    status = measure(jobs, execute, given.results / FILE, COLUMNS, key=4, workers=given.workers)
    (given.results / "mixed.md").write_text(report(read(given.results / FILE)), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
