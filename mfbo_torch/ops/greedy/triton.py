r"""Greedy selection in fused Triton kernels: the twin of ``reference.py``.

:math:`V = L^{-1} k(X, \cdot)` of all candidates is computed once, a row for each cached point and a column for each
candidate. A pick adds one row: with the pick ``*``, :math:`c = k(x, *) - V_x \cdot V_*` and
:math:`u = c / \sqrt{\sigma_*^2 + \sigma^2}`, so that the variance falls by :math:`u^2`. One launch reads ``V`` once,
appends the row and scores; a second finds the best of the blocks and gathers what the next one needs. The pick stays on
the device. A pick moves ``n + t`` numbers a candidate, once.

On an H200 a pick takes as long as a copy of as many bytes (``python -m benchmarks.gpu``).
"""

# mypy: allow-untyped-defs

import torch
import triton
import triton.language as tl
from torch import Tensor

from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.posterior.programs import correlation
from mfbo_torch.ops.posterior.tiles import FP_FUSION
from mfbo_torch.ops.posterior.triton import LaunchPlan, PackedFactor, on_device

BLOCK, ROWS, GATHER = 256, 8, 1024
"""Number of candidates of one program, of rows of ``V`` at a time, and of values at a time in the last stage."""


@triton.jit(do_not_specialize=["num_rows"])
def step_kernel(
    x, V, mean, variance, width, outputscale, noise,
    picked_x, picked_row, picked_variance, best, where,
    num_points, num_rows,
    FIRST: tl.constexpr, KERNEL: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Update of the variances by the last pick, then the best score of each block and where it is."""
    candidates = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = candidates < num_points
    left = tl.load(variance + candidates, mask=inside, other=0.0)
    if not FIRST:
        explained = tl.zeros([ROWS, BLOCK], V.dtype.element_ty)
        for start in range(0, num_rows, ROWS):
            rows = start + tl.arange(0, ROWS)
            theirs = tl.load(
                V + rows.to(tl.int64)[:, None] * num_points + candidates[None, :],
                mask=(rows < num_rows)[:, None] & inside[None, :],
                other=0.0,
            )
            explained += theirs * tl.load(picked_row + rows, mask=rows < num_rows, other=0.0)[:, None]
        square = tl.zeros([BLOCK], V.dtype.element_ty)
        for k in range(DIM):
            at = x + tl.cast(k, tl.int64) * num_points + candidates
            difference = tl.load(at, mask=inside, other=0.0) - tl.load(picked_x + k)
            square += difference * difference
        covariance = tl.load(outputscale) * correlation(square, KERNEL) - tl.sum(explained, 0)
        least = 1e-12 * tl.load(outputscale)  # the reference's JITTER
        row = covariance / tl.sqrt(tl.maximum(tl.load(picked_variance) + tl.load(noise), least))
        tl.store(V + tl.cast(num_rows, tl.int64) * num_points + candidates, row, mask=inside)
        left = left - row * row
        left = tl.where(left < 0.0, 0.0, left)
        tl.store(variance + candidates, left, mask=inside)
    score = tl.load(mean + candidates, mask=inside, other=0.0) + tl.load(width) * tl.sqrt(left)
    score = tl.where(inside, score, -float("inf"))
    top = tl.max(score, 0)
    tl.store(best + tl.program_id(0), top)
    tl.store(where + tl.program_id(0), tl.min(tl.where(score == top, candidates, num_points - 1), 0))


@triton.jit(do_not_specialize=["num_rows", "pick"])
def pick_kernel(
    x, V, variance, best, where,
    picks, picked_x, picked_row, picked_variance,
    num_points, num_blocks, num_rows, pick,
    DIM: tl.constexpr, GATHER: tl.constexpr,
):  # fmt: skip
    """The best candidate, the first of equals, and its scaled point, column of ``V`` and variance."""
    lanes = tl.arange(0, GATHER)
    top = tl.full([GATHER], -float("inf"), best.dtype.element_ty)
    at = tl.full([GATHER], num_points - 1, tl.int32)
    for start in range(0, num_blocks, GATHER):
        blocks = start + lanes
        score = tl.load(best + blocks, mask=blocks < num_blocks, other=-float("inf"))
        better = score > top
        at = tl.where(better, tl.load(where + blocks, mask=blocks < num_blocks, other=0), at)
        top = tl.where(better, score, top)
    index = tl.min(tl.where(top == tl.max(top, 0), at, num_points - 1), 0).to(tl.int64)
    tl.store(picks + pick, index)
    tl.store(picked_variance, tl.load(variance + index))
    for k in range(DIM):
        tl.store(picked_x + k, tl.load(x + tl.cast(k, tl.int64) * num_points + index))
    for start in range(0, num_rows, GATHER):
        rows = start + lanes
        value = tl.load(V + rows.to(tl.int64) * num_points + index, mask=rows < num_rows, other=0.0)
        tl.store(picked_row + rows, value, mask=rows < num_rows)


@torch.no_grad()
def select(cache: Cache, X: Tensor, width: float | Tensor, q: int, scratch: int | None = None) -> Tensor:
    """As :func:`mfbo_torch.ops.greedy.reference.select`, on a CUDA device or under Triton's interpreter, with
    ``scratch`` bytes besides the ``(n + q - 1) x m`` matrix ``V``; by default a part of the device's."""
    factor = PackedFactor.of(cache)
    points, _, _ = factor.flatten(X)
    cache = factor.cache
    _, m, d = points.shape
    plan = LaunchPlan(factor, m, scratch)
    n = plan.num_inputs
    V, mean, variance = plan.new(n + q - 1, m), plan.new(m), plan.new(m)
    scaled = plan.new(d, m)
    # a copied number would wait for the device
    width = width.to(mean).reshape(1) if isinstance(width, Tensor) else torch.full_like(mean[:1], width)
    blocks = triton.cdiv(m, BLOCK)
    best, where = plan.new(blocks), torch.empty(blocks, dtype=torch.int32, device=points.device)
    picked = plan.new(d), plan.new(n + q - 1), plan.new(1)
    picks = torch.empty(q, dtype=torch.int64, device=points.device)
    with on_device(points):
        for at in plan.chunks(keep=False):
            size = points[:, at].shape[-2]
            product = plan.product(points[:, at], V[:, at], (0, 1, m, size, n))
            scaled[:, at], mean[at], variance[at] = product.scaled[0, :, :size], product.mean[0], product.variance[0]
        for pick in range(q):
            step_kernel[(blocks,)](
                scaled, V, mean, variance, width, cache.outputscale, cache.noise, *picked, best, where,
                m, n + pick - 1, FIRST=pick == 0, KERNEL=cache.kernel if pick else None, DIM=d, BLOCK=BLOCK, ROWS=ROWS,
                num_warps=4, num_stages=3, enable_fp_fusion=FP_FUSION,
            )  # fmt: skip
            pick_kernel[(1,)](
                scaled, V, variance, best, where, picks, *picked, m, blocks, n + pick, pick,
                DIM=d, GATHER=GATHER, num_warps=8, enable_fp_fusion=FP_FUSION,
            )  # fmt: skip
    return picks
