"""What limiting the observations of a model costs in regret: long runs with the limit lowered, beside runs without one.

A study (:mod:`benchmarks.study`): ``limits.csv``, where the method is the limit and the capital the number of
evaluations. MFGPUCB is asked one query at a time, without a capital: with one it begins with 240 cheap ones. Its models
are made of at most so many observations of the cheapest fidelity and half as many of each above, chosen as in
:mod:`mfbo_torch.strategies.common.subsample`; the limit of long runs, 1,000, is never reached here, and 0 is none.
"""

import time
from collections.abc import Iterable
from unittest.mock import patch

from benchmarks.study import Job, Row, Study
from mfbo_torch import Optimizer, problems
from mfbo_torch.strategies import MFGPUCB
from mfbo_torch.strategies.common import subsample
from mfbo_torch.strategies.multi import mf_gp_ucb_recursive, model_hedge

EVALUATIONS = {"Currin": 300, "Hartmann3": 300, "Hartmann6": 600}


def plan(problem: str, limit: str, seed: int) -> Iterable[tuple[int, ...]]:
    """How many evaluations; the limit of 300 on the longest runs only."""
    return [] if limit == "300" and problem != "Hartmann6" else [(EVALUATIONS[problem],)]


def execute(job: Job) -> list[Row]:
    """One run."""
    (evaluations,), limit = job.capitals, int(job.method)
    problem, most = STUDY.problems[job.problem](), limit or 10**9
    late, step = 0.0, 9 * evaluations // 10
    with (
        patch.object(subsample, "MOST", most),
        patch.object(mf_gp_ucb_recursive, "FEWER", most // 2),
        patch.object(model_hedge, "FEWER", most // 2),
    ):
        optimizer = Optimizer(MFGPUCB(seed=job.seed), problem=problem)
        for i in range(evaluations):
            started = time.process_time()
            (record,) = optimizer.ask()
            late += (time.process_time() - started) * (i >= step)
            optimizer.tell(record.id, problem.reward(record.query.x, record.query.fidelity))
    history, space = optimizer.history, problem.space
    best, largest = history.best(space.target), max(history.queries_per_fidelity(space.num_fidelities))
    regret = problem.signed(problem.optimum or 0.0) - (best.value if best else float("-inf"))
    return [(*job[:3], evaluations, largest, f"{regret:.6g}", round(1e3 * late / (evaluations - step)))]


STUDY = Study(
    "benchmarks.quality.limits",
    "limits",
    {name: getattr(problems, name) for name in EVALUATIONS},
    dict.fromkeys(("100", "300", "0")),
    (),
    ("most_of_a_fidelity", "regret", "ms_a_late_decision"),
    seeds=3,
    plan=plan,
    execute=execute,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
