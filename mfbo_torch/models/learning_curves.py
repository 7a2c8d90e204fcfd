r"""A Gaussian process of learning curves: the value of a training at any design and step.

References:

.. [Rakotoarison2024ifbo]
    H. Rakotoarison, S. Adriaensen, N. Mallik, S. Garibov, E. Bergman, F. Hutter. In-Context Freeze-Thaw Bayesian
    Optimization for Hyperparameter Optimization. ICML 2024.
.. [Swersky2014freezethaw]
    K. Swersky, J. Snoek, R. P. Adams. Freeze-Thaw Bayesian Optimization. arXiv:1406.3896, 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.optim.closures import ForwardBackwardClosure
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import LogNormalPrior
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from mfbo_torch.models.gp.likelihood import log_prior, maximize
from mfbo_torch.models.gp.shared_lengthscales import ard_kernel
from mfbo_torch.models.multi_fidelity.level import little_noise

ITERATIONS = 40
"""Most iterations of a fit."""


class LearningCurveKernel(Kernel):
    r"""Covariance of learning curves that start and change with the design, cf. [Swersky2014freezethaw]_.

    .. math:: k((x, t), (x', t')) = k_1(x, x') + k_2(x, x') \, k_3(t, t')

    with Matérn kernels of smoothness 5/2: one level for a whole curve, and a change along it. Curves may cross, and
    what is known of the steps of one says something of all near it. The last input column is ``t``. Columns share
    lengthscales by ``groups`` as in :func:`~mfbo_torch.models.gp.shared_lengthscales.ard_kernel`.
    """

    def __init__(self, dim: int, groups: Sequence[int] | None = None) -> None:
        super().__init__()
        self.level, self.change = (
            ScaleKernel(_design_kernel(dim, groups), outputscale_prior=LogNormalPrior(-0.5, 1.0)) for _ in range(2)
        )
        self.along = MaternKernel(2.5, lengthscale_prior=LogNormalPrior(0.0, 1.0))

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """The covariances of ``... x n x (d + 1)`` and ``... x m x (d + 1)`` points, or their diagonal."""
        designs, steps = (x1[..., :-1], x2[..., :-1]), (x1[..., -1:], x2[..., -1:])
        along = self.along.forward(*steps, diag=diag, **params)
        change = self.change.forward(*designs, diag=diag, **params)
        return self.level.forward(*designs, diag=diag, **params) + change * along


class LearningCurveGP(SingleTaskGP):
    r"""An exact GP of points on learning curves with :class:`LearningCurveKernel`.

    Args:
        X: ``n x (d + 1)`` designs in the unit cube, and :math:`t = \log e / \log E` for the step ``e`` of at most
            ``E``.
        Y: ``n x 1`` values, standardized.
        Yvar: ``n x 1`` variances of their noise; inferred, one for all, where not given.
        groups: Which columns of the design share a lengthscale; ``None`` where none do.
    """

    def __init__(self, X: Tensor, Y: Tensor, Yvar: Tensor | None = None, groups: Sequence[int] | None = None) -> None:
        kernel = LearningCurveKernel(X.shape[-1] - 1, groups)
        noise = little_noise() if Yvar is None else None
        super().__init__(X, Y, Yvar, likelihood=noise, covar_module=kernel, outcome_transform=None)
        self._factor: tuple[Tensor, Tensor] | None = None

    def fit(self) -> LearningCurveGP:
        """The same with hyper-parameters of the largest posterior density; their priors scale with the dimension."""
        mll = ExactMarginalLogLikelihood(self.likelihood, self)
        priors = [(prior, module, value) for _, module, prior, value, _ in self.named_priors()]
        self._factor = None

        def loss() -> Tensor:
            root, weights = self._solved()
            residuals = self.train_targets - self.mean_module.constant
            total = 0.5 * residuals @ weights + root.diagonal().log().sum()
            return (total - sum(log_prior(prior, value(module)).sum() for prior, module, value in priors)) / len(root)

        closure = ForwardBackwardClosure(loss, {n: p for n, p in mll.named_parameters() if p.requires_grad})
        maximize(mll, closure=closure, optimizer_kwargs={"options": {"maxiter": ITERATIONS}})
        self._factor = None
        return self.eval()

    def _solved(self) -> tuple[Tensor, Tensor]:
        """The factor of the covariance of the observations, and their weights."""
        X = self.train_inputs[0]
        covariance = self.covar_module.forward(X, X) + self.likelihood.noise * torch.eye(len(X)).to(X)
        root = psd_safe_cholesky(covariance)
        residuals = (self.train_targets - self.mean_module.constant).unsqueeze(-1)
        return root, torch.cholesky_solve(residuals, root).squeeze(-1)

    @torch.no_grad()
    def predict(self, at: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the noise-free value at ``n x (d + 1)`` points, ``n`` each."""
        self._factor = self._factor or self._solved()
        root, weights = self._factor
        cross = self.covar_module.forward(self.train_inputs[0], at)
        explained = torch.linalg.solve_triangular(root, cross, upper=False).square().sum(0)
        variance = self.covar_module.forward(at, at, diag=True) - explained
        return self.mean_module.constant + weights @ cross, variance.clamp_min(1e-12)


def _design_kernel(dim: int, groups: Sequence[int] | None) -> Kernel:
    if groups is None:
        return get_covar_module_with_dim_scaled_prior(dim, use_rbf_kernel=False)
    return ard_kernel(dim, groups)
