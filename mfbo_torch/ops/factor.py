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
    r"""The inverse :math:`L^{-1}` of the factor of :math:`Q + S = L L^\top`, the ``t x t`` covariance of noisy
    observations; ``k <= t`` of these minus their prior mean, as those that came by :func:`hallucinated` have no value;
    and ``k`` weights :math:`\alpha = (Q + S)^{-1} r`."""

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
    """The factor of ``t`` observations minus their prior mean, with ``t x t`` covariances, noise included; found in
    double precision whatever theirs."""
    dtype = covariance.dtype
    empty = covariance.shape[-1] == 0
    inverse = covariance.double() if empty else inverse_factor(covariance.double())
    return _solved(inverse, residuals.double(), dtype)


def hallucinated(factor: Factor, cross: Tensor, corner: Tensor) -> Factor:
    """The factor with ``p`` pending observations: deviations shrink, means stay. ``cross`` is their ``p x t``
    covariances with the observations so far, ``corner`` those among themselves, noise included."""
    return replace(factor, inverse=grown(factor.inverse, cross, corner))


def observed(factor: Factor, cross: Tensor, corner: Tensor, residuals: Tensor) -> Factor:
    """A factor, all of whose observations have a value, with ``p`` more, in ``O(p t^2)``; covariances as for
    :func:`hallucinated`, ``residuals`` are the ``p`` observations minus their prior mean."""
    inverse = grown(factor.inverse.double(), cross.double(), corner.double())
    return _solved(inverse, torch.cat([factor.residuals, residuals]).double(), cross.dtype)


def _solved(inverse: Tensor, residuals: Tensor, dtype: torch.dtype) -> Factor:
    alpha = inverse.mT @ (inverse @ residuals)
    return Factor(inverse.to(dtype), residuals.to(dtype), alpha.to(dtype))
