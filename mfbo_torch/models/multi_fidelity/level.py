r"""The hyper-parameters of one fidelity and their fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from botorch.models.gpytorch import GPyTorchModel
from gpytorch.constraints import GreaterThan
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import Mean
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.models import ExactGP
from gpytorch.priors import LogNormalPrior, NormalPrior
from torch import Tensor

from mfbo_torch.models.gp.closed_form import ClosedForm
from mfbo_torch.models.gp.likelihood import maximize_twice
from mfbo_torch.models.gp.means import give_prior
from mfbo_torch.models.gp.shared_lengthscales import ard_kernel
from mfbo_torch.ops.cache import Cache, factorize, grow
from mfbo_torch.ops.kernels import describe

NOISE_FLOOR = 1e-8
"""Smallest noise variance, in the fidelity's unit squared."""


def little_noise() -> GaussianLikelihood:
    """The likelihood of standardised values with a prior on small noise variances. BoTorch's default is at least 1e-4,
    a hundredth of the values' deviation: a function without noise would be queried again at its best design, and be
    known to no more digits than that."""
    constraint = GreaterThan(NOISE_FLOOR, transform=None, initial_value=1e-4)
    return GaussianLikelihood(noise_prior=LogNormalPrior(-10.0, 3.0), noise_constraint=constraint)


def slope_variance(links: int) -> float:
    """The prior variance of each slope of a chain, whose mean is 1. However many ``links`` there are, that of their
    product is between 1 and ``e - 1``, and it is positive in five of six chains at least."""
    return 1 / links


class LinkedMean(Mean):
    r"""The mean ``c + ρ z``, where ``z``, the last column, is the mean of the fidelity below; ``c`` alone without
    ``links``. The prior of ``ρ`` is normal about 1 (:func:`slope_variance`)."""

    def __init__(self, links: int) -> None:
        super().__init__()
        self.register_parameter("constant", torch.nn.Parameter(torch.zeros(())))
        self.register_parameter("rho", torch.nn.Parameter(torch.tensor(1.0 if links else 0.0), requires_grad=links > 0))
        give_prior(self, "constant", NormalPrior(0.0, 1.0))
        if links:
            give_prior(self, "rho", NormalPrior(1.0, math.sqrt(slope_variance(links))))

    def forward(self, x: Tensor) -> Tensor:
        return self.constant + self.rho * x[..., -1]


class _ResidualGP(ExactGP, GPyTorchModel):
    """The process that the marginal likelihood of one fidelity needs."""

    def __init__(self, X: Tensor, Y: Tensor, likelihood: GaussianLikelihood, mean: Mean, kernel: Kernel) -> None:
        super().__init__(X, Y, likelihood)
        self.mean_module, self.covar_module = mean, kernel

    def forward(self, x: Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(x), self.covar_module(x[..., :-1]))


class Level(torch.nn.Module):
    """Kernel, mean and noise of one fidelity's (residual) process over ``dim`` inputs, in standardised units; the mean
    follows the fidelity below if the chain has ``links``. By default the kernel is RBF with a lengthscale prior that
    scales with the dimension and shared lengthscales as in
    :func:`~mfbo_torch.models.gp.shared_lengthscales.ard_kernel`; for a residual it has an output scale with a prior on
    small ones."""

    def __init__(
        self,
        dim: int,
        links: int,
        infer_noise: bool,
        kernel: Kernel | None = None,
        groups: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        if kernel is None:
            kernel = ard_kernel(dim, groups)
            if links:
                above = GreaterThan(1e-8, transform=torch.exp, inv_transform=torch.log, initial_value=0.1)
                prior = LogNormalPrior(math.log(0.1), 1.5)
                kernel = ScaleKernel(kernel, outputscale_prior=prior, outputscale_constraint=above)
        self.covar_module = kernel
        self.mean_module = LinkedMean(links)
        self.likelihood = little_noise()
        self.infer_noise = infer_noise

    @property
    def constant(self) -> Tensor:
        return self.mean_module.constant

    @property
    def rho(self) -> Tensor:
        """The weight of the fidelity below in this one, in standardised units."""
        return self.mean_module.rho

    def fit(self, U: Tensor, Y: Tensor, noise: Tensor, below: Tensor, **kwargs: Any) -> None:
        """Maximise the marginal likelihood, priors included, by ``fit_gpytorch_mll``, which gets ``kwargs``: at
        ``n x d`` designs, with ``n`` standardised observations, noise variances, used where known, and means of the
        fidelity below."""
        likelihood = self.likelihood if self.infer_noise else FixedNoiseGaussianLikelihood(noise)
        X = torch.cat([U, below.unsqueeze(-1)], dim=-1)
        model = _ResidualGP(X, Y, likelihood, self.mean_module, self.covar_module).to(X)
        mll = ExactMarginalLogLikelihood(likelihood, model).to(X)
        mean = [(self.constant, torch.ones_like(Y)), (self.rho, below)]
        closure = ClosedForm(mll, U, Y, self.covar_module, mean, None if self.infer_noise else noise)
        maximize_twice(mll, closure, **kwargs)

    def factor(
        self, U: Tensor, Y: Tensor, noise: Tensor, below: Tensor, mask: Tensor, former: Cache | None = None
    ) -> Cache:
        """The factor of the residuals, without a gradient in the hyper-parameters; arguments as for :meth:`fit`. The
        ``mask``, ``... x n``, is zero where there is padding; ``former`` is the factor of the first observations, which
        grows."""
        constant = self.constant.detach()
        residuals = Y - constant - self.rho.detach() * below
        if former is not None and former.num_points:
            return grow(former, U[former.num_points :], residuals, noise[former.num_points :])
        kind, lengthscale, outputscale = describe(self.covar_module, U.shape[-1])
        return factorize(kind, U, residuals, noise, lengthscale.detach(), outputscale.detach(), constant, mask)
