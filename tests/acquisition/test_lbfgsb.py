"""Many starts at once against SciPy's own call for each."""

import numpy as np
import pytest
from scipy.optimize import fmin_l_bfgs_b, rosen, rosen_der

from mfbo_torch.acquisition.lbfgsb import known, minimized

pytestmark = pytest.mark.skipif(not known(), reason="SciPy's routine is another one")
LOWER, UPPER = np.array([-2.0, -1.0, 0.5]), np.array([2.0, 0.7, 3.0])
STARTS = LOWER + (UPPER - LOWER) * np.random.Generator(np.random.PCG64(0)).random((9, 3))


@pytest.mark.parametrize("maxiter", [1, 4, 500])
def test_each_start_ends_where_it_does_alone(maxiter):
    asked = []

    def together(X, rows):
        asked.append(len(rows))
        assert len(X) == len(rows) == len(set(rows))
        return np.array([rosen(x) for x in X]), np.array([rosen_der(x) for x in X])

    starts = STARTS.copy()
    found = minimized(together, starts, LOWER, UPPER, maxiter)
    box = list(zip(LOWER, UPPER, strict=True))
    apart = [fmin_l_bfgs_b(rosen, start, rosen_der, bounds=box, maxiter=maxiter) for start in STARTS]
    assert np.array_equal(found, [x for x, _, _ in apart])
    assert np.array_equal(starts, STARTS)
    assert sum(asked) == sum(told["funcalls"] for _, _, told in apart)
    assert sorted(asked, reverse=True) == asked


def test_rows_say_which_start_it_is():
    """Each start has a function of its own, one of them constant."""
    goals = np.linspace(0.6, 0.7, len(STARTS))[:, None] * np.ones(3)
    factors = np.arange(len(STARTS), dtype=float)[:, None]

    def together(X, rows):
        apart = X - goals[rows]
        return (factors[rows] * apart**2).sum(-1), 2 * factors[rows] * apart

    found = minimized(together, STARTS, LOWER, UPPER, 100)
    assert np.array_equal(found[0], STARTS[0])
    assert found[1:] == pytest.approx(goals[1:], abs=1e-5)


def test_no_starts_and_no_values_end_the_search():
    assert minimized(lambda X, rows: (X, X), STARTS[:0], LOWER, UPPER, 5).shape == (0, 3)

    def together(X, rows):
        return np.full(len(X), np.nan), np.ones_like(X)

    assert minimized(together, STARTS, LOWER, UPPER, 50).shape == STARTS.shape
