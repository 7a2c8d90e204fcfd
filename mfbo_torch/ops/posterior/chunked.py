r"""The posterior of many points in torch: :mod:`mfbo_torch.ops.posterior.reference` and its gradient, by hand.

What has no gradient in the factor is computed chunk by chunk, so that memory is bounded for any number of points;
the gradient reuses what the forward pass saved.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.kernels import CHUNK_BYTES, EXACT, distances, with_fall
from mfbo_torch.ops.prepared import Prepared

CACHED_BYTES, CUDA_BYTES = 2**21, 2**27
"""Largest size of one ``m x n`` matrix in bytes without a gradient: on a processor, where it stays in its cache, and on
a CUDA device, where with more the launches take no smaller part of the time."""


class Saved(NamedTuple):
    """What the forward pass saves for the backward pass, for ``B x m`` points: these scaled like the prepared ones,
    ``B x m x d``; the fall, ``B x m x n``, see :func:`~mfbo_torch.ops.kernels.with_fall`; the correlations times the
    prepared blocks, ``B x m x w`` each; and the variance ``B x m`` before it is raised to the floor."""

    scaled: Tensor
    fall: Tensor
    products: list[Tensor]
    variance: Tensor


def _forward(kernel: str, ready: Prepared, X: Tensor, floor: float = 0.0) -> tuple[Tensor, Tensor, Saved]:
    scaled = ready.scaled(X)
    value, fall = with_fall(kernel, distances(scaled, ready.points))
    variance, products = ready.prior, []
    for block in ready.blocks:
        reach = block.shape[-1]
        product = torch.matmul(value if reach == value.shape[-1] else value.narrow(-1, 0, reach), block.mT)
        variance = variance - torch.linalg.vecdot(product, product)
        products.append(product)
    known = ready.alpha.shape[-1]
    # a copy: with another stride the product rounds otherwise, and points without a value must leave the mean
    values = value if known == value.shape[-1] else value.narrow(-1, 0, known).contiguous()
    if ready.batch_shape or not values.numel():
        mean = torch.matmul(values, ready.alpha.unsqueeze(-1)).squeeze(-1) + ready.constant
    else:
        mean = torch.addmv(ready.constant, values, ready.alpha)
    return mean, variance.clamp_min(floor), Saved(scaled, fall, products, variance)


def _backward(
    kernel: str, ready: Prepared, kept: Saved, grad_mean: Tensor, grad_variance: Tensor, floor: float
) -> Tensor:
    r"""Gradient in ``B x m x d`` points: with :math:`V = L^{-1} k`,
    :math:`\partial k = -2 (\bar\sigma^2 L^{-\top} V - \bar\mu \alpha / 2)`; the -2 is in ``chain``."""
    outer = torch.ops.aten.threshold_backward(grad_variance, kept.variance, floor).unsqueeze(-1)
    *products, last = kept.products
    *blocks, last_block = ready.blocks
    weights = torch.matmul(last * outer, last_block)
    for block, product in zip(blocks, products, strict=True):
        reached = weights.narrow(-1, 0, block.shape[-1])
        if ready.batch_shape:
            reached += torch.matmul(product * outer, block)
        else:
            reached.addmm_(product * outer, block)
    known = ready.alpha.shape[-1]
    of_mean = weights if known == weights.shape[-1] else weights.narrow(-1, 0, known)
    of_mean.addcmul_(grad_mean.unsqueeze(-1), ready.alpha_back)
    return _through(kernel, ready, kept, weights)


def _through(kernel: str, ready: Prepared, kept: Saved, weights: Tensor) -> Tensor:
    """Gradient in ``B x m x d`` points of the covariances' sum with ``weights``, ``B x m x n``, which it overwrites."""
    weights *= kept.fall
    if kernel == "matern12":  # by differences: the pole at zero leaves no digits to lose
        with torch.enable_grad():
            scaled = kept.scaled.detach().requires_grad_()
            distance = torch.cdist(scaled, ready.points, compute_mode=EXACT)
        (gradient,) = torch.autograd.grad(distance, scaled, weights)
        return gradient * -ready.chain
    gradient = torch.matmul(weights, ready.points)
    return gradient.addcmul_(kept.scaled, weights.sum(-1, keepdim=True), value=-1).mul_(ready.chain)


def _folded(cache: Cache, X: Tensor) -> tuple[Tensor, torch.Size]:
    """Points as ``B x m x d``, every axis that the processes do not have folded into ``m``, and those axes."""
    batch = cache.batch_shape
    if not batch:
        return X.reshape(X.shape[:-1].numel(), X.shape[-1]), X.shape[:-2]
    X = X[(None,) * max(len(batch) + 2 - X.dim(), 0)]
    lead = X.shape[: -2 - len(batch)]
    return _fold(X, lead, -2), lead


def _fold(values: Tensor, lead: torch.Size, axis: int) -> Tensor:
    """``lead x B x ...`` as ``B x ...``, the leading axes folded into one."""
    if len(lead) == 0:
        return values
    return values.reshape(-1, *values.shape[len(lead) :]).movedim(0, axis - 1).flatten(axis - 1, axis)


def _unfold(values: Tensor, lead: torch.Size, m: int, axis: int) -> Tensor:
    """What :func:`_fold` has folded, unfolded."""
    if len(lead) == 0:
        return values
    values = values.unflatten(axis, (math.prod(lead), m)).movedim(axis - 1, 0)
    return values.reshape(*lead, *values.shape[1:])


def _steps(cache: Cache, m: int, size: int) -> list[slice]:
    """Slices of ``m`` whose correlations take at most ``size`` bytes."""
    step = max(size // max(cache.prepared.row, 1), 1)
    return [slice(start, start + step) for start in range(0, max(m, 1), step)]


def evaluate(cache: Cache, X: Tensor, floor: float = 0.0, keepdim: bool = False) -> tuple[Tensor, Tensor, Saved | None]:
    """Means, variances of at least ``floor``, and what :func:`backward` can use again where that is little enough to
    be kept; with the last axis of ``X`` if ``keepdim``."""
    ready = cache.prepared
    batch = ready.batch_shape
    folded, lead = _folded(cache, X)
    m = folded.shape[-2]
    kept = None
    size = CHUNK_BYTES if X.requires_grad or X.is_cuda else min(CACHED_BYTES, CHUNK_BYTES)
    if m * ready.row <= size:
        mean, variance, kept = _forward(cache.kernel, ready, folded, floor)
    else:
        size = CUDA_BYTES if X.is_cuda else size
        parts = [_forward(cache.kernel, ready, folded[..., some, :], floor)[:2] for some in _steps(cache, m, size)]
        mean, variance = (torch.cat(column, -1) for column in zip(*parts, strict=True))
    if batch:
        mean, variance = _unfold(mean, lead, X.shape[-2], -1), _unfold(variance, lead, X.shape[-2], -1)
        return (mean.unsqueeze(-1), variance.unsqueeze(-1), kept) if keepdim else (mean, variance, kept)
    shape = (*X.shape[:-1], 1) if keepdim else X.shape[:-1]
    return mean.view(shape), variance.view(shape), kept


def whitened(cache: Cache, X: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of one process at ``m x d`` points, and :math:`(L^{-1} k)^\\top`, ``m x n``, into ``out``."""
    means, variances = [], []
    for some in _steps(cache, len(X), CUDA_BYTES if X.is_cuda else CHUNK_BYTES):
        mean, variance, kept = _forward(cache.kernel, cache.prepared, X[some])
        out[some] = torch.cat(kept.products, -1)
        means.append(mean)
        variances.append(variance)
    return torch.cat(means), torch.cat(variances)


def backward(
    cache: Cache, X: Tensor, grad_mean: Tensor, grad_variance: Tensor, kept: Saved | None = None, floor: float = 0.0
) -> Tensor:
    r"""Gradient in ``X`` of :math:`\sum \bar\mu \mu + \bar\sigma^2 \sigma^2` with weights ``... x m``, in bounded
    memory for any ``m``. A variance below ``floor`` has no gradient; what :func:`evaluate` kept at the same points is
    computed anew if omitted."""
    kernel, ready = cache.kernel, cache.prepared
    if kept is not None and not ready.batch_shape:
        return _backward(kernel, ready, kept, grad_mean.reshape(-1), grad_variance.reshape(-1), floor).view(X.shape)
    folded, lead = _folded(cache, X)
    if ready.batch_shape:
        means, variances = _fold(grad_mean, lead, -1), _fold(grad_variance, lead, -1)
    else:
        means, variances = grad_mean.reshape(-1), grad_variance.reshape(-1)
    if kept is not None:
        gradient = _backward(kernel, ready, kept, means, variances, floor)
    else:
        parts = []
        for some in _steps(cache, folded.shape[-2], CUDA_BYTES if X.is_cuda else CHUNK_BYTES):
            *_, anew = _forward(kernel, ready, folded[..., some, :])
            parts.append(_backward(kernel, ready, anew, means[..., some], variances[..., some], floor))
        gradient = torch.cat(parts, -2)
    if not ready.batch_shape:
        return gradient.reshape(X.shape)
    return _unfold(gradient, lead, X.shape[-2], -2).sum_to_size(X.shape)
