"""What limiting the observations of a model costs in regret: long runs with the limit lowered, beside runs without one.

    python -m benchmarks.limits [--seeds 3] [--evaluations 300] [--limit 100]

MFGPUCB on three problems, asked one query at a time. With a limit its models are made of at most so many observations
of each fidelity, chosen as in :mod:`mfbo_torch.strategies.common.subsample`, whose parts are lowered in proportion; the
limit of long runs, 1,000, is never reached here. Beside the regret at the end there is the processor time of the last
tenth of the decisions. Adds the runs that are missing to ``limits.csv`` (see :mod:`benchmarks.runs`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from unittest.mock import patch

from benchmarks.common import parser
from benchmarks.runs import measure
from mfbo_torch import Optimizer, problems
from mfbo_torch.strategies import MFGPUCB
from mfbo_torch.strategies.common import subsample

COLUMNS = ("problem", "limit", "seed", "evaluations", "most_of_a_fidelity", "regret", "ms_a_late_decision")
PROBLEMS = {"Currin": 1, "Hartmann3": 1, "Hartmann6": 2}
"""By how much the number of evaluations is multiplied: without a capital the last one begins with 240 cheap ones."""


def execute(job: tuple[str, int, int, int]) -> list[tuple[object, ...]]:
    """One run; a limit of 0 is none."""
    name, limit, seed, evaluations = job
    problem, share = getattr(problems, name)(), (limit or 10**9) / subsample.MOST
    parts = {part: int(share * getattr(subsample, part)) for part in ("MOST", "BLOCK", "FIRST", "NEAR")}
    optimizer = Optimizer(MFGPUCB(seed=seed), problem=problem)
    late, step = 0.0, 9 * evaluations // 10
    with patch.multiple(subsample, **parts):
        for i in range(evaluations):
            started = time.process_time()
            (record,) = optimizer.ask()
            late += (time.process_time() - started) * (i >= step)
            optimizer.tell(record.id, problem.reward(record.query.x, record.query.fidelity))
    history, space = optimizer.history, problem.space
    best, most = history.best(space.target), max(history.queries_per_fidelity(space.num_fidelities))
    regret = problem.signed(problem.optimum or 0.0) - (best.value if best else float("-inf"))
    milliseconds = round(1e3 * late / (evaluations - step))
    row = (*job, most, f"{regret:.6g}", milliseconds)
    print(*(f"{column} {value}" for column, value in zip(COLUMNS, row, strict=True)), flush=True)
    return [row]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; the exit status."""
    given = parser(__doc__, seeds=3, evaluations=300, limit=100).parse_args(arguments)
    wanted = [
        (problem, limit, seed, times * given.evaluations)
        for seed in range(given.seeds)
        for problem, times in PROBLEMS.items()
        for limit in (given.limit, 0)
    ]
    return measure(wanted, execute, given.results / "limits.csv", COLUMNS, key=4)


if __name__ == "__main__":
    sys.exit(main())
