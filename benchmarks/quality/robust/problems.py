"""The suite: what each problem is, which third is held out, and what a random design is worth.

==================  =  =========================  ==================================================================
problem             d  costs                      what
==================  =  =========================  ==================================================================
forrester           1  1, 10                      ``functions.forrester_pair``
forrester-4         1  1, 2, 10, 20               ``functions.forrester``
jump-forrester      1  1, 5                       ``functions.jump_forrester``
rosenbrock-2, -5    .  1, 5, 10                   ``functions.rosenbrock``
rastrigin-2, -5     .  1, 16, 256                 ``functions.rastrigin``
alos-1, -2, -3      .  1, 5                       ``functions.alos``
spring-mass-2, -4   .  1, 60                      ``functions.spring_mass``
paciorek            2  1, 5                       ``functions.paciorek`` with noise: standard
                                                  deviation 0.0125, cheap 0.075
currin ...          .  1, 10, 100, ...            the six functions of MF-GP-UCB, :mod:`mfbo_torch.problems`
failing             2  1, 10                      ``functions.humps``; raises in a half-plane
useless             2  1, 10                      ``functions.waves``: cheap tells nothing
noisy               2  1, 10                      the humps with noise of standard deviation 0.2 at both fidelities
branin              2  1, 10, 100                 ``functions.branin``
levy-5              5  1, 10                      ``functions.levy``
styblinski-12       12 1, 20                      ``functions.styblinski``
cliff-2, -4         .  1, 10                      ``functions.cliff``
camel               2  1, 10, 100                 ``functions.camel``
ackley-8            8  1, 20                      ``functions.ackley``
trees               5  1, 3, 12                   ``tunings.Trees``
network             5  1, 3, 9, 27                ``tunings.Network``
==================  =  =========================  ==================================================================

All are maximised.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from benchmarks.quality.robust import functions
from benchmarks.quality.robust.functions import Array, Function
from benchmarks.quality.robust.tunings import Network, Trees
from mfbo_torch.problems import BadCurrin, Borehole, Currin, Hartmann3, Hartmann6, Park, Problem
from mfbo_torch.problems.noise import drawn
from mfbo_torch.space import Space


class Formula(Problem):
    """A function of :mod:`~benchmarks.quality.robust.functions` on a cube, largest at ``best``.

    ``noise`` has the standard deviation of what is observed at each fidelity; ``fails`` says which designs have no
    value.
    """

    def __init__(
        self,
        function: Function,
        best: Sequence[float],
        bounds: tuple[float, float],
        costs: Sequence[float],
        noise: Sequence[float] = (),
        fails: Callable[[Array], Array] | None = None,
    ) -> None:
        self.space = Space.box([[end] * len(best) for end in bounds], costs)
        self.function, self.best, self.noise, self.fails = function, tuple(best), tuple(noise), fails
        self.optimum = self.evaluate(best, self.space.target)

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        """The function without its noise, NaN at a design that fails."""
        point, level = self.checked(x, fidelity)
        design = np.array([point])
        if self.fails is not None and self.fails(design)[0]:
            return math.nan
        return float(self.function(design, level)[0])

    def observe(self, x: Sequence[float], fidelity: int, number: int) -> float:
        value = self.evaluate(x, fidelity)
        return value + self.noise[fidelity] * drawn(self.trial, number) if self.noise else value


PEAK = (0.6797022803112561, 0.4198449081702647)
WAVE = (0.3015810196313146, 0.7207808689247471)
SPRINGS = (np.pi**2 / 4, 2 * np.pi**2 / 9)
CAMEL = ((2 + 0.08984201368301331) / 4, (1 - 0.7126564032704135) / 2)

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "forrester": partial(Formula, functions.forrester_pair, [0.7572487582287183], (0, 1), (1, 10)),
    "forrester-4": partial(Formula, functions.forrester, [0.7572487582287183], (0, 1), (1, 2, 10, 20)),
    "jump-forrester": partial(Formula, functions.jump_forrester, [0.1425891844010118], (0, 1), (1, 5)),
    "rosenbrock-2": partial(Formula, functions.rosenbrock, [1.0] * 2, (-2, 2), (1, 5, 10)),
    "rosenbrock-5": partial(Formula, functions.rosenbrock, [1.0] * 5, (-2, 2), (1, 5, 10)),
    "rastrigin-2": partial(Formula, functions.rastrigin, [0.1] * 2, (-0.1, 0.2), (1, 16, 256)),
    "rastrigin-5": partial(Formula, functions.rastrigin, [0.1] * 5, (-0.1, 0.2), (1, 16, 256)),
    "alos-1": partial(Formula, functions.alos, [0.27550182708135273], (0, 1), (1, 5)),
    "alos-2": partial(Formula, functions.alos, [0.0] * 2, (0, 1), (1, 5)),
    "alos-3": partial(Formula, functions.alos, [0.0] * 3, (0, 1), (1, 5)),
    "spring-mass-2": partial(Formula, functions.spring_mass, SPRINGS, (1, 4), (1, 60)),
    "spring-mass-4": partial(Formula, functions.spring_mass, (1.0, 1.0, *SPRINGS), (1, 4), (1, 60)),
    "paciorek": partial(Formula, functions.paciorek, [(2 / 3 / np.pi) ** 0.5] * 2, (0.3, 1), (1, 5), (0.075, 0.0125)),
    "currin": Currin,
    "bad-currin": BadCurrin,
    "park": Park,
    "borehole": Borehole,
    "hartmann3": Hartmann3,
    "hartmann6": Hartmann6,
    "failing": partial(Formula, functions.humps, PEAK, (0, 1), (1, 10), fails=functions.failing),
    "useless": partial(Formula, functions.waves, WAVE, (0, 1), (1, 10)),
    "noisy": partial(Formula, functions.humps, PEAK, (0, 1), (1, 10), (0.2, 0.2)),
    "branin": partial(Formula, functions.branin, [(np.pi + 5) / 15, 2.275 / 15], (0, 1), (1, 10, 100)),
    "levy-5": partial(Formula, functions.levy, [1.0] * 5, (-10, 10), (1, 10)),
    "styblinski-12": partial(Formula, functions.styblinski, [-2.903534027771178] * 12, (-5, 5), (1, 20)),
    "cliff-2": partial(Formula, functions.cliff, [0.6] * 2, (0, 1), (1, 10)),
    "cliff-4": partial(Formula, functions.cliff, [0.6] * 4, (0, 1), (1, 10)),
    "camel": partial(Formula, functions.camel, CAMEL, (0, 1), (1, 10, 100)),
    "ackley-8": partial(Formula, functions.ackley, [0.3] * 8, (0, 1), (1, 20)),
    "trees": Trees,
    "network": Network,
}

HELD_OUT = (
    *("jump-forrester", "rosenbrock-5", "rastrigin-5", "alos-3", "spring-mass-4", "paciorek", "park", "trees"),
    *("cliff-4", "camel", "ackley-8"),
)
"""A third of each kind, chosen before anything was tuned: looked at when everything is decided, and not before."""
DEVELOPMENT = tuple(name for name in PROBLEMS if name not in HELD_OUT)


def noisy(problem: Problem) -> bool:
    """Whether what is observed is not the value itself."""
    return bool(getattr(problem, "noise", ()))


def random_median(problem: Problem, designs: int = 1000) -> float:
    """The median value at the target of so many designs spread evenly (Sobol, seed 0), those that fail left out."""
    units = torch.quasirandom.SobolEngine(problem.space.dim, scramble=True, seed=0).draw(designs, dtype=torch.double)
    values = [problem.reward(x, problem.space.target) for x in problem.space.from_unit(units).tolist()]
    return float(np.nanmedian(values))


MEDIANS = {
    "forrester": 0.005186406471781733,
    "forrester-4": 0.005186406471781733,
    "jump-forrester": -3.5016942467320336,
    "rosenbrock-2": -213.50974019573638,
    "rosenbrock-5": -1486.8472785661697,
    "rastrigin-2": -2.0354419117833613,
    "rastrigin-5": -5.05195772575823,
    "alos-1": 0.04070962563811745,
    "alos-2": -0.18490303599201155,
    "alos-3": -0.27234267965924935,
    "spring-mass-2": 0.007241873239021179,
    "spring-mass-4": -0.15880119670624626,
    "paciorek": -0.5851564784029839,
    "currin": 7.081983651770146,
    "bad-currin": 7.081983651770146,
    "park": 8.531986258233362,
    "borehole": 69.815549622964,
    "hartmann3": 0.5352859997725006,
    "hartmann6": 0.0975763549931895,
    "failing": 0.198536561365525,
    "useless": -0.09731383917750767,
    "noisy": 0.13518793605689375,
    "branin": -34.645108863085326,
    "levy-5": -51.19622917722398,
    "styblinski-12": 57.54227411322853,
    "cliff-2": -1.1856295960714882,
    "cliff-4": -1.8478754034332228,
    "camel": -1.0313567764974447,
    "ackley-8": -6.54921007774012,
    "trees": 0.37913100466913535,
    "network": -0.5429232508290195,
}
"""What :func:`random_median` gives."""


FLOOR = 1e-4
"""Losses below it count as equal."""


def loss(name: str, regret: float) -> float:
    """A regret in units of what the median random design leaves to gain, at least :data:`FLOOR`."""
    optimum = PROBLEMS[name]().optimum
    assert optimum is not None
    return max(regret / (optimum - MEDIANS[name]), FLOOR)
