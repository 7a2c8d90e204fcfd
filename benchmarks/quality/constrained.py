"""The best feasible value at equal capital, with limits on outcomes: several fidelities against the target alone.

A study (:mod:`benchmarks.study`): ``constrained.csv``. Capital counts everything, the initial design included; ``best``
is in the function's own sign, empty where nothing feasible was found. ``constrained LogEI`` is this package's
``ExpectedImprovement``: a GP of BoTorch's own kind for the objective and each slack, BoTorch's
``LogConstrainedExpectedImprovement``, and the probability of feasibility alone while nothing feasible is known.
"""

import math
from collections.abc import Sequence
from functools import partial

import torch
from botorch.test_functions import synthetic
from botorch.test_functions.base import ConstrainedBaseTestProblem
from torch import Tensor

from benchmarks.study import Look, Row, Study
from mfbo_torch import Observation, strategies
from mfbo_torch.problems.base import Problem
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.outcome_constraints import Limit

NAMES = ("ConstrainedHartmann", "PressureVessel", "SpeedReducer", "WeldedBeamSO")
OPTIMA = {
    "ConstrainedHartmann": -3.32237,
    "PressureVessel": 6059.946341,
    "SpeedReducer": 2996.3482,
    "WeldedBeamSO": 1.728226,
}
"""As BoTorch has them; Hartmann's own optimum is feasible."""
SHRINK, WAVE = 0.96, 0.1
"""The cheap fidelity sees the box shrunk by this factor, and waves of this share of the spread on top."""


class Cheapened(Problem):
    r"""One of :data:`NAMES`: ``f, c_1 >= 0, ..., c_K >= 0``, to be minimised, at costs 1 and 10.

    At the cheap fidelity each of them, :math:`g`, is
    :math:`g(m + 0.96 (x - m)) + 0.1 s_g \sin(2 \pi \bar u + k)`, where :math:`m` is the middle of the box,
    :math:`\bar u` the mean of the point in the unit cube, :math:`k` the number of the function and :math:`s_g` its
    deviation over 512 Sobol points. Slacks are given as :math:`\mathrm{sign}(c) \log(1 + |c|)`, which keeps their sign
    and takes nine orders of magnitude from them, for every method alike.
    """

    maximize = False

    def __init__(self, name: str) -> None:
        self._name, self.optimum = name, OPTIMA[name]
        self.function: ConstrainedBaseTestProblem = getattr(synthetic, name)()
        lower, upper = self.function.bounds.tolist()
        limits = tuple(Limit(f"c{k}", 0.0, False) for k in range(1, self.function.num_constraints + 1))
        parameters = tuple(Parameter(f"x{i}", lo, hi) for i, (lo, hi) in enumerate(zip(lower, upper, strict=True), 1))
        self.space = Space(parameters, (1.0, 10.0), limits=limits)
        sobol = torch.quasirandom.SobolEngine(len(lower), scramble=True, seed=0).draw(512, dtype=torch.double)
        self.spread = self._all(self.space.from_unit(sobol)).std(0)

    @property
    def name(self) -> str:
        return self._name

    def _all(self, X: Tensor) -> Tensor:
        """Objective and slacks, ``n x (1 + K)``."""
        slack = self.function.evaluate_slack_true(X)
        return torch.cat([self.function._evaluate_true(X).unsqueeze(-1), slack.sign() * slack.abs().log1p()], -1)

    def evaluate(self, x: Sequence[float], fidelity: int) -> Observation:
        point, level = self.checked(x, fidelity)
        X = torch.tensor([point], dtype=torch.double)
        if level == 1:
            found = self._all(X)[0]
        else:
            middle = self.space.bounds.mean(0)
            wave = torch.sin(2 * math.pi * self.space.to_unit(X).mean() + torch.arange(len(self.spread)))
            found = self._all(middle + SHRINK * (X - middle))[0] + WAVE * self.spread * wave
        value, *slack = found.tolist()
        return Observation(value, None, {f"c{k}": c for k, c in enumerate(slack, 1)})


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
    raise SystemExit(STUDY.main(__doc__))
