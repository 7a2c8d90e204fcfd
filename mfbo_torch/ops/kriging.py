r"""Universal kriging: Gaussian processes whose mean has coefficients that are integrated out.

.. math:: y = h(x)^\top b + \delta(x) + \varepsilon, \qquad b \sim N(b_0, V), \quad \delta \sim GP(0, k)

for several hyper-parameters of ``k`` at once. It is the GP with mean :math:`h^\top b_0` and covariance
:math:`k(x, x') + h(x)^\top V h(x')`, in a form that needs the factor of ``k`` alone.

References:

.. [Rasmussen2006gpml]
    C. E. Rasmussen, C. K. I. Williams. Gaussian Processes for Machine Learning. MIT Press 2006.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mfbo_torch.ops.cache import Cache, factorize
from mfbo_torch.ops.kernels import cross_correlation


@dataclass(frozen=True, eq=False)
class Kriging:
    r"""``H`` processes of the same ``n`` points, each with its own covariance, and what follows of ``c`` coefficients.

    Args:
        factor: Those of :math:`K + S`, with weights :math:`(K + S)^{-1} (y - H \hat b)`.
        weights: ``H x n x c``, :math:`(K + S)^{-1} H`.
        coefficients: ``H x c``, :math:`\hat b`.
        covariance: ``H x c x c``, of the coefficients given the data.
        evidence: ``H`` log marginal likelihoods.
    """

    factor: Cache
    weights: Tensor
    coefficients: Tensor
    covariance: Tensor
    evidence: Tensor

    def __getitem__(self, which: Tensor) -> Kriging:
        """Some of the processes."""
        factor = Cache(self.factor.kernel, **{name: part[which] for name, part in self.factor.tensors().items()})
        rest = (self.weights[which], self.coefficients[which], self.covariance[which], self.evidence[which])
        return Kriging(factor, *rest)


def krige(
    kernel: str,
    X: Tensor,
    Y: Tensor,
    basis: Tensor,
    prior: tuple[Tensor, Tensor],
    lengthscale: Tensor,
    outputscale: Tensor,
    noise: Tensor,
) -> Kriging:
    r"""Condition on data, the coefficients integrated out [Rasmussen2006gpml]_ (Eqs. 2.40 - 2.43).

    With :math:`K_y = K + S` and :math:`A = V^{-1} + H^\top K_y^{-1} H`,
    :math:`\hat b = b_0 + A^{-1} H^\top K_y^{-1} (y - H b_0)`, of covariance :math:`A^{-1}`; the evidence is that of
    :math:`N(y; H b_0, K_y + H V H^\top)`.

    Args:
        kernel: Name of the correlation.
        X: ``n x d`` points.
        Y: ``n`` observations.
        basis: ``n x c``, ``h`` at these points.
        prior: Mean ``b_0`` and the diagonal of ``V``, ``c`` each.
        lengthscale: ``H x d``.
        outputscale: ``H``.
        noise: ``H x n`` variances.
    """
    count = len(outputscale)
    mean, variance = prior
    residuals = (Y - basis @ mean).expand(count, -1)
    wide = X.expand(count, *X.shape)
    one = torch.ones_like(residuals)
    factor = factorize(kernel, wide, residuals, noise, lengthscale, outputscale, torch.zeros_like(outputscale), one)
    whitened, moved = factor.inverse @ basis, (factor.inverse @ residuals.unsqueeze(-1)).squeeze(-1)
    root = torch.linalg.cholesky(torch.diag(1 / variance) + whitened.mT @ whitened)
    shared = (whitened.mT @ moved.unsqueeze(-1)).squeeze(-1)
    found = torch.cholesky_solve(shared.unsqueeze(-1), root).squeeze(-1)
    evidence = 0.5 * ((shared * found).sum(-1) - moved.square().sum(-1) - len(Y) * math.log(2 * math.pi))
    evidence = evidence + factor.inverse.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    evidence = evidence - root.diagonal(dim1=-2, dim2=-1).log().sum(-1) - 0.5 * variance.log().sum()
    weights = factor.inverse.mT @ whitened
    alpha = factor.alpha - (weights @ found.unsqueeze(-1)).squeeze(-1)
    return Kriging(replace(factor, alpha=alpha), weights, mean + found, torch.cholesky_inverse(root), evidence)


def mean_variance(kriging: Kriging, X: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean and variance at single points, of every process.

    :math:`h^\top \hat b + k^\top \alpha` and :math:`k(x, x) - k^\top K_y^{-1} k + r^\top A^{-1} r` with
    :math:`r = h(x) - H^\top K_y^{-1} k`.

    Args:
        kriging: ``H`` processes.
        X: ``m x d`` points. Differentiable.
        basis: ``m x c``, ``h`` at these points. Differentiable.

    Returns:
        Two ``H x m`` tensors.
    """
    mean, explained, unknown = _parts(kriging, X, basis)
    variance = (kriging.factor.outputscale.unsqueeze(-1) - explained.square().sum(-1)).clamp_min(0.0)
    return mean, variance + ((unknown @ kriging.covariance) * unknown).sum(-1)


def mean_covariance(kriging: Kriging, X: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """Mean ``... x H x q`` and joint covariance ``... x H x q x q`` at ``... x q x d`` points, see above."""
    factor, X, basis = kriging.factor, X.unsqueeze(-3), basis.unsqueeze(-3)
    mean, explained, unknown = _parts(kriging, X, basis)
    scaled = factor.scaled(X)
    prior = factor.outputscale[..., None, None] * cross_correlation(factor.kernel, scaled, scaled)
    return mean, prior - explained @ explained.mT + unknown @ kriging.covariance @ unknown.mT


def _parts(kriging: Kriging, X: Tensor, basis: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""The mean, :math:`L^{-1} k` and :math:`r`, a point a row."""
    cross = kriging.factor.cross_covariance(X)
    mean = basis @ kriging.coefficients.unsqueeze(-1) + cross @ kriging.factor.alpha.unsqueeze(-1)
    return mean.squeeze(-1), cross @ kriging.factor.inverse.mT, basis - cross @ kriging.weights
