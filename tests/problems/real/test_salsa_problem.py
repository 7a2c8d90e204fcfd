"""SALSA against dense ridge regression written out."""

import numpy as np
import pytest
from refusals import refused

from mfbo_torch.problems import SALSA
from mfbo_torch.problems.real.data import load
from mfbo_torch.problems.real.salsa import additive_kernel, ridge_weights

POINT = (0.5, 3.0, 0.7, 2.0, 10.0, 0.3)


def ridge_cv(X, y, penalty, scale, *widths):
    def kernel(A, B):
        return scale * sum(np.exp(-((A[:, None, k] - B[None, :, k]) ** 2) / (2 * h**2)) for k, h in enumerate(widths))

    total = 0.0
    for held in range(5):
        test = np.arange(len(y)) % 5 == held
        K = kernel(X[~test], X[~test]) + penalty * np.eye((~test).sum())
        total += ((y[test] - kernel(X[test], X[~test]) @ np.linalg.solve(K, y[~test])) ** 2).sum()
    return -total / len(y)


def test_value_is_the_cross_validated_error(data_dir):
    table = load("power_plant")
    table = table[np.random.default_rng(0).permutation(len(table))[:150]]
    table = (table - table.mean(0)) / table.std(0)
    problem = SALSA(sizes=(52, 100, 150))
    for fidelity, n in enumerate(problem.sizes):
        expected = ridge_cv(table[:n, :4], table[:n, 4], *POINT)
        assert problem.evaluate(POINT, fidelity) == pytest.approx(expected, rel=1e-9)


def test_extreme_corners_stay_finite(data_dir):
    """The constant zero scores -1."""
    assert SALSA(sizes=(50, 100)).evaluate((1e4, 1e-3, 1, 1, 1, 1), 1) == pytest.approx(-1, abs=1e-2)
    for bandwidth in (1e-3, 1.0, 1e4):
        assert -np.inf < SALSA(sizes=(50, 200)).evaluate((1e-3, 1e4, *[bandwidth] * 4), 1) < 0


def test_learns_the_power_plant(real_data_dir, monkeypatch):
    monkeypatch.setenv("MFBO_DATA_DIR", real_data_dir)
    assert -0.15 < SALSA(sizes=(100, 400)).evaluate((0.1, 1.0, 1.0, 1.0, 1.0, 1.0), 1) < -0.04


def test_singular_matrices_get_the_least_jitter_that_works():
    K, y = np.ones((3, 3)), np.ones(3)
    weights = ridge_weights(K.copy(), 0.0, y)
    assert np.isfinite(weights).all()
    assert K @ weights == pytest.approx(y)
    assert ridge_weights(2 * np.eye(3), 2.0, y) == pytest.approx(y / 4)


def test_additive_kernel_is_a_sum_over_columns():
    X = np.array([[0.0, 0.0], [1.0, 2.0]])
    expected = 3 * (np.exp(-1 / (2 * 0.5**2)) + np.exp(-4 / (2 * 4.0**2)))
    assert additive_kernel(X, 3.0, [0.5, 4.0]) == pytest.approx(np.array([[6, expected], [expected, 6]]))


def test_space_is_the_papers(data_dir):
    problem = SALSA()
    assert (problem.sizes, problem.space.dim) == ((2000, 4000, 8000), 6)
    assert problem.space.costs == pytest.approx((1, 2 ** (7 / 3), 4 ** (7 / 3)))
    assert all((p.lower, p.upper, p.log) == (1e-3, 1e4, True) for p in problem.space.parameters)
    refused("increasing whole numbers from 10 to 9568", SALSA, sizes=(5,))
