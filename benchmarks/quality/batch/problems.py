"""Problems of the robust suite that a config can name."""

import numpy as np

from benchmarks.quality.robust import functions
from benchmarks.quality.robust.problems import Formula


class Forrester(Formula):
    """The pair of Forrester functions, costs 1 : 10."""

    def __init__(self) -> None:
        super().__init__(functions.forrester_pair, [0.7572487582287183], (0, 1), (1, 10))


class Branin(Formula):
    """Branin's function at three fidelities, costs 1 : 10 : 100."""

    def __init__(self) -> None:
        super().__init__(functions.branin, [(np.pi + 5) / 15, 2.275 / 15], (0, 1), (1, 10, 100))


class Rosenbrock(Formula):
    """Rosenbrock's function in two dimensions at three fidelities, costs 1 : 5 : 10."""

    def __init__(self) -> None:
        super().__init__(functions.rosenbrock, [1.0] * 2, (-2, 2), (1, 5, 10))
