"""L-BFGS-B from many starts at once: SciPy's routine for each start, one call of the function for all.

References:

.. [Zhu1997lbfgsb]
    C. Zhu, R. H. Byrd, P. Lu, J. Nocedal. Algorithm 778: L-BFGS-B, Fortran subroutines for large-scale
    bound-constrained optimization. ACM Transactions on Mathematical Software 23(4), 1997.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

try:
    from scipy.optimize._lbfgsb import setulb
except ImportError:
    setulb = None
if tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 15):  # before, it took other arguments
    setulb = None

Array = NDArray[np.float64]
Function = Callable[[Array, list[int]], tuple[Array, Array]]
"""From ``b x d`` points, and which of the starts they come from, to values ``b`` and gradients ``b x d``."""
MEMORY, FACTOR, GRADIENT, SEARCHES = 10, 1e7, 1e-5, 20
"""SciPy's defaults: number of corrections, the tolerances of ``fmin_l_bfgs_b``, evaluations of a line search."""
BOUNDED = 2
"""The routine's code for a variable with both bounds."""
EVALUATE, STEPPED, STOP, TOO_MANY = 3, 1, 5, 504
"""The routine's codes: evaluate the function, a step is done; stop, for the number of steps."""


def known() -> bool:
    """Whether the installed SciPy has the routine as it is called here."""
    return setulb is not None


def minimized(function: Function, starts: Array, lower: Array, upper: Array, maxiter: int) -> Array:
    """Local minimisers ``b x d`` in a box from ``b x d`` starts in it, each that of ``scipy.optimize.fmin_l_bfgs_b``
    [Zhu1997lbfgsb]_. The ``function`` is called once for all starts that go on; each takes at most ``maxiter`` steps,
    and one whose line search finds nothing better ends where it is.

    Between two evaluations of the function only the routine runs: where the function takes a tenth of a millisecond,
    anything else would cost as much.
    """
    b, d = starts.shape
    X, gradients = np.array(starts, dtype=np.float64), np.zeros((b, d))
    tasks, steps, values = np.zeros((b, 2), np.int32), [0] * b, [0.0] * b
    lower, upper, kind = lower.astype(np.float64), upper.astype(np.float64), np.full(d, BOUNDED, np.int32)
    reals = np.zeros((b, 2 * MEMORY * d + 5 * d + 11 * MEMORY * MEMORY + 8 * MEMORY))
    wholes, searches = np.zeros((b, 3 * d), np.int32), np.zeros((b, 2), np.int32)
    flags, counts, scalars = np.zeros((b, 4), np.int32), np.zeros((b, 44), np.int32), np.zeros((b, 29))
    states = [
        (FACTOR, GRADIENT, reals[i], wholes[i], tasks[i], flags[i], counts[i], scalars[i], SEARCHES, searches[i])
        for i in range(b)
    ]
    live = list(range(b))
    while live:
        due = []
        for i in live:
            task = tasks[i]
            while True:
                setulb(MEMORY, X[i], lower, upper, kind, values[i], gradients[i], *states[i])
                if task[0] != STEPPED:
                    break
                steps[i] += 1
                if steps[i] >= maxiter:
                    task[:] = STOP, TOO_MANY
            if task[0] == EVALUATE:
                due.append(i)
        if due:
            found, gradients[due] = function(X[due], due)
            for i, value in zip(due, found.tolist(), strict=True):
                values[i] = value
        live = due
    return X
