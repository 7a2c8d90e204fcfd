r"""Universal kriging: Gaussian processes whose mean has coefficients that are integrated out.

.. math:: y = h(x)^\top b + \delta(x) + \varepsilon, \qquad b \sim N(b_0, V), \quad \delta \sim GP(0, k + k_0)

for several hyper-parameters of ``k`` at once, with covariances :math:`k_0` that are given where there are any. It is
the GP with mean :math:`h^\top b_0` and covariance :math:`k(x, x') + k_0(x, x') + h(x)^\top V h(x')`, in a form that
needs the factor of :math:`k + k_0` alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from mfbo_torch.ops.cache import Cache, factorize
from mfbo_torch.ops.kernels import CHUNK_BYTES, cross_correlation


class KrigingData(NamedTuple):
    """``n`` observations at ``n x d`` points, with the basis ``h`` there, ``n x c``, and the prior of its ``c``
    coefficients: the mean ``b_0`` and the diagonal of the covariance ``V``."""

    X: Tensor
    Y: Tensor
    basis: Tensor
    mean: Tensor
    variance: Tensor


@dataclass(frozen=True, eq=False)
class Kriging:
    r"""The posterior of ``H`` processes at the same ``n`` points, each with its own covariance and ``c`` coefficients:
    the factors of :math:`K + S`, with weights :math:`(K + S)^{-1} (y - H \hat b)`; :math:`(K + S)^{-1} H`,
    ``H x n x c``; :math:`\hat b`, ``H x c``, and its covariance given the data, ``H x c x c``; ``H`` log marginal
    likelihoods."""

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
    data: KrigingData,
    lengthscale: Tensor,
    outputscale: Tensor,
    noise: Tensor,
    further: Tensor | None = None,
) -> Kriging:
    r"""Condition on data, the coefficients integrated out [Rasmussen2006gpml]_ (Eqs. 2.40 - 2.43).

    With :math:`K_y = K + S` and :math:`A = V^{-1} + H^\top K_y^{-1} H`,
    :math:`\hat b = b_0 + A^{-1} H^\top K_y^{-1} (y - H b_0)`, of covariance :math:`A^{-1}`; the evidence is that of
    :math:`N(y; H b_0, K_y + H V H^\top)`. The ``H`` processes have ``H x d`` lengthscales, ``H`` output scales and
    ``H x n`` noise variances; ``further`` is ``n x n`` covariances on top of the kernels', the same for all.
    """
    count = len(outputscale)
    X, Y, basis, mean, variance = data
    residuals = (Y - basis @ mean).expand(count, -1)
    wide = X.expand(count, *X.shape)
    one = torch.ones_like(residuals)
    zero = torch.zeros_like(outputscale)
    factor = factorize(kernel, wide, residuals, noise, lengthscale, outputscale, zero, one, further)
    whitened, moved = factor.inverse @ basis, (factor.inverse @ residuals.unsqueeze(-1)).squeeze(-1)
    root, found, evidence = _integrated(whitened, moved, variance)
    evidence = evidence + factor.inverse.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    weights = factor.inverse.mT @ whitened
    alpha = factor.alpha - (weights @ found.unsqueeze(-1)).squeeze(-1)
    return Kriging(replace(factor, alpha=alpha), weights, mean + found, torch.cholesky_inverse(root), evidence)


def evidences(
    kernel: str, data: KrigingData, lengthscale: Tensor, outputscale: Tensor, noise: Tensor, further: Tensor | None
) -> Tensor:
    """The ``H`` log marginal likelihoods of :func:`krige`, for a third of its work and a part of its memory; arguments
    as there, but that all processes share ``d`` lengthscales."""
    X, Y, basis, mean, variance = data
    known = torch.cat([basis, (Y - basis @ mean).unsqueeze(-1)], -1)
    scaled = (X - X.mean(0)) / lengthscale
    shared = cross_correlation(kernel, scaled, scaled)
    found = []
    step = max(CHUNK_BYTES // (8 * shared.numel()), 1)
    for scales, variances in zip(outputscale.split(step), noise.split(step), strict=True):
        covariance = scales[:, None, None] * shared
        covariance.diagonal(dim1=-2, dim2=-1).add_(variances)
        if further is not None:
            covariance += further
        factor = psd_safe_cholesky(covariance)
        whitened = torch.linalg.solve_triangular(factor, known.expand(len(scales), *known.shape), upper=False)
        _, _, evidence = _integrated(whitened[..., :-1], whitened[..., -1], variance)
        found.append(evidence - factor.diagonal(dim1=-2, dim2=-1).log().sum(-1))
    return torch.cat(found)


def _integrated(whitened: Tensor, moved: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The factor of ``A``, ``b - b_0``, and the evidence without the determinant of ``K_y``, from
    :math:`L^{-1} H`, :math:`L^{-1} (y - H b_0)` and the diagonal of ``V``."""
    root = torch.linalg.cholesky(torch.diag(1 / variance) + whitened.mT @ whitened)
    shared = (whitened.mT @ moved.unsqueeze(-1)).squeeze(-1)
    found = torch.cholesky_solve(shared.unsqueeze(-1), root).squeeze(-1)
    evidence = 0.5 * ((shared * found).sum(-1) - moved.square().sum(-1) - moved.shape[-1] * math.log(2 * math.pi))
    return root, found, evidence - root.diagonal(dim1=-2, dim2=-1).log().sum(-1) - 0.5 * variance.log().sum()


@dataclass(frozen=True, eq=False)
class Prediction:
    r"""Posterior of ``H`` processes at ``... x q`` points, for :func:`variance` and :func:`covariance`: the mean
    :math:`h^\top \hat b + k^\top \alpha`, ``... x H x q``; :math:`L^{-1} k`, ``... x H x q x n``, a value a row; and
    :math:`r = h(x) - H^\top K_y^{-1} k`, ``... x H x q x c``."""

    mean: Tensor
    whitened: Tensor
    unknown: Tensor


def mean_variance(kriging: Kriging, X: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance at ``... x q x d`` points with the basis ``... x q x c``, ``... x H x q`` each, where there are
    no further covariances. Differentiable in both."""
    none = X.new_zeros(X.shape[:-1])
    at = predict(kriging, X, basis, none.unsqueeze(-1))
    return at.mean, variance(kriging, at, none)


def predict(kriging: Kriging, X: Tensor, basis: Tensor, further: Tensor) -> Prediction:
    """The posterior at ``... x q x d`` points with the basis ``... x q x c`` and :math:`k_0` with the data,
    ``... x q x n``. Differentiable in all three."""
    cross = kriging.factor.cross_covariance(X.unsqueeze(-3)) + further.unsqueeze(-3)
    basis = basis.unsqueeze(-3)
    mean = basis @ kriging.coefficients.unsqueeze(-1) + cross @ kriging.factor.alpha.unsqueeze(-1)
    return Prediction(mean.squeeze(-1), cross @ kriging.factor.inverse.mT, basis - cross @ kriging.weights)


def variance(kriging: Kriging, at: Prediction, further: Tensor) -> Tensor:
    r"""Posterior variances :math:`k(x, x) - k^\top K_y^{-1} k + r^\top A^{-1} r`, ``... x H x q``, from the posterior
    at the points; ``further`` is ``... x q``, :math:`k_0` of each point with itself."""
    prior = kriging.factor.outputscale.unsqueeze(-1) + further.unsqueeze(-2)
    own = (prior - at.whitened.square().sum(-1)).clamp_min(0.0)
    return own + ((at.unknown @ kriging.covariance) * at.unknown).sum(-1)


def covariance(kriging: Kriging, X: Tensor, at: Prediction, Z: Tensor, there: Prediction, further: Tensor) -> Tensor:
    """Posterior covariances ``... x H x q x r`` between ``... x q x d`` points ``X`` and ``... x r x d`` points ``Z``,
    from the posteriors at either; ``further`` is their :math:`k_0`, ``... x q x r``."""
    factor = kriging.factor
    correlation = cross_correlation(factor.kernel, factor.scaled(X.unsqueeze(-3)), factor.scaled(Z.unsqueeze(-3)))
    prior = factor.outputscale[..., None, None] * correlation + further.unsqueeze(-3)
    return prior - at.whitened @ there.whitened.mT + at.unknown @ kriging.covariance @ there.unknown.mT
