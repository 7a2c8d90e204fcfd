r"""The factor of a Gaussian vector whose covariances are given, such as averages of a process.

Where the observations are values of a stationary process, :mod:`mfbo_torch.ops.cache` is quicker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mfbo_torch.ops.cache import grown, inverse_factor


@dataclass(frozen=True)
class Factor:
    r"""With :math:`Q + S = L L^\top` the covariance of ``t`` noisy observations.

    Args:
        inverse: ``t x t``, :math:`L^{-1}`.
        residuals: ``k`` observations minus their prior mean, ``k <= t``: the rest, which came by
            :func:`hallucinated`, have no value.
        alpha: ``k``, :math:`(Q + S)^{-1} r`.
    """

    inverse: Tensor
    residuals: Tensor
    alpha: Tensor

    def whitened(self, cross: Tensor) -> Tensor:
        r""":math:`(L^{-1} c)^\top`, ``... x m x t``, for ``... x m x t`` covariances with the observations."""
        return cross @ self.inverse.mT

    def mean(self, cross: Tensor, prior: Tensor) -> Tensor:
        r""":math:`\mu + c^\top \alpha`, ``... x m`` [Rasmussen2006gpml]_ (Eq. 2.25)."""
        return prior + (cross[..., : self.alpha.shape[-1]] @ self.alpha.unsqueeze(-1)).squeeze(-1)

    def mean_variance(self, cross: Tensor, prior_mean: Tensor, prior_variance: Tensor) -> tuple[Tensor, Tensor]:
        r"""Mean and :math:`v - |L^{-1} c|^2`, ``... x m`` each; never negative [Rasmussen2006gpml]_ (Eq. 2.26)."""
        explained = self.whitened(cross).square().sum(-1)
        return self.mean(cross, prior_mean), (prior_variance - explained).clamp_min(0.0)

    def mean_covariance(self, cross: Tensor, prior_mean: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        """Mean ``... x q`` and joint covariance ``... x q x q`` [Rasmussen2006gpml]_ (Eq. 2.24)."""
        V = self.whitened(cross)
        return self.mean(cross, prior_mean), prior - V @ V.mT


def factorize(covariance: Tensor, residuals: Tensor) -> Factor:
    """The factor of ``t`` observations, found in double precision whatever theirs.

    Args:
        covariance: ``t x t``, noise included.
        residuals: ``t`` observations minus their prior mean.
    """
    dtype = covariance.dtype
    empty = covariance.shape[-1] == 0
    inverse = covariance.double() if empty else inverse_factor(covariance.double())
    return _solved(inverse, residuals.double(), dtype)


def hallucinated(factor: Factor, cross: Tensor, corner: Tensor) -> Factor:
    """The factor with ``p`` pending observations: deviations shrink, means stay.

    Args:
        factor: The factor.
        cross: ``p x t`` covariances with the observations so far.
        corner: ``p x p`` covariances among the new ones, noise included.
    """
    return replace(factor, inverse=grown(factor.inverse, cross, corner))


def observed(factor: Factor, cross: Tensor, corner: Tensor, residuals: Tensor) -> Factor:
    """The factor with ``p`` more observations, in ``O(p t^2)``.

    Args:
        factor: A factor all of whose observations have a value.
        cross: ``p x t`` covariances with the observations so far.
        corner: ``p x p`` covariances among the new ones, noise included.
        residuals: ``p`` new observations minus their prior mean.
    """
    inverse = grown(factor.inverse.double(), cross.double(), corner.double())
    return _solved(inverse, torch.cat([factor.residuals, residuals]).double(), cross.dtype)


def _solved(inverse: Tensor, residuals: Tensor, dtype: torch.dtype) -> Factor:
    alpha = inverse.mT @ (inverse @ residuals)
    return Factor(inverse.to(dtype), residuals.to(dtype), alpha.to(dtype))
