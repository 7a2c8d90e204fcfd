"""Regret of every method on problems that nobody tuned it on, at equal capital.

    python -m benchmarks.robust.run [--problems NAME ...] [--held-out] [--methods NAME ...] [--seeds N] [--first SEED]
        [--label NAME] [--workers N] [--results FOLDER]

Adds the runs that are missing to ``robust.csv`` (see :mod:`benchmarks.runs`); ``python -m benchmarks.robust.report``
makes the tables and the pictures. The problems are those of :mod:`benchmarks.robust.problems`, without ``--held-out``
the development suite only; a problem that is named runs in any case. Capital is in units of the target's cost and
counts everything, initial designs and failures included. ``--label`` is what the rows of ``MFGPUCB`` are called, so
that the default before and after a change stand in one file. ``pip install "mfbo-torch[benchmarks]"`` for the peers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks.batch.simulate import simulate, varying
from benchmarks.common import cut_after, parser
from benchmarks.robust.peers import PEERS, Ledger, missing
from benchmarks.robust.problems import DEVELOPMENT, MEDIANS, PROBLEMS, noisy
from benchmarks.runs import measure
from mfbo_torch.history import History, Recommendation, Record, Status
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics import capital_spent, paid_for
from mfbo_torch.problems import Problem
from mfbo_torch.strategies import GPUCB, MFGIBBON, MFGPUCB, ExpectedImprovement, RandomSearch, Strategy

FILE = "robust.csv"
COLUMNS = (
    *("problem", "method", "seed", "capital"),
    *("regret", "recommended", "spent", "queries", "target_queries", "failed", "decision_seconds"),
)
"""``regret``: of the best observation at the target, its value without noise; of the median random design before there
is one. ``recommended``: of the design that is recommended, the same where nothing is noisy. ``failed``: the capital
spent on evaluations that failed."""
CAPITALS = (5, 10, 15, 20)
MINUTES = 20
"""A run that takes more processor time is cut and keeps what it had; its ``spent`` is below the capital then."""

OURS: dict[str, Callable[[int], Strategy]] = {
    "MFGPUCB": lambda seed: MFGPUCB(seed=seed),
    "MFGPUCB-independent": lambda seed: MFGPUCB(link="independent", seed=seed),
    "EI": lambda seed: ExpectedImprovement(seed=seed),
    "GPUCB": lambda seed: GPUCB(seed=seed),
    "MFGIBBON": lambda seed: MFGIBBON(seed=seed),
    "Random": lambda seed: RandomSearch(seed=seed),
}
"""``EI`` is LogEI at the target."""
IN_FLIGHT = {f"{name}, {count} workers": (name, count) for name in ("MFGPUCB", "EI") for count in (4, 16)}
"""Simulated workers that are never waited for; how long an evaluation takes varies around its cost."""
SPREAD = 0.3
"""The deviation of the logarithm of that."""
METHODS = (*OURS, *IN_FLIGHT, *PEERS)


class Job(NamedTuple):
    """One run: where, how its rows are called, the capitals at which it is looked at, what runs."""

    problem: str
    label: str
    seed: int
    capitals: tuple[int, ...]
    method: str


def jobs(problems: Sequence[str], methods: Sequence[str], seeds: Sequence[int], label: str = "MFGPUCB") -> list[Job]:
    """Every run, the first seed of all methods before the next one."""
    named = {method: label if method == "MFGPUCB" else method for method in methods}
    return [Job(p, named[m], seed, CAPITALS, m) for seed in seeds for p in problems for m in methods]


def execute(job: Job) -> list[tuple[object, ...]]:
    """Run a job; one row for each capital."""
    problem = PROBLEMS[job.problem]()
    problem.trial = job.seed
    top = problem.space.costs[-1]
    capital = max(job.capitals) * top
    advise: Callable[[History], Record | Recommendation | None] = partial(History.best, fidelity=problem.space.target)
    with cut_after(MINUTES):
        if job.method in PEERS:
            history = Ledger(problem, capital).filled(PEERS[job.method], job.seed)
        else:
            name, workers = IN_FLIGHT.get(job.method, (job.method, 1))
            strategy = OURS[name](job.seed)
            if workers > 1:
                history, _ = simulate(problem, strategy, capital, workers, varying(job.seed, SPREAD))
            else:
                history = run(problem, strategy, capital, progress=False)
            advise = strategy.bind(problem.space, capital).recommend
    rows = []
    spent = capital_spent(history) / top
    for amount, within in zip(job.capitals, paid_for(spent, job.capitals).tolist(), strict=True):
        part = History(history.records[:within])
        regret = regret_of(job.problem, problem, part.best(problem.space.target))
        recommended = regret_of(job.problem, problem, advise(part)) if noisy(problem) else regret
        rows.append(
            (
                *(job.problem, job.label, job.seed, amount),
                *(regret, recommended, round(part.spent / top, 6), within),
                part.queries_per_fidelity(problem.space.num_fidelities)[-1],
                round(sum(record.cost for record in part.select(Status.FAILED)) / top, 6),
                round(sum(record.decision_seconds for record in part), 3),
            )
        )
    return rows


def regret_of(name: str, problem: Problem, found: Record | Recommendation | None) -> float:
    """What a design misses at the target, without noise; what the median random design does where there is none."""
    assert problem.optimum is not None
    if found is None:
        return problem.optimum - MEDIANS[name]
    if isinstance(found, Record) and not noisy(problem) and found.value is not None:
        return problem.optimum - found.value
    x = found.query.x if isinstance(found, Record) else found.x
    return problem.optimum - problem.reward(x, problem.space.target)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; the exit status."""
    made = parser(__doc__, methods=METHODS, seeds=10, first=0, label="MFGPUCB", workers=1)
    made.add_argument("--problems", nargs="+", choices=PROBLEMS, metavar="NAME", help="only these")
    made.add_argument("--held-out", action="store_true", help="the held-out problems too")
    given = made.parse_args(arguments)
    names = given.problems or (PROBLEMS if given.held_out else DEVELOPMENT)
    absent = {method: lacks for method in given.methods if (lacks := missing(method))}
    for method, lacks in absent.items():
        print(f"{method} is skipped: {lacks} is not installed")
    methods = [method for method in given.methods if method not in absent]
    wanted = jobs(list(names), methods, range(given.first, given.first + given.seeds), given.label)
    return measure(wanted, execute, given.results / FILE, COLUMNS, key=4, workers=given.workers)


if __name__ == "__main__":
    sys.exit(main())
