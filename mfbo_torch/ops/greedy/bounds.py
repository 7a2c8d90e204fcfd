r"""Upper bounds of scores, at a fraction of the work of the scores."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mfbo_torch.ops.cache import Cache

STEP_BYTES = 2**20
"""Largest size of one matrix in bytes, with which it stays in the processor's cache."""
PART, MIN_POINTS = 4, 32
"""Variances are conditioned on one ``PART``-th of the cached points, but on at least ``MIN_POINTS`` of them."""
LOG2E = math.log2(math.e)
"""Binary logarithm of e: powers of two take a third of the time of powers of e."""


def upper_bounds(cache: Cache, X: Tensor, width: float) -> Tensor:
    r"""``m`` bounds of :math:`\mu(x) + w \sigma(x)` from above, at ``m x d`` candidates of one process.

    The deviation is that given the first of the cached points alone. Distances come from inner products, which is fast
    and costs digits: with ``e`` the error of a squared distance, a correlation is off by at most ``e / 2``, or by the
    root of ``e`` where it has a kink. The bounds are raised by the largest such error.
    """
    ready, n, d = cache.prepared, cache.num_points, X.shape[-1]
    part, known = max(n // PART, min(n, MIN_POINTS)), ready.alpha.shape[-1]
    centre = ready.points.mean(0) if n else ready.points.new_zeros(d)
    points = ready.points - centre
    squares = points.square().sum(-1, keepdim=True)
    right = torch.cat([-2 * points, torch.ones_like(squares), squares], -1).mT.contiguous()
    if cache.kernel == "rbf":
        right *= -0.5 * LOG2E
    head = (cache.outputscale * cache.mask[:part] * cache.inverse[:part, :part]).mT.contiguous()
    outermost, most = squares.amax() if n else squares.sum(), part**0.5 * torch.linalg.matrix_norm(head)
    rounding, weight = 4 * (d + 2) * torch.finfo(X.dtype).eps, ready.alpha.abs().sum()
    bounds, step = torch.empty_like(X[:, 0]), max(STEP_BYTES // max(ready.row, 1), 1)
    memory, scratch = X.new_empty(min(step, len(X)), n), X.new_empty(min(step, len(X)), n)
    for start in range(0, len(X), step):
        scaled = torch.sub(ready.scaled(X[start : start + step]), centre)
        norms = scaled.square().sum(-1, keepdim=True)
        left = torch.cat([scaled, norms, torch.ones_like(norms)], -1)
        values = torch.mm(left, right, out=memory[: len(left)])
        _correlate(cache.kernel, values, scratch[: len(left)])
        error = rounding * (1 + norms.squeeze(-1) + outermost)  # 1: the correlation's own rounding
        error = error.sqrt() if cache.kernel == "matern12" else error / 2
        explained = torch.linalg.vector_norm(values[:, :part] @ head, dim=-1)
        variance = ready.prior - (explained - error * most).clamp_min_(0.0).square()
        mean = torch.addmv(ready.constant, values[:, :known], ready.alpha) + error * weight
        bounds[start : start + step] = mean + width * variance.clamp_min_(0.0).sqrt()
    return bounds


def _correlate(kind: str, values: Tensor, scratch: Tensor) -> None:
    """Squared distances in units of ``ROOTS``, or for ``rbf`` logarithms, become correlations in their place."""
    if kind == "rbf":
        values.clamp_max_(0.0).exp2_()
        return
    torch.mul(values.clamp_min_(0.0).sqrt_(), -LOG2E, out=scratch).exp2_()
    if kind == "matern12":
        values.copy_(scratch)
    elif kind == "matern32":
        values.add_(1).mul_(scratch)
    else:
        values.add_(1.5).square_().div_(3).add_(0.25).mul_(scratch)  # 1 + s + s² / 3
