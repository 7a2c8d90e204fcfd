"""Tuning an additive-kernel ridge regression, on all the data or on a part of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.real.data import checked_sizes, load
from mfbo_torch.space import Parameter, Space
from mfbo_torch.utils.validation import whole

_FOLDS = 5


class SALSA(Problem):
    r"""Cross-validated error of first-order additive kernel regression, its negative maximised.

    With features and target standardised over the largest subset, one fit on ``n`` points is

    .. math::
        K_{ij} = s \sum_{k=1}^4 e^{-(x_{ik} - x_{jk})^2 / (2 h_k^2)}, \qquad
        \hat f(x) = k(x)^\top (K + \lambda I)^{-1} y,

    and the value minus the mean squared error on the held-out fifths, so minus 1 is what the constant 0 scores. The six
    parameters are the penalty ``lambda``, the scale ``s`` and the bandwidths ``h_1 .. h_4``, each in ``(1e-3, 1e4)`` on
    a log scale; the fit depends on ``lambda`` and ``s`` through their ratio only. Data: the power plant, four inputs. A
    fidelity is a number of points: nested subsets in one random order, five fixed folds. Deterministic. Nominal costs
    are ``(n / n_0)^(7/3)`` for ``n`` points, ``n_0`` the fewest: about what the seconds do, between the square of the
    kernel and the cube of the factor.

    The model is that of K. Kandasamy, Y. Yu, Additive approximations in high dimensional nonparametric regression via
    the SALSA, ICML 2016, the experiment [Kandasamy2016mfgpucb].

    Args:
        sizes: Increasing numbers of points, from 10 on, the target last.
        seed: Seed of the order of the points.
        measured: Whether a query costs the seconds it takes.
    """

    def __init__(self, sizes: Sequence[int] = (2000, 4000, 8000), seed: int = 0, measured: bool = False) -> None:
        order = np.random.default_rng(whole("seed", seed, 0))
        table = load("power_plant")
        self.sizes = checked_sizes(sizes, 2 * _FOLDS, len(table))
        table = table[order.permutation(len(table))[: self.sizes[-1]]]
        table = (table - table.mean(0)) / table.std(0)
        self.features, self.targets = table[:, :-1], table[:, -1]
        names = ("penalty", "scale", *(f"bandwidth{i}" for i in range(1, 5)))
        parameters = tuple(Parameter(name, 1e-3, 1e4, log=True) for name in names)
        self.space = Space(parameters, tuple((n / self.sizes[0]) ** (7 / 3) for n in self.sizes), measured)

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        """Minus the mean squared validation error, in variances of the target."""
        (penalty, scale, *bandwidths), level = self.checked(x, fidelity)
        n = self.sizes[level]
        y = self.targets[:n]
        K = additive_kernel(self.features[:n], scale, bandwidths)
        fold = np.arange(n) % _FOLDS
        errors = np.empty(n)
        for held in range(_FOLDS):
            train, test = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
            weights = ridge_weights(K[np.ix_(train, train)], penalty, y[train])
            errors[test] = y[test] - K[np.ix_(test, train)] @ weights
        return -float(np.mean(errors**2))


def additive_kernel(X: np.ndarray, scale: float, bandwidths: Sequence[float]) -> np.ndarray:
    """``n x n`` sum of one Gaussian kernel per column of the ``n x d`` points."""
    K = np.zeros((len(X), len(X)))
    for column, bandwidth in zip(X.T, bandwidths, strict=True):
        term = np.subtract.outer(column, column)
        term *= np.sqrt(0.5) / bandwidth
        np.square(term, out=term)
        np.negative(term, out=term)
        K += np.exp(term, out=term)
    K *= scale
    return K


def ridge_weights(K: np.ndarray, penalty: float, y: np.ndarray) -> np.ndarray:
    """``(K + penalty I)^{-1} y``. The first try is exact; while the matrix does not factorise, ten times more is added
    to the diagonal, from rounding error times its mean. The diagonal of ``K`` is overwritten."""
    diagonal = np.einsum("ii->i", K)
    rounding = np.finfo(K.dtype).eps * len(K) * float(diagonal.mean())
    exact = diagonal + penalty
    jitter = 0.0
    while True:
        diagonal[:] = exact + jitter
        try:
            # K is symmetric, so its transpose is the same matrix in the order LAPACK reads.
            return cho_solve(cho_factor(K.T), y)
        except LinAlgError:
            jitter = max(10 * jitter, rounding)
