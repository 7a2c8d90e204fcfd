"""Simple regret where the fidelity is any number of an interval, at equal capital.

    python -m benchmarks.continuous.run [--workers N] [--methods LABEL ...] [--problems NAME ...] [--seeds N]
        [--dragonfly PYTHON]

Adds the runs that are missing to ``continuous.csv`` (see :mod:`benchmarks.runs`) and writes ``continuous.md``. Capital
is in units of the target's cost and counts everything. ``dragonfly`` is the authors' package (``dragonfly-opt``), in
an interpreter of its own that has it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.common import cut_after, parser
from benchmarks.robust.peers import Ledger, Spent
from benchmarks.runs import measure, read
from mfbo_torch import problems, strategies
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics import capital_spent, paid_for, simple_regret
from mfbo_torch.problems.synthetic.continuous import ContinuousProblem

FILE = "continuous.csv"
COLUMNS = ("problem", "method", "seed", "capital", "regret", "spent", "queries", "decision_seconds")
PROBLEMS = ("ContinuousCurrin", "ContinuousBranin", "ContinuousHartmann3", "ContinuousHartmann6", "ContinuousBorehole")
METHODS = ("BOCA", "MFGPUCB, 3 levels", "LogEI, target alone", "dragonfly")
CAPITALS = (10, 20)
MINUTES = 4
"""A run that takes more processor time is cut and keeps the regret it had."""


class Job(NamedTuple):
    """One run, and the interpreter that has dragonfly."""

    problem: str
    method: str
    seed: int
    capitals: tuple[int, ...]
    dragonfly: str


def history_of(job: Job) -> tuple[ContinuousProblem, History]:
    """The problem, with its levels, and what a method has asked of it."""
    kind, capital = getattr(problems, job.problem), max(job.capitals)
    if job.method == "dragonfly":
        return (problem := kind()), Ledger(problem, capital).filled(lambda *of: _dragonfly(*of, job), job.seed)
    problem = kind() if job.method == "BOCA" else kind(levels=3)
    strategy: strategies.Strategy = strategies.BOCA(seed=job.seed)
    if job.method.startswith("MFGPUCB"):
        strategy = strategies.MFGPUCB(seed=job.seed)
    elif job.method.startswith("LogEI"):
        strategy = strategies.ExpectedImprovement(seed=job.seed)
    return problem, run(problem, strategy, capital, progress=False)


def _dragonfly(ledger: Ledger, seed: int, job: Job) -> None:
    space, child = ledger.space, Path(__file__).with_name("dragonfly_child.py")
    task = {
        "bounds": space.bounds.mT.tolist(),
        "costs": list(space.costs),
        "capital": ledger.capital,
        "seed": seed,
    }
    command = [job.dragonfly, str(child)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        sent: object = task
        try:
            while True:
                process.stdin.write(f"{json.dumps(sent)}\n".encode())
                process.stdin.flush()
                line = process.stdout.readline()
                if not line:
                    raise Spent
                z, x = json.loads(line)
                level = round(min(max(z, 0.0), 1.0) * space.target)
                sent = ledger.value(dict(zip([p.name for p in space.parameters], x, strict=True)), level)
        finally:
            process.kill()


def execute(job: Job) -> list[tuple[object, ...]]:
    """Run a job; one row for each capital."""
    with cut_after(MINUTES):
        problem, history = history_of(job)
    spent = capital_spent(history)
    assert problem.optimum is not None
    regret = simple_regret(history, problem.space.target, problem.optimum, problem.worst)
    rows: list[tuple[object, ...]] = []
    for capital, within in zip(job.capitals, paid_for(spent, job.capitals).tolist(), strict=True):
        seconds = sum(record.decision_seconds for record in history.records[:within])
        found = (f"{regret[within - 1].item():.6g}", round(spent[within - 1].item(), 6), within, round(seconds, 3))
        rows.append((job.problem, job.method, job.seed, capital, *found))
    return rows


def report(path: Path) -> str:
    """The medians as a table, each with its number of seeds."""
    regrets: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for row in read(path):
        regrets[row["problem"], row["method"], int(row["capital"])].append(float(row["regret"]))
    lines = ["# Simple regret with a continuous fidelity", ""]
    lines += [
        "Capital in units of the target's cost, everything counted. Median and worst seed (number of seeds). BOCA and"
    ]
    lines += ["dragonfly ask any fidelity, MFGPUCB the lowest, the middle one and the target.", ""]
    for capital in CAPITALS:
        lines += [
            f"## Capital {capital}",
            "",
            f"| method | {' | '.join(PROBLEMS)} |",
            f"| --- |{' --- |' * len(PROBLEMS)}",
        ]
        for method in METHODS:
            cells = []
            for name in PROBLEMS:
                found = regrets.get((name, method, capital), [])
                cells.append(f"{median(found):.2g}, {max(found):.2g} ({len(found)})" if found else "not measured")
            lines.append(f"| {method} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, write the table; the exit status."""
    grid = {"methods": list(METHODS), "problems": list(PROBLEMS), "seeds": 10, "workers": 1, "dragonfly": ""}
    given = parser(__doc__, **grid).parse_args(arguments)
    methods = [m for m in given.methods if m != "dragonfly" or given.dragonfly]
    wanted = [
        Job(name, method, seed, CAPITALS, given.dragonfly)
        for seed in range(given.seeds)
        for name in given.problems
        for method in methods
    ]
    status = measure(wanted, execute, given.results / FILE, COLUMNS, key=4, workers=given.workers)
    (given.results / FILE).with_suffix(".md").write_text(report(given.results / FILE))
    return status


if __name__ == "__main__":
    sys.exit(main())
