r"""Posterior mean and variance at many points."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError
from torch import Tensor

from mfbo_torch.ops import _dispatch
from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.once import Once
from mfbo_torch.ops.posterior import chunked, fused, graphs, reference
from mfbo_torch.ops.posterior.reference import cross_covariance, mean_covariance

__all__ = ["cross_covariance", "mean_covariance", "mean_variance"]

MOST_PROCESSES = 2**16 - 1
"""The second axis of a CUDA grid ends here; a batch of more goes through torch."""


def mean_variance(
    cache: Cache, X: Tensor, backend: str = "auto", *, floor: float = 0.0, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    r"""Mean and variance at single points, ``... x m`` or ``... x m x 1`` each [Rasmussen2006gpml]_ (Eqs. 2.25, 2.26).

    :math:`\mu = c + k^\top \alpha` and :math:`\sigma^2 = k(x, x) - |L^{-1} k|^2`, never negative, in the units of the
    observations and their square.

    Args:
        cache: Factors of ``...`` processes.
        X: ``... x m x d`` points, broadcast against the processes. Differentiable once. Where the factor itself has a
            gradient, as a fantasy's may, so have all results.
        backend: ``"torch"``, ``"triton"`` or ``"auto"``: by the device of ``X`` and the version of Triton.
        floor: Variances below are raised to it, and have no gradient.
        keepdim: Keep the last axis of ``X``, with one entry.

    Raises:
        BotorchTensorDimensionError: ``X`` of another width than the factor's inputs.
        UnsupportedError: An unknown backend, Triton where it cannot run, or a second derivative.
        torch.OutOfMemoryError: Neither the points at once nor parts of them fit on the device.
    """
    if X.shape[-1] != cache.inputs.shape[-1]:
        allowed = f"the last axis must be d = {cache.inputs.shape[-1]}"
        raise BotorchTensorDimensionError(f"X of shape {tuple(X.shape)}: {allowed}")
    graph = backend == "auto" and graphs.takes(cache, X)
    if backend == "auto" and not graph and (process := fused.process_for(cache, X)) is not None:
        return fused.mean_variance(process, X, floor, keepdim)
    chosen = _dispatch.choose(backend, X)
    if graph:
        chosen = "graph"
    elif chosen == "triton" and backend == "auto" and cache.batch_shape.numel() > MOST_PROCESSES:
        chosen = "torch"
    if cache.differentiable and torch.is_grad_enabled():
        mean, variance = reference.mean_variance(cache, X)
        variance = variance.clamp_min(floor)
        return (mean.unsqueeze(-1), variance.unsqueeze(-1)) if keepdim else (mean, variance)
    if X.requires_grad and torch.is_grad_enabled():
        return _MeanVariance.apply(X, cache, chosen, floor, keepdim)
    return _evaluate(cache, X, chosen, floor, keepdim)[:2]


def _evaluate(cache: Cache, X: Tensor, backend: str, floor: float, keepdim: bool) -> tuple[Tensor, Tensor, Any]:
    """Mean, variance and what the gradient can use again."""
    if backend == "torch":
        return chunked.evaluate(cache, X, floor, keepdim)
    if backend == "graph":
        mean, variance, kept = graphs.evaluate(cache, X, floor) or chunked.evaluate(cache, X, floor)
    else:
        mean, variance, kept = _triton_forward(cache, X)
        if floor > 0:
            variance = variance.clamp_min(floor)
    return (mean.unsqueeze(-1), variance.unsqueeze(-1), kept) if keepdim else (mean, variance, kept)


class _MeanVariance(torch.autograd.Function):
    """The gradient in ``X`` by hand: it reuses what the forward computed."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, cache: Cache, backend: str, floor: float, keepdim: bool) -> tuple[Tensor, Tensor]:
        mean, variance, ctx.kept = _evaluate(cache, X, backend, floor, keepdim)
        ctx.cache, ctx.backend, ctx.floor, ctx.keepdim = cache, backend, floor, keepdim
        ctx.save_for_backward(*([X, variance] if backend == "triton" else [X]))
        return mean, variance

    @staticmethod
    def backward(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> tuple[Tensor, None, None, None, None]:
        X, *variance = ctx.saved_tensors
        if torch.is_grad_enabled():  # only where a second derivative may follow
            with torch.no_grad():
                gradient, *rest = _MeanVariance.backward(ctx, grad_mean, grad_variance)
            return Once.apply("mean_variance", gradient, X, grad_mean, grad_variance), *rest
        if variance and ctx.floor > 0:
            grad_variance = grad_variance * (variance[0] > ctx.floor)
        flat = isinstance(ctx.kept, chunked.Saved) and not ctx.cache.batch_shape  # they are flattened anyway
        if ctx.keepdim and not flat:
            grad_mean, grad_variance = grad_mean.squeeze(-1), grad_variance.squeeze(-1)
        if isinstance(ctx.kept, graphs.Slopes):
            gradient = graphs.backward(ctx.cache, X, grad_mean, grad_variance, ctx.kept)
        elif ctx.backend == "triton":
            gradient = _triton_backward(ctx.cache, X, grad_mean, grad_variance, ctx.kept)
        else:
            gradient = chunked.backward(ctx.cache, X, grad_mean, grad_variance, ctx.kept, ctx.floor)
        return gradient, None, None, None, None


def _need(cache: Cache, X: Tensor) -> str:
    size = cache.inverse.nbytes + X.nbytes * (1 + 3 / X.shape[-1])
    return (
        f"the posterior of {cache.batch_shape.numel()} processes with n = {cache.num_points} at points of shape "
        f"{tuple(X.shape)} needs about {size / 2**20:,.0f} MiB"
    )


def _joined(pieces: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    means, variances = zip(*pieces, strict=True)
    return torch.cat(means, -1), torch.cat(variances, -1)


def _triton_forward(cache: Cache, X: Tensor) -> tuple[Tensor, Tensor, Any]:
    triton = _dispatch.kernels("posterior")
    if X.requires_grad and triton.keeps(cache, X):
        with suppress(torch.OutOfMemoryError):
            return triton.forward_kept(cache, X)
    return *_dispatch.retrying(lambda part: triton.forward(cache, part), _joined, _need(cache, X), X), None


def _triton_backward(cache: Cache, X: Tensor, grad_mean: Tensor, grad_variance: Tensor, kept: Any) -> Tensor:
    triton = _dispatch.kernels("posterior")
    if kept is not None:
        with suppress(torch.OutOfMemoryError):
            return triton.backward(cache, X, grad_mean, grad_variance, kept=kept)

    def call(part: Tensor, means: Tensor, variances: Tensor) -> Tensor:
        return triton.backward(cache, part, means.squeeze(-1), variances.squeeze(-1))

    parts = (X, grad_mean.unsqueeze(-1), grad_variance.unsqueeze(-1))
    return _dispatch.retrying(call, lambda pieces: torch.cat(pieces, -2), _need(cache, X), *parts)
