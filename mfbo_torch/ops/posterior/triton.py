r"""Posterior mean and variance in fused Triton kernels (``programs.py``): the twin of ``reference.py``.

One program takes a block of points and a block of rows of :math:`L^{-1}` and sums the squares of its part of
:math:`v = L^{-1} k` in registers; only columns left of the diagonal are visited, which is :math:`n^2 m` operations. The
products are those of tensor cores: in float64, or for float32 three in TF32, whose sum has float32's digits.

Where the covariances come from depends on the size. An entry costs about :math:`2 d + 20` operations of the ordinary
float64 unit and is used in :math:`n / 2` multiplications of the tensor cores on average, each at half the price. With
few points on either side (``RECOMPUTE``, ``FEW``) the entries are recomputed for each block of rows, and nothing of
size ``m x n`` exists. Otherwise they are written once to a scratch of bounded size and read back: 16 bytes of traffic
an entry, for a product that does ``n / 16`` operations or more per byte. The gradient needs all of ``v`` before
:math:`w = L^{-\top} v`, so it keeps ``v`` in a scratch of bounded size in any case.

On an H200 a value takes 1.4 to 1.6 times, a value with its gradient 2.4 to 2.8 times, what cuBLAS's product of large
float64 matrices takes for as many operations (``python -m benchmarks.gpu``).
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from mfbo_torch.ops.cache import AXES, Cache
from mfbo_torch.ops.posterior.programs import covariance_kernel, finish_kernel, gradient_kernel, product_kernel
from mfbo_torch.ops.posterior.tiles import FP_FUSION, PAD, TILES

RECOMPUTE = 256
"""Largest number of cached points with which covariances are recomputed, never stored."""
FEW, VERY_FEW = 1024, 128
"""Largest numbers of points to predict with which they are recomputed too, with at most ``FEW`` cached points and with
more: launches cost more than arithmetic."""
SCRATCH, MOST_SCRATCH = 2**29, 2**32
"""Bytes of scratch for one chunk of points, on a small device and on a large one."""
SAVED_BYTES = 2**26
"""Largest size in bytes of ``v`` that is saved for the gradient."""


def path(num_points: int, num_inputs: int) -> str:
    """Which way a plan goes: ``few``, ``recomputed`` or ``stored``."""
    if num_points <= (FEW if num_inputs <= FEW else VERY_FEW):
        return "few"
    return "recomputed" if num_inputs <= RECOMPUTE else "stored"


def scratch_of(tensor: Tensor) -> int:
    """Bytes of scratch that one chunk of points may take: a sixteenth of the device's memory."""
    if not tensor.is_cuda:
        return SCRATCH
    return min(max(torch.cuda.get_device_properties(tensor.device).total_memory // 16, SCRATCH), MOST_SCRATCH)


@dataclass(frozen=True)
class PackedFactor:
    """A cache with one batch dimension ``B``, contiguous, and the batch shape it had; :meth:`of` makes it once for each
    cache. The inverse is row by row, ``B x width x width``, with zeros up to a multiple of :data:`PAD`."""

    cache: Cache
    batch: torch.Size
    inverse: Tensor

    @classmethod
    def of(cls, cache: Cache) -> "PackedFactor":
        """The layout of a cache."""
        if "triton" not in cache.layouts:
            cache.layouts["triton"] = cls._of(cache)
        return cache.layouts["triton"]

    @classmethod
    @torch.inference_mode(False)
    def _of(cls, cache: Cache) -> "PackedFactor":
        batch = cache.inverse.shape[:-2]
        flat = {}
        for name, axes in AXES.items():
            value = getattr(cache, name).detach()
            shape = value.shape[value.dim() - axes :]
            flat[name] = value.expand(batch + shape).reshape(batch.numel(), *shape).contiguous()
        more = -cache.num_points % PAD
        inverse = torch.nn.functional.pad(flat["inverse"], (0, more, 0, more)).contiguous()
        return cls(Cache(kernel=cache.kernel, **flat), batch, inverse)

    def flatten(self, X: Tensor) -> tuple[Tensor, torch.Size, list[int]]:
        """Points as ``B x M x d``, with what :func:`_restore` needs to undo it. Dimensions in which the processes
        differ come first; all others are more points."""
        shape = torch.broadcast_shapes(X.shape[:-2], self.batch)
        first = len(shape) - len(self.batch)
        own = [i for i in range(first, len(shape)) if self.batch[i - first] > 1]
        order = own + [i for i in range(len(shape)) if i not in own]
        X = X.expand(*shape, *X.shape[-2:]).permute(*order, len(shape), len(shape) + 1)
        processes = math.prod(shape[i] for i in own)
        return X.reshape(processes, X.shape[:-1].numel() // processes, X.shape[-1]), shape, order


def _restore(flat: Tensor, shape: torch.Size, order: list[int], trailing: tuple[int, ...]) -> Tensor:
    """``B x M`` or ``B x M x d`` values in the shape of the points they belong to."""
    value = flat.reshape(*(shape[i] for i in order), *trailing)
    back = sorted(range(len(order)), key=order.__getitem__)
    return value.permute(*back, *range(len(order), value.dim()))


def on_device(tensor: Tensor) -> contextlib.AbstractContextManager:
    """Launches go to the device of a tensor."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else contextlib.nullcontext()


class Product(NamedTuple):
    """A chunk's scaled points ``B x d x m``, sums of squares by block of rows, mean and variance."""

    scaled: Tensor
    squares: Tensor
    mean: Tensor
    variance: Tensor


class LaunchPlan:
    """One factor, and the block sizes and scratch for ``num_points`` points a process."""

    def __init__(self, factor: PackedFactor, num_points: int, scratch: int | None) -> None:
        self.cache, self.inverse = factor.cache, factor.inverse
        self.processes, self.num_inputs, self.dim = self.cache.inputs.shape
        self.dtype = self.cache.inverse.dtype
        self.path = path(self.processes * num_points, self.num_inputs)
        self.tiles = TILES[self.path, self.dtype]
        self.blocks = triton.cdiv(self.num_inputs, self.tiles.rows)
        self.gradient_tiles = self.tiles if self.path == "few" else TILES["gradient", self.dtype]
        self.parts = triton.cdiv(self.num_inputs, self.gradient_tiles.rows)
        self.width = self.inverse.shape[-1]
        self.num_points = num_points
        self.scratch = scratch_of(self.inverse) if scratch is None else scratch

    def padded(self, points: int) -> int:
        """A number of points in whole blocks."""
        return triton.cdiv(points, self.tiles.points) * self.tiles.points

    def chunks(self, keep: bool) -> Iterator[slice]:
        """Slices of the points whose scratch fits; ``keep`` counts ``v`` and the gradients too."""
        entries = self.dim + 2 * self.blocks + self.width * ((self.path == "stored") + keep)
        entries += 2 * self.parts * self.dim * keep
        fitting = self.scratch // (entries * self.processes * self.inverse.element_size())
        block = self.tiles.points
        size = max(block, fitting // block * block)
        # offsets inside a chunk are 32-bit
        size = min(size, (2**31 - 1) // max(self.width, self.dim) // block * block)
        return (slice(a, min(a + size, self.num_points)) for a in range(0, self.num_points, size))

    def new(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=self.dtype, device=self.inverse.device)

    def product(self, points: Tensor, V: Tensor | None = None, strides: tuple[int, ...] = (0, 0, 0, 0, 0)) -> Product:
        """Mean and variance at ``B x m x d`` points, and ``v``, which goes into ``V`` if that is given.

        ``strides`` are those of ``V`` from process to process, point to point and row to row, then its numbers of
        points and rows.
        """
        cache, tiles, n = self.cache, self.tiles, self.num_inputs
        B, m, d = points.shape
        padded = self.padded(m)
        scaled = self.new(B, d, padded)  # coalesced along the points
        torch.sub(points.mT, cache.center.unsqueeze(-1), out=scaled[..., :m])
        scaled[..., :m].div_(cache.lengthscale.unsqueeze(-1))
        mean, variance = self.new(B, m), self.new(B, m)
        if n == 0:
            mean.copy_(cache.constant.unsqueeze(-1).expand(B, m))
            variance.copy_(cache.outputscale.unsqueeze(-1).expand(B, m))
            return Product(scaled, self.new(0, B, m), mean, variance)
        stored = self.path == "stored"
        whole = self.blocks == 1 and not stored and V is None
        squares = variance if whole else self.new(self.blocks, B, m)
        small = TILES["covariance", self.dtype]
        means = mean if whole else self.new(self.width // small.rows if stored else self.blocks, B, m)
        covariance = self.new(B, padded, self.width) if stored else scaled
        sizes = (m, n, cache.alpha.shape[-1], padded, self.width, 1, padded, d, 1)
        same = {"DIM": d, "RAGGED": B > 1}
        if stored:
            covariance_kernel[(len(means) * (padded // small.points), B)](
                scaled, cache.inputs, cache.mask, cache.alpha, cache.outputscale,
                covariance, means, *sizes,
                **same, KERNEL=cache.kernel, POINTS=small.points, ROWS=small.rows, **small.options,
            )  # fmt: skip
        product_kernel[(self.blocks * (padded // tiles.points), B)](
            scaled, cache.inputs, cache.mask, cache.alpha, cache.outputscale, cache.constant, self.inverse,
            covariance, means, squares, mean, variance, scaled if V is None else V, *sizes, *strides,
            **same, KERNEL=None if stored else cache.kernel, STORED=stored, WHOLE=whole, KEEP=V is not None,
            POINTS=tiles.points, ROWS=tiles.rows, COLUMNS=tiles.columns, **tiles.options,
        )  # fmt: skip
        if not whole:
            finish_kernel[(triton.cdiv(m, 128), B)](
                means, squares, cache.constant, cache.outputscale, mean, variance,
                m, len(means), self.blocks, POINTS=128, num_warps=4, enable_fp_fusion=FP_FUSION,
            )  # fmt: skip
        return Product(scaled, squares, mean, variance)

    def with_v(self, points: Tensor) -> "SavedProduct":
        """The product at ``B x m x d`` points, and ``v``."""
        B, m, _ = points.shape
        padded = self.padded(m)
        V = self.new(B, padded, self.width)
        return SavedProduct(self, self.product(points, V, (padded * self.width, self.width, 1, padded, self.width)), V)

    def gradient(self, kept: "SavedProduct", grad_mean: Tensor, grad_variance: Tensor) -> Tensor:
        """Gradient ``B x m x d`` at the points of a product."""
        cache, n, product, V = self.cache, self.num_inputs, kept.product, kept.V
        B, m = grad_mean.shape
        d, padded, tiles = self.dim, V.shape[-2], self.gradient_tiles
        gradients = self.new(2 * self.parts, B, m, d)
        gradient_kernel[(self.parts * (padded // tiles.points), B)](
            product.scaled, cache.inputs, cache.mask, cache.alpha, cache.lengthscale, cache.outputscale,
            self.inverse, V, product.squares, grad_mean.contiguous(), grad_variance.contiguous(), gradients,
            self.blocks, m, n, cache.alpha.shape[-1], padded, self.width, 1, padded, d, 1,
            KERNEL=cache.kernel, DIM=d, RAGGED=B > 1,
            POINTS=tiles.points, ROWS=tiles.rows, COLUMNS=tiles.columns, **tiles.options,
        )  # fmt: skip
        return gradients.sum(0)


class SavedProduct(NamedTuple):
    """What a forward pass saves for the gradient: its plan, its product and ``v``, ``B x padded x width``."""

    plan: LaunchPlan
    product: Product
    V: Tensor


def forward(cache: Cache, X: Tensor, scratch: int | None = None) -> tuple[Tensor, Tensor]:
    """As :func:`mfbo_torch.ops.posterior.reference.mean_variance`, on a CUDA device or under Triton's interpreter, with
    ``scratch`` bytes for a chunk of points; by default :func:`scratch_of` the device."""
    return _forward(cache, X, scratch, False)[:2]


def keeps(cache: Cache, X: Tensor) -> bool:
    """Whether ``v`` at ``... x m x d`` points is little enough to be kept."""
    rows = torch.broadcast_shapes(X.shape[:-2], cache.inverse.shape[:-2]).numel() * X.shape[-2]
    return 0 < rows * cache.num_points * X.element_size() <= SAVED_BYTES


def forward_kept(cache: Cache, X: Tensor) -> tuple[Tensor, Tensor, SavedProduct]:
    """As :func:`forward`, and what :func:`backward` can use again."""
    return _forward(cache, X, None, True)


@torch.no_grad()
def _forward(cache: Cache, X: Tensor, scratch: int | None, keep: bool) -> tuple[Tensor, Tensor, Any]:
    factor = PackedFactor.of(cache)
    points, shape, order = factor.flatten(X)
    B, m, _ = points.shape
    plan, kept = LaunchPlan(factor, m, scratch), None
    mean, variance = plan.new(B, m), plan.new(B, m)
    with on_device(points):
        if keep:
            kept = plan.with_v(points)
            mean, variance = kept.product.mean, kept.product.variance
        else:
            for at in plan.chunks(keep=False):
                product = plan.product(points[:, at])
                if product.mean.shape == mean.shape:
                    mean, variance = product.mean, product.variance
                else:
                    mean[:, at], variance[:, at] = product.mean, product.variance
    mean, variance = (_restore(part, shape, order, (X.shape[-2],)) for part in (mean, variance))
    return mean, variance, kept


@torch.no_grad()
def backward(
    cache: Cache,
    X: Tensor,
    grad_mean: Tensor,
    grad_variance: Tensor,
    scratch: int | None = None,
    kept: SavedProduct | None = None,
) -> Tensor:
    r"""Gradient in ``X`` of :math:`\langle g_\mu, \mu \rangle + \langle g_{\sigma^2}, \sigma^2 \rangle` with weights
    ``... x m``: :math:`\sum_j (g_\mu \alpha_j - 2 g_{\sigma^2} w_j) \, \partial k_j / \partial x` with
    :math:`w = L^{-\top} L^{-1} k`; nothing from the variance where it is clamped to zero. ``scratch`` is as for
    :func:`forward`; what :func:`forward_kept` kept at the same points is computed anew if omitted."""
    factor = PackedFactor.of(cache)
    points, shape, order = factor.flatten(X)
    B, m, d = points.shape
    plan = kept.plan if kept is not None else LaunchPlan(factor, m, scratch)
    given = [
        factor.flatten(g.expand(*shape, X.shape[-2]).unsqueeze(-1))[0].squeeze(-1) for g in (grad_mean, grad_variance)
    ]
    if plan.num_inputs == 0 or m == 0:
        return torch.zeros_like(X)
    with on_device(points):
        if kept is not None:
            gradient = plan.gradient(kept, *given)
        else:
            gradient = plan.new(B, m, d)
            for at in plan.chunks(keep=True):
                gradient[:, at] = plan.gradient(plan.with_v(points[:, at]), *(g[:, at] for g in given))
    return _restore(gradient, shape, order, (X.shape[-2], d)).sum_to_size(X.shape)
