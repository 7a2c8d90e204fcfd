"""Regret of every method on problems that nobody tuned it on, at equal capital.

    python -m benchmarks.quality.robust.run [--held-out] [--label NAME]

A study (:mod:`benchmarks.study`): ``robust.csv`` and what :mod:`benchmarks.quality.robust.report` makes of it. The
problems are those of :mod:`benchmarks.quality.robust.problems`, without ``--held-out`` the development suite only; a
problem that is named runs in any case. ``--label`` is what the rows of ``MFGPUCB`` are called, so that the default
before and after a change stand in one file. ``pip install "mfbo-torch[benchmarks]"`` for the peers.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.quality.batch.simulate import simulate, varying
from benchmarks.quality.robust import report
from benchmarks.quality.robust.peers import PEERS, Ledger, installed
from benchmarks.quality.robust.problems import DEVELOPMENT, MEDIANS, PROBLEMS, noisy
from benchmarks.study import Job, Look, Row, Study
from mfbo_torch.history import History, Recommendation, Record, Status
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import Problem
from mfbo_torch.strategies import GPUCB, MFGIBBON, MFGPUCB, ExpectedImprovement, MFNaive, RandomSearch, Strategy

OURS: dict[str, Callable[[int], Strategy]] = {
    "MFGPUCB": lambda seed: MFGPUCB(seed=seed),
    "MFGPUCB-unhedged": lambda seed: MFGPUCB(hedge=False, seed=seed),
    "MFGPUCB-independent": lambda seed: MFGPUCB(link="independent", seed=seed),
    "EI": lambda seed: ExpectedImprovement(seed=seed),
    "EI-3": lambda seed: ExpectedImprovement(initial=3, seed=seed),
    "GPUCB": lambda seed: GPUCB(seed=seed),
    "MFNaive": lambda seed: MFNaive(seed=seed),
    "MFGIBBON": lambda seed: MFGIBBON(seed=seed),
    "Random": lambda seed: RandomSearch(seed=seed),
}
"""``EI`` is LogEI at the target after ten random designs, ``EI-3`` after three. ``MFGPUCB-unhedged`` is no rival."""
FORESEEING = ("MFGPUCB-independent", "EI", "GPUCB", "MFGIBBON")
"""Whose first design depends on the capital, beside the default's."""
SPREAD = 0.3
"""How long an evaluation takes with simulated workers varies around its cost: the deviation of its logarithm."""


def strategy_of(job: Job) -> Strategy:
    """The strategy of a run; what is no method is a label of the default."""
    name, _ = report.IN_FLIGHT.get(job.method, (job.method, 1))
    return OURS.get(name, OURS["MFGPUCB"])(job.seed)


def play(job: Job, problem: Problem, capital: float) -> History:
    """A run of a peer, of a strategy, or with simulated workers that are never waited for."""
    if job.method in PEERS:
        return Ledger(problem, capital).filled(PEERS[job.method], job.seed)
    _, workers = report.IN_FLIGHT.get(job.method, (job.method, 1))
    if workers > 1:
        return simulate(problem, strategy_of(job), capital, workers, varying(job.seed, SPREAD))[0]
    return run(problem, strategy_of(job), capital, progress=False)


def measured(look: Look) -> Row:
    """Regret of the best observation and of the recommended design, and what they took.

    ``regret``: of the best observation at the target, its value without noise; of the median random design before
    there is one. ``recommended``: of the design that is recommended, the same where nothing is noisy. ``failed``: the
    capital spent on evaluations that failed.
    """
    job, problem, part = look.job, look.problem, look.history
    top = problem.space.costs[-1]
    best = part.best(problem.space.target)
    regret = recommended = regret_of(job.problem, problem, best)
    if noisy(problem):
        capital = max(job.capitals) * top
        bound = None if job.method in PEERS else strategy_of(job).bind(problem.space, capital)
        recommended = regret_of(job.problem, problem, bound.recommend(part) if bound else best)
    target_queries = part.queries_per_fidelity(problem.space.num_fidelities)[-1]
    failed = round(sum(record.cost for record in part.select(Status.FAILED)) / top, 6)
    return regret, recommended, look.spent, len(part), target_queries, failed, look.decision_seconds


def regret_of(name: str, problem: Problem, found: Record | Recommendation | None) -> float:
    """What a design misses at the target, without noise; what the median random design does where there is none."""
    assert problem.optimum is not None
    if found is None:
        return problem.optimum - MEDIANS[name]
    if isinstance(found, Record) and not noisy(problem) and found.value is not None:
        return problem.optimum - found.value
    x = found.query.x if isinstance(found, Record) else found.x
    return problem.optimum - problem.reward(x, problem.space.target)


def planned(problem: str, method: str, seed: int) -> list[tuple[int, ...]]:
    """The runs of a method, the longest first.

    One to the largest capital, looked at on its way, and one to the smallest. A method whose first design depends on
    the capital has a run to the second smallest too; MF-NAIVE and the default, whose last queries depend on it, one to
    each. With workers there are runs to each but the smallest.
    """
    if method in report.IN_FLIGHT:
        return [(capital,) for capital in reversed(report.CAPITALS[1:])]
    if method in ("MFNaive", "MFGPUCB"):
        return [(capital,) for capital in reversed(report.CAPITALS)]
    own = 2 if method in FORESEEING or report.default(method) else 1
    return [report.CAPITALS[own:], *((capital,) for capital in reversed(report.CAPITALS[:own]))]


STUDY = Study(
    "benchmarks.quality.robust.run",
    "robust",
    PROBLEMS,
    dict.fromkeys(report.METHODS),
    report.CAPITALS,
    ("regret", "recommended", "spent", "queries", "target_queries", "failed", "decision_seconds"),
    measured,
    minutes=20,
    plan=planned,
    play=play,
    report=report.write,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write tables and pictures; the exit status."""
    made = STUDY.parser(__doc__, label="MFGPUCB")
    made.set_defaults(problems=None)
    made.add_argument("--held-out", action="store_true", help="the held-out problems too")
    given = made.parse_args(arguments)
    names = given.problems or (PROBLEMS if given.held_out else DEVELOPMENT)
    given.problems = list(names)
    given.methods = [given.label if m == "MFGPUCB" else m for m in installed(given.methods)]
    return replace(STUDY, report=partial(report.write, held_out=given.held_out)).finish(given)


if __name__ == "__main__":
    raise SystemExit(main())
