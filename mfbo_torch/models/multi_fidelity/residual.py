r"""The residual of one fidelity against the one below, averaged over a grid of hyper-parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from mfbo_torch.models.multi_fidelity.level import slope_variance
from mfbo_torch.ops.kernels import describe
from mfbo_torch.ops.kriging import Kriging, KrigingData, evidences, krige

OUTPUTSCALES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Variances of the residual, in the fidelity's unit squared."""
LENGTHSCALES = (0.25, 0.5, 1.0, 2.0)
"""Multiples of the lengthscales of the lowest fidelity."""
NOISES = (1e-8, 1e-3, 3e-2, 3e-1)
"""Variances of the noise where they are not known, in the same unit."""
MIN_WEIGHT = 1e-3
"""Smallest weight of a hypothesis that is kept, as a share of the largest weight."""
WEIGHED = 256
"""Most observations by which hypotheses are weighed, evenly spaced in their order."""


@dataclass(frozen=True, eq=False)
class Residual:
    """Hypotheses, each a universal kriging with the basis ``(1, mean below)``, with ``H`` weights that sum to 1; the
    mean noise variance; and the log marginal likelihood, averaged over all hypotheses with their prior."""

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
        """The expected square of the slope."""
        return self.weights @ (self.kriging.coefficients[:, 1].square() + self.kriging.covariance[:, 1, 1])

    @property
    def outputscale(self) -> Tensor:
        """The expected variance of the residual."""
        return self.weights @ self.kriging.factor.outputscale


def averaged(
    kernel: Kernel,
    X: Tensor,
    Y: Tensor,
    below: Tensor,
    usual_noise: Tensor,
    links: int,
    known_noise: Tensor | None = None,
    further: Tensor | None = None,
) -> Residual:
    r"""Weigh the hypotheses of a grid: output scale, lengthscales in multiples of the lowest fidelity's, noise.

    The prior of ``c`` is :math:`N(0, 1)` and of ``ρ`` in a chain of ``links`` :math:`N(1, 1 / \mathrm{links})`
    (:func:`~mfbo_torch.models.multi_fidelity.level.slope_variance`), of the output scale
    :math:`\log N(\log 0.1, 1.5^2)`, of the multiple of the lengthscales :math:`\log N(0, 1)`; noise above that of the
    lowest fidelity has the prior :math:`\log N(\cdot, 3^2)`. A weight is prior times evidence, of at most
    :data:`WEIGHED` observations; the posteriors are given all of them.

    ``kernel`` and ``usual_noise`` are those of the lowest fidelity. In the fidelity's unit, ``Y`` are ``n``
    observations at ``n x d`` designs, ``below`` the means of the fidelity below, ``known_noise`` the noise variances,
    where known, and ``further`` ``n x n`` covariances beside those of the residual.
    """
    kind, lengthscale, _ = describe(kernel, X.shape[-1])
    root = math.sqrt(X.shape[-1])
    usual = usual_noise.detach().clamp_min(min(NOISES)).reshape(())
    noises = Y.new_tensor(NOISES) if known_noise is None else Y.new_zeros(1)
    grid = torch.cartesian_prod(Y.new_tensor(OUTPUTSCALES), Y.new_tensor(LENGTHSCALES), noises)
    outputscale, multiple, noise = grid.unbind(-1)
    lengthscales = multiple.unsqueeze(-1) * lengthscale.detach().clamp(0.05 * root, root)
    variances = noise.unsqueeze(-1) + (torch.zeros_like(Y) if known_noise is None else known_noise.clamp_min(1e-8))
    prior = Y.new_tensor([0.0, 1.0]), Y.new_tensor([1.0, slope_variance(links)])
    data = KrigingData(X, Y, basis(below), *prior)
    some = torch.linspace(0, len(Y) - 1, min(len(Y), WEIGHED), device=Y.device).round().long()
    weighed = KrigingData(X[some], Y[some], data.basis[some], *prior)
    beside = None if further is None else further[some][:, some]
    evidence = torch.empty_like(outputscale)
    for value in LENGTHSCALES:  # correlations are the same for all that share one
        own, noisy = multiple == value, variances[:, some]
        evidence[own] = evidences(kind, weighed, lengthscales[own][0], outputscale[own], noisy[own], beside)
    beforehand = -0.5 * ((outputscale.log() - math.log(0.1)) / 1.5).square() - 0.5 * multiple.log().square()
    if known_noise is None:
        beforehand = beforehand - 0.5 * ((noise.log() - usual.log()).clamp_min(0.0) / 3.0).square()
    beforehand = beforehand.log_softmax(-1)
    total = (evidence + beforehand).logsumexp(-1)
    weights = (evidence + beforehand - total).exp()
    kept = weights > MIN_WEIGHT * weights.max()
    weights, kept_noise = weights[kept] / weights[kept].sum(), variances[kept]
    kriging = krige(kind, data, lengthscales[kept], outputscale[kept], kept_noise, further)
    return Residual(weights, kriging, weights @ kept_noise.mean(-1), total)


def basis(below: Tensor) -> Tensor:
    """``... x q x 2``, ``(1, mean below)``."""
    return torch.stack([torch.ones_like(below), below], -1)
