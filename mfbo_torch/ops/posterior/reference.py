r"""Posterior mean, variance and covariance in plain torch: the specification, differentiable in everything."""

from __future__ import annotations

from torch import Tensor

from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.kernels import cross_correlation


def _mean(cache: Cache, cross: Tensor) -> Tensor:
    known = cross[..., : cache.alpha.shape[-1]]
    return cache.constant.unsqueeze(-1) + (known @ cache.alpha.unsqueeze(-1)).squeeze(-1)


def mean_variance(cache: Cache, X: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean and variance at single ``... x m x d`` points, ``... x m`` each [Rasmussen2006gpml]_ (Eqs. 2.25, 2.26):
    :math:`\mu = c + k^\top \alpha` and :math:`\sigma^2 = k(x, x) - |L^{-1} k|^2`, never negative. Points are broadcast
    against the processes. Differentiable."""
    cross = cache.cross_covariance(X)
    explained = (cross @ cache.inverse.mT).square().sum(-1)
    return _mean(cache, cross), (cache.outputscale.unsqueeze(-1) - explained).clamp_min(0.0)


def mean_covariance(cache: Cache, X: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean ``... x q`` and joint covariance :math:`k(X, X) - (L^{-1} k)^\top (L^{-1} k)`, ``... x q x q``, at
    ``... x q x d`` points [Rasmussen2006gpml]_ (Eq. 2.24)."""
    cross = cache.cross_covariance(X)
    V = cross @ cache.inverse.mT
    scaled = cache.scaled(X)
    prior = cache.outputscale[..., None, None] * cross_correlation(cache.kernel, scaled, scaled)
    return _mean(cache, cross), prior - V @ V.mT


def cross_covariance(cache: Cache, X: Tensor, Z: Tensor) -> Tensor:
    r"""Posterior covariance :math:`k(X, Z) - (L^{-1} k_X)^\top (L^{-1} k_Z)`, ``... x m x p``, between ``... x m x d``
    and ``... x p x d`` points [Rasmussen2006gpml]_ (Eq. 2.24)."""
    V, W = (cache.cross_covariance(points) @ cache.inverse.mT for points in (X, Z))
    prior = cross_correlation(cache.kernel, cache.scaled(X), cache.scaled(Z))
    return cache.outputscale[..., None, None] * prior - V @ W.mT
