"""Tunings with choices, conditions and booleans, beside Optuna and SMAC3, at equal capital.

    python -m benchmarks.quality.mixed [--problems NAME ...] [--methods NAME ...] [--seeds N] [--first SEED]
        [--capital MOST] [--workers N] [--report]

Adds the runs that are missing to ``mixed.csv`` (:mod:`benchmarks.study`) and writes ``mixed.md``, the median and the
worst seed of each. Capital is in units of the target's cost and counts everything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.common import markdown
from benchmarks.quality.mixed_tunings import TUNINGS
from benchmarks.quality.robust.peers import PEERS, Ledger, installed
from benchmarks.study import Job, Look, Row, Study, grouped
from mfbo_torch.history import History
from mfbo_torch.problems import Problem
from mfbo_torch.runner import run
from mfbo_torch.strategies import MFGPUCB, ExpectedImprovement, RandomSearch, Strategy

OURS: dict[str, Callable[[int], Strategy]] = {
    "MFGPUCB": lambda seed: MFGPUCB(seed=seed),
    "EI": lambda seed: ExpectedImprovement(seed=seed),
    "Random": lambda seed: RandomSearch(seed=seed),
}
OTHERS = ("OptunaTPE", "OptunaHyperband", "SMACMultiFidelity")


def play(job: Job, problem: Problem, capital: float) -> History:
    """A run of a strategy or of a peer."""
    if job.method in OURS:
        return run(problem, OURS[job.method](job.seed), capital, progress=False)
    return Ledger(problem, capital).filled(PEERS[job.method], job.seed)


def measured(look: Look) -> Row:
    """``value``: the best at the target, empty before there is one."""
    target, part = look.problem.space.target, look.history
    best = part.best(target)
    value = "" if best is None else best.value
    return value, look.spent, len(part), part.queries_per_fidelity(target + 1)[-1], look.decision_seconds


def report(path: Path) -> None:
    """The median and the worst seed of the best value, for each problem and capital."""
    rows = grouped(path)
    lines = ["# Tunings with choices", "", "Median (worst seed) of the best value at the target; larger is better.", ""]
    methods = [method for method in STUDY.methods if any(key[1] == method for key in rows)]
    for problem in TUNINGS:
        capitals = sorted({capital for name, _, capital in rows if name == problem})
        if not capitals:
            continue
        body = []
        for capital in capitals:
            found = [[float(r["value"] or "-inf") for r in rows.get((problem, m, capital), [])] for m in methods]
            cells = [f"{median(v):.3f} ({min(v):.3f}), {len(v)}" if v else "-" for v in found]
            body.append([f"{capital:g}", *cells])
        lines += [f"## {problem}", "", *markdown(["capital", *methods], body, left=0), ""]
    text = "\n".join([*lines, "The number behind each is that of its seeds.", ""])
    path.with_suffix(".md").write_text(text, encoding="utf-8")


STUDY = Study(
    "benchmarks.quality.mixed",
    "mixed",
    TUNINGS,
    dict.fromkeys((*OURS, *OTHERS)),
    (5, 10, 20),
    ("value", "spent", "queries", "target_queries", "decision_seconds"),
    measured,
    minutes=20,
    play=play,
    report=report,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the table; the exit status."""
    given = STUDY.parser(__doc__).parse_args(arguments)
    given.methods = installed(given.methods)
    return STUDY.finish(given)


if __name__ == "__main__":
    sys.exit(main())
