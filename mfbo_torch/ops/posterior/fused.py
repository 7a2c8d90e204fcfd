r"""Mean, variance and their gradients at a few points, in one pass: :mod:`mfbo_torch.ops.posterior.reference` by hand.

An optimiser needs them between two steps, at a few points on the processor in double precision. There a call of torch
takes longer than what it computes, so products are NumPy's, in pieces for which its BLAS takes one thread, but where
there are many points or threads; each block of the factor is read once for the value and its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.once import Once
from mfbo_torch.ops.posterior import graphs
from mfbo_torch.ops.prepared import Array, PreparedProcess

MOST_BYTES = 2**20
"""Largest size in bytes of the correlations at a time; with more, torch's own operations are as quick."""
SMALL = 2**18
"""Largest number of multiplications at a time by NumPy: for more, OpenBLAS would take threads of its own."""
MIN_ROWS = 24
"""Smallest number of rows of one call."""
FEW_POINTS, FEW_THREADS = 32, 2
"""Largest numbers of points and of threads with which NumPy's products on one thread are quicker than torch's."""


class Moments(NamedTuple):
    r"""Mean ``b`` and variance ``b``, not raised to any floor, and what :func:`gradient` needs: the points in the scale
    of the process, ``b x d``, the fall, ``b x n``, see :func:`~mfbo_torch.ops.kernels.with_fall`, and
    :math:`(L^{-\top} L^{-1} k)^\top`, ``b x n``, ``None`` where no gradient follows."""

    mean: Array
    variance: Array
    scaled: Array
    fall: Array
    weights: Array | None


def plain(X: Tensor) -> bool:
    """Whether a tensor is on the processor in double precision."""
    return X.dtype is torch.double and X.is_cpu


def rows(X: Tensor) -> Array:
    """``... x d`` points as an array, ``b x d``."""
    found: Array = X.detach().numpy().reshape(-1, X.shape[-1])
    return found


def correlated(kernel: str, scaled: Array, points: Array) -> tuple[Array, Array]:
    """:func:`mfbo_torch.ops.kernels.with_fall` of ``b x d`` and ``n x d`` points, ``b x n``."""
    if kernel == "rbf":
        value = cdist(scaled, points, "sqeuclidean")
        value *= -0.5
        np.exp(value, out=value)
        return value, value
    distance = cdist(scaled, points)
    decay = np.exp(-distance)
    if kernel == "matern12":
        return decay, decay
    first = (1 + distance) * decay
    if kernel == "matern32":
        return first, decay
    distance *= distance
    distance *= decay
    distance *= 1 / 3
    distance += first
    return distance, first


def _product(left: Array, right: Array) -> Array:
    """``left @ right`` of ``b x e`` and ``e x w``. Points are rows: this way OpenBLAS takes four fifths of the time."""
    points, reach = left.shape
    width = right.shape[1]
    step = max(SMALL // max(points * reach, 1), MIN_ROWS)
    if width <= step:
        return left @ right
    if points > FEW_POINTS or torch.get_num_threads() > FEW_THREADS:
        return torch.mm(torch.from_numpy(left), torch.from_numpy(right)).numpy()
    found = np.empty((points, width))
    for start in range(0, width, step):
        some = slice(start, start + step)
        np.matmul(left, right[:, some], out=found[:, some])
    return found


def moments(process: PreparedProcess, X: Array, gradient: bool = False) -> Moments:
    r"""Mean :math:`c + k^\top \alpha` and variance :math:`k(x, x) - |L^{-1} k|^2` at ``b x d`` points, as the reference
    has them; with ``gradient``, what :func:`gradient` needs."""
    scaled = X - process.center
    scaled *= process.scale
    value, fall = correlated(process.kernel, scaled, process.points)
    # row by row, as the rounding of a product follows its shape: points without a value must leave the mean
    mean: Array = np.vecdot(value[:, : len(process.alpha)], process.alpha)
    mean += process.constant
    explained: Any = 0.0
    weights: Array | None = None
    for block in reversed(process.blocks):
        reach = block.shape[1]
        product = _product(value[:, :reach], block.T)
        explained = np.vecdot(product, product) + explained
        if not gradient:
            continue
        back = _product(product, block)
        if weights is None:
            weights = back
        else:
            weights[:, :reach] += back
    variance: Array = process.prior - explained
    return Moments(mean, variance, scaled, fall, weights)


def gradient(process: PreparedProcess, found: Moments, by_mean: Array | float, by_variance: Array) -> Array:
    r"""Gradient ``b x d`` of :math:`\sum_b \bar\mu_b \mu_b + \bar\sigma^2_b \sigma^2_b`, for moments found with a
    gradient: :math:`\sum_j (\bar\mu \alpha_j - 2 \bar\sigma^2 (L^{-\top} L^{-1} k)_j) \, \partial k_j / \partial x`;
    ``by_mean`` is ``b`` or one number, ``by_variance`` ``b``."""
    if found.weights is None:
        raise ValueError("found: must be moments with gradient=True")
    weights = found.weights * by_variance[:, None]
    weights[:, : len(process.half)] -= np.multiply.outer(by_mean, process.half)  # -2 is in ``chain``
    weights *= found.fall
    if process.kernel == "matern12":
        return _by_differences(process, found.scaled, weights)
    sums = weights @ process.columns
    found_gradient: Array = sums[:, :-1] - sums[:, -1:] * found.scaled
    found_gradient *= process.chain
    return found_gradient


def _by_differences(process: PreparedProcess, scaled: Array, weights: Array) -> Array:
    """The gradient where the fall has a pole at zero, which leaves no digits to lose; zero at the pole."""
    apart = cdist(scaled, process.points)
    weights = np.divide(weights, apart, out=np.zeros_like(weights), where=apart > 0)
    pairs = zip(process.points.T, scaled.T, strict=True)
    columns = [np.vecdot(weights, of - at[:, None]) for of, at in pairs]
    return np.stack(columns, -1) * process.chain


def process_for(cache: Cache, X: Tensor) -> PreparedProcess | None:
    """The process of a cache that :func:`mean_variance` takes; ``None`` where there is no such one, or the points are
    many, or not in double precision on the processor."""
    few = plain(X) and X.numel() * cache.prepared.row <= MOST_BYTES * X.shape[-1]
    return cache.alone if few and not (cache.differentiable and torch.is_grad_enabled()) else None


def mean_variance(process: PreparedProcess, X: Tensor, floor: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """As :func:`mfbo_torch.ops.posterior.mean_variance`, of one process at a few points."""
    shape = X.shape[:-1]
    if keepdim:
        shape += (1,)
    if X.requires_grad and torch.is_grad_enabled():
        return _MeanVariance.apply(X, process, floor, shape)
    return _raised(moments(process, rows(X)), floor, shape)


def _raised(found: Moments, floor: float, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Means and variances of at least ``floor`` as tensors of a shape."""
    mean, variance = found.mean.reshape(shape), np.maximum(found.variance, floor).reshape(shape)
    return torch.from_numpy(mean), torch.from_numpy(variance)


class _MeanVariance(torch.autograd.Function):
    """The gradient follows in closed form from what the value was made of."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, process: PreparedProcess, floor: float, shape: Sequence[int]) -> Any:
        ctx.process, ctx.floor = process, floor
        ctx.found = moments(process, rows(X), gradient=True)
        ctx.save_for_backward(X)
        return _raised(ctx.found, floor, shape)

    @staticmethod
    def backward(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> tuple[Tensor, None, None, None]:
        (X,) = ctx.saved_tensors
        by_mean, by_variance = (grad.detach().numpy().reshape(-1) for grad in (grad_mean, grad_variance))
        raised = ctx.found.variance <= ctx.floor
        if raised.any():
            by_variance = np.where(raised, 0.0, by_variance)
        found = gradient(ctx.process, ctx.found, by_mean, by_variance)
        slope = torch.from_numpy(found.reshape(X.shape))
        if torch.is_grad_enabled():  # only where a second derivative may follow
            slope = Once.apply("mean_variance", slope, X, grad_mean, grad_variance)
        return slope, None, None, None


class OnArrays(Protocol):
    """Means and variances of a model at a few points, and gradients, on arrays: see :class:`Outputs`."""

    @property
    def dim(self) -> int:
        """Width of the points."""

    @property
    def device(self) -> torch.device:
        """Where points of this model are."""

    @property
    def row(self) -> int:
        """Bytes of the correlations of one point."""

    def moments(self, X: Array, gradient: bool = False) -> tuple[Array, Array, list[Any]]:
        """Means and variances at ``b x d`` points; what :meth:`gradient` needs."""

    def gradient(self, found: list[Any], by_mean: Array | float, by_variance: Array) -> Array:
        """Gradient ``b x d`` of a function of means and variances with derivatives like these."""


@dataclass(frozen=True)
class Outputs:
    r"""Outputs of a model that combine ``P`` independent processes with means ``m`` and variances ``v``,
    :math:`\mu = W m + o`, :math:`\sigma^2 = W^{\circ 2} v`: weights ``M x P`` of several outputs, ``P`` of one,
    ``None`` where that is the process itself; offsets ``M x 1``, or one number. Processes on a CUDA device are factors
    that :func:`mfbo_torch.ops.posterior.graphs.serves` takes."""

    processes: Sequence[PreparedProcess | Cache]
    weights: Array | None = None
    offsets: Array | float = 0.0

    @cached_property
    def dim(self) -> int:
        """Width of the points."""
        return self.processes[0].center.shape[-1]

    @property
    def device(self) -> torch.device:
        """Where points of this model are."""
        first = self.processes[0]
        return first.inputs.device if isinstance(first, Cache) else torch.device("cpu")

    @cached_property
    def row(self) -> int:
        """Bytes of the correlations of one point, see :class:`~mfbo_torch.ops.prepared.Prepared`."""
        here = (one for one in self.processes if not isinstance(one, Cache))
        return 8 * sum(max(len(one.alpha), len(one.points) // 2) for one in here)

    @cached_property
    def last(self) -> Outputs:
        """The last of several outputs alone, of the processes that it has."""
        if self.weights is None or not isinstance(self.offsets, np.ndarray):
            return self
        kept = np.flatnonzero(self.weights[-1]).tolist()
        return Outputs([self.processes[p] for p in kept], self.weights[-1, kept], self.offsets[-1].item())

    def moments(self, X: Array, gradient: bool = False) -> tuple[Array, Array, list[Any]]:
        """Means and variances, ``M x b`` or ``b`` of one output, at ``b x d`` points; what :meth:`gradient` needs."""
        found = [
            graphs.moments(process, X) if isinstance(process, Cache) else moments(process, X, gradient)
            for process in self.processes
        ]
        if self.weights is None:
            return found[0].mean, found[0].variance, found
        mean = self.weights @ np.stack([one.mean for one in found]) + self.offsets
        variance = np.square(self.weights) @ np.maximum(np.stack([one.variance for one in found]), 0.0)
        return mean, variance, found

    def gradient(self, found: list[Any], by_mean: Array | float, by_variance: Array) -> Array:
        """Gradient ``b x d`` of a function of means and variances with derivatives like these, or one for all means."""
        if self.weights is None:
            return _gradient(self.processes[0], found[0], by_mean, by_variance)
        squares = np.square(self.weights)
        if self.weights.ndim == 1:
            by_means, by_variances = np.multiply.outer(self.weights, by_mean), np.multiply.outer(squares, by_variance)
        else:
            by_means, by_variances = np.matmul(self.weights.T, by_mean), np.matmul(squares.T, by_variance)
        parts = zip(self.processes, found, by_means, by_variances, strict=True)
        return np.sum([_gradient(of, one, m, np.where(one.variance > 0, v, 0.0)) for of, one, m, v in parts], axis=0)


def _gradient(process: PreparedProcess | Cache, found: Any, by_mean: Array | float, by_variance: Array) -> Array:
    if isinstance(process, Cache):
        slopes: Array = found.gradient(by_mean, by_variance)
        return slopes
    return gradient(process, found, by_mean, by_variance)
