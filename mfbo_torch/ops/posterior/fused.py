r"""Mean, variance and their gradients at a few points, in one pass: :mod:`mfbo_torch.ops.posterior.reference` by hand.

An optimiser needs them between two steps, at a few points on the processor in double precision. There a call of torch
takes longer than what it computes, so products are NumPy's, in pieces for which its BLAS takes one thread, but where
there are many points or threads; each block of the factor is read once for the value and its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

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
    :math:`L^{-\top} L^{-1} k`, ``n x b``, ``None`` where no gradient follows."""

    mean: Array
    variance: Array
    scaled: Array
    fall: Array
    weights: Array | None


def plain(X: Tensor) -> bool:
    """Whether a tensor is on the processor in double precision."""
    return X.dtype == torch.double and X.device.type == "cpu"


def _with_fall(kernel: str, scaled: Array, points: Array) -> tuple[Array, Array]:
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


def _product(factor: Array, columns: Array) -> Array:
    """``factor @ columns`` of ``w x e`` and ``e x b``."""
    rows = SMALL // max(columns.size, 1)
    if len(factor) <= rows:
        return factor @ columns
    points, rows = columns.shape[1], max(rows, MIN_ROWS)
    if points > FEW_POINTS:
        return torch.mm(torch.from_numpy(factor), torch.from_numpy(columns)).numpy()
    if torch.get_num_threads() > FEW_THREADS:  # few columns it multiplies quicker as rows
        return torch.mm(torch.from_numpy(columns).T, torch.from_numpy(factor).T).numpy().T
    found = np.empty((len(factor), points))
    for start in range(0, len(factor), rows):
        some = slice(start, start + rows)
        np.matmul(factor[some], columns, out=found[some])
    return found


def moments(process: PreparedProcess, X: Array, gradient: bool = False) -> Moments:
    r"""Mean :math:`c + k^\top \alpha` and variance :math:`k(x, x) - |L^{-1} k|^2` at ``b x d`` points, as the reference
    has them; with ``gradient``, what :func:`gradient` needs."""
    scaled = (X - process.center) * process.scale
    value, fall = _with_fall(process.kernel, scaled, process.points)
    # not by BLAS, whose rounding follows the shape: points without a value must leave the mean
    mean = np.einsum("bn,n->b", value[:, : len(process.alpha)], process.alpha)
    mean += process.constant
    variance: Array = np.full(len(X), process.prior)
    weights: Array | None = None
    for block in reversed(process.blocks):
        reach = block.shape[1]
        product = _product(block, value.T[:reach])
        variance -= np.einsum("nb,nb->b", product, product)
        if not gradient:
            continue
        back = _product(block.T, product)
        if weights is None:
            weights = back
        else:
            weights[:reach] += back
    return Moments(mean, variance, scaled, fall, weights)


def gradient(process: PreparedProcess, found: Moments, by_mean: Array | float, by_variance: Array) -> Array:
    r"""Gradient ``b x d`` of :math:`\sum_b \bar\mu_b \mu_b + \bar\sigma^2_b \sigma^2_b`, for moments found with a
    gradient: :math:`\sum_j (\bar\mu \alpha_j - 2 \bar\sigma^2 (L^{-\top} L^{-1} k)_j) \, \partial k_j / \partial x`;
    ``by_mean`` is ``b`` or one number, ``by_variance`` ``b``."""
    if found.weights is None:
        raise ValueError("found: must be moments with gradient=True")
    weights = found.weights * by_variance
    weights[: len(process.alpha)] -= process.half * by_mean  # -2 is in ``chain``
    weights *= found.fall.T
    if process.kernel == "matern12":
        return _by_differences(process, found.scaled, weights)
    sums = weights.T @ process.columns
    found_gradient: Array = (sums[:, :-1] - sums[:, -1:] * found.scaled) * process.chain
    return found_gradient


def _by_differences(process: PreparedProcess, scaled: Array, weights: Array) -> Array:
    """The gradient where the fall has a pole at zero, which leaves no digits to lose; zero at the pole."""
    apart = cdist(process.points, scaled)
    weights = np.divide(weights, apart, out=np.zeros_like(weights), where=apart > 0)
    pairs = zip(process.points.T, scaled.T, strict=True)
    columns = [np.einsum("nb,nb->b", weights, np.subtract.outer(of, at)) for of, at in pairs]
    return np.stack(columns, -1) * process.chain


@dataclass(frozen=True)
class Outputs:
    r"""Outputs of a model that combine ``P`` independent processes with means ``m`` and variances ``v``,
    :math:`\mu = W m + o`, :math:`\sigma^2 = W^{\circ 2} v`: weights ``M x P`` of several outputs, ``P`` of one,
    ``None`` where that is the process itself; offsets ``M x 1``, or one number."""

    processes: Sequence[PreparedProcess]
    weights: Array | None = None
    offsets: Array | float = 0.0

    @cached_property
    def dim(self) -> int:
        """Width of the points."""
        return len(self.processes[0].center)

    @cached_property
    def row(self) -> int:
        """Bytes of the correlations of one point, see :class:`~mfbo_torch.ops.prepared.Prepared`."""
        return 8 * sum(max(len(one.alpha), len(one.points) // 2) for one in self.processes)

    @cached_property
    def last(self) -> Outputs:
        """The last of several outputs alone, of the processes that it has."""
        if self.weights is None or not isinstance(self.offsets, np.ndarray):
            return self
        kept = np.flatnonzero(self.weights[-1]).tolist()
        return Outputs([self.processes[p] for p in kept], self.weights[-1, kept], self.offsets[-1].item())

    def moments(self, X: Array, gradient: bool = False) -> tuple[Array, Array, list[Moments]]:
        """Means and variances, ``M x b`` or ``b`` of one output, at ``b x d`` points; what :meth:`gradient` needs."""
        found = [moments(process, X, gradient) for process in self.processes]
        if self.weights is None:
            return found[0].mean, found[0].variance, found
        mean = self.weights @ np.stack([one.mean for one in found]) + self.offsets
        variance = np.square(self.weights) @ np.maximum(np.stack([one.variance for one in found]), 0.0)
        return mean, variance, found

    def gradient(self, found: list[Moments], by_mean: Array | float, by_variance: Array) -> Array:
        """Gradient ``b x d`` of a function of means and variances with derivatives like these, or one for all means."""
        if self.weights is None:
            return gradient(self.processes[0], found[0], by_mean, by_variance)
        squares = np.square(self.weights)
        if self.weights.ndim == 1:
            by_means, by_variances = np.multiply.outer(self.weights, by_mean), np.multiply.outer(squares, by_variance)
        else:
            by_means, by_variances = np.matmul(self.weights.T, by_mean), np.matmul(squares.T, by_variance)
        parts = zip(self.processes, found, by_means, by_variances, strict=True)
        return np.sum([gradient(of, one, m, np.where(one.variance > 0, v, 0.0)) for of, one, m, v in parts], axis=0)
