r"""What one fidelity has beyond the one below, over several hypotheses of what it is like."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from mfbo_torch.ops.kernels import describe
from mfbo_torch.ops.kriging import Kriging, krige, mean_covariance, mean_variance

OUTPUTSCALES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Variances of the residual, in the fidelity's unit squared."""
LENGTHSCALES = (0.25, 0.5, 1.0, 2.0)
"""Multiples of the lengthscales of the lowest fidelity."""
NOISES = (1e-6, 1e-3, 3e-2, 3e-1)
"""Variances of the noise where they are not known, in the same unit."""
KEPT = 1e-3
"""Hypotheses with less than this share of the largest weight are dropped."""


@dataclass(frozen=True, eq=False)
class Residual:
    """Weighed hypotheses, each a universal kriging with the basis ``(1, mean below)``.

    Args:
        weights: ``H`` numbers that sum to 1.
        kriging: ``H`` processes.
        noise: The mean noise variance.
        evidence: The log marginal likelihood, averaged over all hypotheses with their prior.
    """

    weights: Tensor
    kriging: Kriging
    noise: Tensor
    evidence: Tensor

    @property
    def rho(self) -> Tensor:
        """The expected slope."""
        return self.weights @ self.kriging.coefficients[:, 1]

    @property
    def squared(self) -> Tensor:
        """The expected square of the slope under each hypothesis."""
        return self.kriging.coefficients[:, 1].square() + self.kriging.covariance[:, 1, 1]

    @property
    def outputscale(self) -> Tensor:
        """The expected variance of the residual."""
        return self.weights @ self.kriging.factor.outputscale

    def mean_variance(self, X: Tensor, below: Tensor, variance_below: Tensor) -> tuple[Tensor, Tensor]:
        """Moments of the mixture at ``m x d`` points, ``m`` each.

        Args:
            X: Points.
            below: ``m`` means of the fidelity below.
            variance_below: ``m`` variances of it.
        """
        means, variances = mean_variance(self.kriging, X, _basis(below))
        weights = self.weights.unsqueeze(-1)
        mean = (weights * means).sum(-2)
        spread = variances + self.squared.unsqueeze(-1) * variance_below + (means - mean).square()
        return mean, (weights * spread).sum(-2)

    def mean_covariance(self, X: Tensor, below: Tensor, covariance_below: Tensor) -> tuple[Tensor, Tensor]:
        """Moments of the mixture at ``... x q x d`` points: ``... x q`` and ``... x q x q``."""
        means, covariances = mean_covariance(self.kriging, X, _basis(below))
        weights = self.weights.unsqueeze(-1)
        mean = (weights * means).sum(-2)
        apart = means - mean.unsqueeze(-2)
        covariance = (weights.unsqueeze(-1) * covariances).sum(-3) + (weights * apart).mT @ apart
        return mean, covariance + (self.weights @ self.squared) * covariance_below


def averaged(
    kernel: Kernel, X: Tensor, Y: Tensor, below: Tensor, usual_noise: Tensor, known_noise: Tensor | None = None
) -> Residual:
    r"""Weigh the hypotheses of a grid: output scale, lengthscales in multiples of the lowest fidelity's, noise.

    The prior of ``c`` is :math:`N(0, 1)` and of ``ρ`` :math:`N(1, 1)`, of the output scale
    :math:`\log N(\log 0.1, 1.5^2)`, of the multiple of the lengthscales :math:`\log N(0, 1)`; noise above that of the
    lowest fidelity loses :math:`\log N(\cdot, 3^2)`. A weight is prior times evidence.

    Args:
        kernel: That of the lowest fidelity, fitted.
        X: ``n x d`` designs.
        Y: ``n`` observations in the fidelity's unit.
        below: ``n`` means of the fidelity below in its unit.
        usual_noise: The noise variance of the lowest fidelity.
        known_noise: ``n`` noise variances, where they are known.
    """
    kind, lengthscale, _ = describe(kernel, X.shape[-1])
    root = math.sqrt(X.shape[-1])
    usual = usual_noise.detach().clamp_min(min(NOISES)).reshape(())
    noises = Y.new_tensor(NOISES) if known_noise is None else Y.new_zeros(1)
    grid = torch.cartesian_prod(Y.new_tensor(OUTPUTSCALES), Y.new_tensor(LENGTHSCALES), noises)
    outputscale, multiple, noise = grid.unbind(-1)
    lengthscales = multiple.unsqueeze(-1) * lengthscale.detach().clamp(0.05 * root, root)
    variances = noise.unsqueeze(-1) + (torch.zeros_like(Y) if known_noise is None else known_noise.clamp_min(1e-8))
    prior = Y.new_tensor([0.0, 1.0]), Y.new_tensor([1.0, 1.0])
    kriging = krige(kind, X, Y, _basis(below), prior, lengthscales, outputscale, variances)
    beforehand = -0.5 * ((outputscale.log() - math.log(0.1)) / 1.5).square() - 0.5 * multiple.log().square()
    if known_noise is None:
        beforehand = beforehand - 0.5 * ((noise.log() - usual.log()).clamp_min(0.0) / 3.0).square()
    beforehand = beforehand.log_softmax(-1)
    evidence = (kriging.evidence + beforehand).logsumexp(-1)
    weights = (kriging.evidence + beforehand - evidence).exp()
    kept = weights > KEPT * weights.max()
    weights = weights[kept] / weights[kept].sum()
    return Residual(weights, kriging[kept], weights @ variances[kept].mean(-1), evidence)


def _basis(below: Tensor) -> Tensor:
    return torch.stack([torch.ones_like(below), below], -1)
