r"""A Gaussian process of learning curves: the value of a training at any design and step.

References:

.. [Swersky2014freezethaw]
    K. Swersky, J. Snoek, R. P. Adams. Freeze-Thaw Bayesian Optimization. arXiv:1406.3896, 2014.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from linear_operator.utils.errors import NanError, NotPSDError
from scipy.optimize import minimize
from torch import Tensor

from mfbo_torch.ops.kernels import distances

ITERATIONS = 40
"""Most iterations of a fit."""
JITTER = 1e-6
"""Variance that is added to each observation's."""
SAME = 1e-12
"""Squared distance, in lengthscales, below which two designs are one training."""
FARTHEST = 4.0
"""Most deviations of its prior that a logarithm of a hyper-parameter is from its mean."""


class Parameters(NamedTuple):
    """Hyper-parameters: lengthscales of the design, one a column, and of the step; variances of the level, the change,
    each training's own change and the noise; the mean."""

    design: Tensor
    along: Tensor
    level: Tensor
    change: Tensor
    own: Tensor
    noise: Tensor
    mean: Tensor


class LearningCurveGP:
    r"""An exact GP of points on learning curves whose differences grow with the steps, cf. [Swersky2014freezethaw]_.

    .. math::

        k((x, t), (x', t')) = a \, k_x(x, x') + \big(b \, k_x(x, x') + c \, [x = x']\big) \, t \, t' \, k_t(t, t')

    with a Matérn kernel of smoothness 5/2 of the design and an exponential one of the step: at the first step, where
    :math:`t = 0`, curves differ by a level of variance ``a``; from there they move apart, up to a variance of
    ``a + b + c`` at the last one, of which ``c`` is a training's own. Curves may cross, and turn at any step: how steep
    one is says little of how it goes on. What is known of the steps of one says something of all near it. The
    logarithms of the hyper-parameters have normal priors; that of the lengthscales of the design scales with the
    dimension.

    Args:
        X: ``n x (d + 1)`` designs in the unit cube, and :math:`t = \log e / \log E` for the step ``e`` of at most
            ``E``.
        Y: ``n x 1`` values, standardized.
        Yvar: ``n x 1`` variances of their noise; inferred, one for all, where not given.
        groups: Which columns of the design share a lengthscale; ``None`` where none do.
        state: The logarithms of the hyper-parameters, and the mean, as :attr:`state` of another one has them; the
            priors' means where not given.
    """

    def __init__(
        self,
        X: Tensor,
        Y: Tensor,
        Yvar: Tensor | None = None,
        groups: Sequence[int] | None = None,
        state: Tensor | None = None,
    ) -> None:
        self.X, self.y, self.Yvar = X, Y.squeeze(-1), None if Yvar is None else Yvar.squeeze(-1)
        dim = X.shape[-1] - 1
        self.groups = torch.arange(dim) if groups is None else torch.as_tensor(groups, dtype=torch.long)
        self.designs, self.of = torch.unique(X[:, :-1], dim=0, return_inverse=True)
        self.steps, self.at = torch.unique(X[:, -1], return_inverse=True)
        scales = int(self.groups.max()) + 1
        means = [math.sqrt(2) + 0.5 * math.log(scales)] * scales + [0.0, -0.5, -0.5, -5.0, -10.0, 0.0]
        self.prior_mean = torch.tensor(means, dtype=torch.double)
        self.prior_deviation = torch.tensor([math.sqrt(3)] * scales + [1.0, 1.0, 1.0, 2.0, 3.0, math.inf]).double()
        self.state = self._start() if state is None else state
        self._factor: tuple[Tensor, Tensor] | None = None

    def _start(self) -> Tensor:
        """Where a fit begins: shorter lengthscales, and more noise, than the priors' means."""
        start = self.prior_mean.clone()
        start[:-6] -= 1.0
        start[-2] += 3.0
        return start

    @property
    def parameters(self) -> Parameters:
        """The hyper-parameters."""
        return self._parameters(self.state)

    def _parameters(self, state: Tensor) -> Parameters:
        along, level, change, own, noise = state[-6:-1].exp()
        return Parameters(state[:-6].exp()[self.groups], along, level, change, own, noise, state[-1])

    def fit(self) -> LearningCurveGP:
        """The same with hyper-parameters whose logarithms have the largest posterior density."""
        width = FARTHEST * self.prior_deviation.nan_to_num(posinf=1.0)
        bounds = list(zip((self.prior_mean - width).tolist(), (self.prior_mean + width).tolist(), strict=True))

        def loss(state: np.ndarray) -> tuple[float, np.ndarray]:
            try:
                value, slope = self.loss(torch.from_numpy(state))
            except (NanError, NotPSDError):
                return 1e10, np.zeros_like(state)
            return value, slope.numpy()

        found = minimize(
            *(loss, self.state.numpy()), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": ITERATIONS}
        )
        self.state, self._factor = torch.from_numpy(found.x), None
        return self

    def loss(self, state: Tensor) -> tuple[float, Tensor]:
        """Minus the log posterior density of hyper-parameters, up to a constant, and its gradient."""
        p, n = self._parameters(state), len(self.y)
        U, of, at = self.designs / p.design, self.of, self.at
        K, slope = matern(distances(U, U).square())
        there, same = K[of[:, None], of], (of[:, None] == of).to(K)
        along, slope_along = exponential((self.steps[:, None] - self.steps).abs() / p.along)
        growth = torch.outer(self.steps, self.steps)
        changes = (growth * along)[at[:, None], at]
        spread = p.change * there + p.own * same
        noise = p.noise.expand(n) if self.Yvar is None else self.Yvar
        root = psd_safe_cholesky(p.level * there + spread * changes + torch.diag(noise + JITTER))
        residuals = self.y - p.mean
        weights = torch.cholesky_solve(residuals.unsqueeze(-1), root).squeeze(-1)
        z = (state - self.prior_mean) / self.prior_deviation
        value = 0.5 * residuals @ weights + root.diagonal().log().sum() + 0.5 * z @ z
        G = 0.5 * (torch.cholesky_inverse(root) - torch.outer(weights, weights))
        by_design = _sums(G * (p.level + p.change * changes), of, len(U)) * slope
        by_step = _sums(G * spread, at, len(self.steps)) * growth * slope_along
        lengths = 2 * ((by_design.sum(1)[:, None] * U * U).sum(0) - ((by_design @ U) * U).sum(0))
        H = G * there
        found = torch.zeros_like(state)
        found[:-6].index_add_(0, self.groups, lengths)
        found[-6] = by_step.sum()
        found[-5], found[-4] = p.level * H.sum(), p.change * (H * changes).sum()
        found[-3] = p.own * (G * same * changes).sum()
        found[-2] = p.noise * G.diagonal().sum() if self.Yvar is None else 0.0
        found[-1] = -weights.sum()
        return value.item(), found + z / self.prior_deviation

    def _covariance(self, X: Tensor) -> Tensor:
        """Of the observations with points."""
        p, t = self.parameters, X[:, -1]
        squared = distances(self.designs / p.design, X[:, :-1] / p.design).square()
        near, _ = matern(squared)
        changes = self.steps[:, None] * t * exponential((self.steps[:, None] - t).abs() / p.along)[0]
        spread = torch.where(squared < SAME, p.change * near + p.own, p.change * near)
        return spread[self.of].mul_(changes[self.at]).add_((p.level * near)[self.of])

    def _solved(self) -> tuple[Tensor, Tensor]:
        """The factor of the covariance of the observations, and their weights."""
        p = self.parameters
        noise = p.noise.expand_as(self.y) if self.Yvar is None else self.Yvar
        root = psd_safe_cholesky(self._covariance(self.X) + torch.diag(noise + JITTER))
        return root, torch.cholesky_solve((self.y - p.mean).unsqueeze(-1), root).squeeze(-1)

    def predict(self, at: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the noise-free value at ``n x (d + 1)`` points, ``n`` each."""
        self._factor = self._factor or self._solved()
        p, (root, weights) = self.parameters, self._factor
        cross = self._covariance(at)
        explained = torch.linalg.solve_triangular(root, cross, upper=False).square().sum(0)
        prior = p.level + (p.change + p.own) * at[:, -1].square()
        return p.mean + weights @ cross, (prior - explained).clamp_min(1e-12)


def matern(squared: Tensor) -> tuple[Tensor, Tensor]:
    r"""The Matérn kernel of smoothness 5/2 at squared distances over lengthscales, and :math:`w` in its derivative
    :math:`w \, d_j^2 / l_j^2` by :math:`\log l_j`."""
    r = (5.0 * squared).sqrt()
    decay = (-r).exp()
    return (1.0 + r + r.square() / 3.0) * decay, 5.0 / 3.0 * (1.0 + r) * decay


def exponential(distance: Tensor) -> tuple[Tensor, Tensor]:
    r"""The kernel :math:`\exp(-r)` at distances over the lengthscale :math:`r`, and its derivative by the logarithm of
    the lengthscale."""
    decay = (-distance).exp()
    return decay, distance * decay


def _sums(A: Tensor, of: Tensor, size: int) -> Tensor:
    """Sums of the entries of an ``n x n`` matrix over equal pairs of indices, ``size x size``."""
    rows = A.new_zeros(size, len(A)).index_add_(0, of, A)
    return A.new_zeros(size, size).index_add_(1, of, rows)
