"""The best feasible value at equal capital, with limits on outcomes: several fidelities against the target alone.

    python -m benchmarks.quality.constrained [--workers N] [--methods LABEL ...] [--problems NAME ...] [--seeds N]

Adds the runs that are missing to ``constrained.csv`` (:mod:`benchmarks.study`). Capital counts everything, the
initial design included, in units of the target's cost; ``best`` is in the function's own sign, empty where nothing
feasible was found. ``constrained LogEI`` is this package's ``ExpectedImprovement`` with a GP of BoTorch's own kind for
the objective (its noise next to none until the data say otherwise) and each slack; its acquisition is BoTorch's
``LogConstrainedExpectedImprovement`` (the tests compare them), and the probability of feasibility alone while nothing
feasible is known.
"""

from __future__ import annotations

import sys
from functools import partial

from benchmarks.quality.constrained_problems import NAMES, Cheapened
from benchmarks.study import Look, Row, Study
from mfbo_torch import strategies


def measured(look: Look) -> Row:
    """The best feasible value, and of how many at the target."""
    target, part = look.problem.space.target, look.history
    best = part.best(target)
    value = "" if best is None or best.value is None else look.problem.signed(best.value)
    feasible = sum(r.feasible for r in part.done if r.query.fidelity == target)
    return value, feasible, len(part), look.spent, look.seconds


STUDY = Study(
    "benchmarks.quality.constrained",
    "constrained",
    {name: partial(Cheapened, name) for name in NAMES},
    {
        "MFGPUCB": lambda seed: strategies.MFGPUCB(seed=seed),
        "constrained LogEI": lambda seed: strategies.ExpectedImprovement(seed=seed, initial=6),
    },
    (10, 15),
    ("best", "feasible", "queries", "spent", "processor_seconds"),
    measured,
    minutes=4,
)


if __name__ == "__main__":
    sys.exit(STUDY.main(__doc__))
