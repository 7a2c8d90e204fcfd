r"""The target of an averaged chain and its gradient at a few points, on arrays: :mod:`.linked` by hand.

The processes are gone through from the lowest fidelity to the target, and back with the derivatives of a function in
the mean, the variance and the covariances with the designs of upper fidelities. Each ``at`` takes ``b x d`` points as
the kernels see them; each ``gradient`` what ``at`` has found.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mfbo_torch.models.multi_fidelity.linked import BaseProcess, LinkedProcess
from mfbo_torch.ops.kernels import FALLS, ROOTS
from mfbo_torch.ops.posterior.fused import correlated
from mfbo_torch.ops.prepared import Array


class _Correlations:
    """Those with ``n x d`` points, for ``G`` sets of lengthscales, ``G x d``."""

    def __init__(self, kernel: str, points: Tensor, center: Tensor, lengthscales: Tensor) -> None:
        self.kernel, self.center = kernel, center.numpy()
        self.scales = (ROOTS[kernel] / lengthscales).numpy()
        self.points = (points.numpy() - self.center) * self.scales[:, None]

    def at(self, X: Array) -> tuple[Array, list[tuple[Array, Array]]]:
        """Correlations ``G x b x n``; the scaled points and the fall of each set."""
        scaled = [(X - self.center) * scale for scale in self.scales]
        parts = [correlated(self.kernel, at, of) for at, of in zip(scaled, self.points, strict=True)]
        return np.stack([value for value, _ in parts]), [
            (at, fall) for at, (_, fall) in zip(scaled, parts, strict=True)
        ]

    def gradient(self, found: list[tuple[Array, Array]], weights: Array) -> Array:
        """Gradient ``b x d`` of the sum of the correlations times ``weights``, ``G x b x n``."""
        total = np.zeros_like(found[0][0])
        for (at, fall), by, points, scale in zip(found, weights, self.points, self.scales, strict=True):
            by = by * fall
            if self.kernel == "matern12":  # its slope has a pole at zero, and none there
                apart = np.sqrt(np.square(at[:, None] - points).sum(-1))
                by = np.divide(by, apart, out=np.zeros_like(by), where=apart > 0)
            total += (by @ points - by.sum(-1, keepdims=True) * at) * (scale / FALLS[self.kernel])
        return total


@dataclass(frozen=True, eq=False)
class _Found:
    """Means and variances ``b``, covariances ``b x r`` with the designs of upper fidelities, and what the gradient
    needs."""

    mean: Array
    variance: Array
    above: Array
    rest: tuple[Any, ...]


class _Base:
    """See :class:`~mfbo_torch.models.multi_fidelity.linked.BaseProcess`."""

    def __init__(self, process: BaseProcess) -> None:
        cache = process.cache
        points = torch.cat([cache.inputs * cache.lengthscale + cache.center, process.designs])
        self.correlations = _Correlations(cache.kernel, points, cache.center, cache.lengthscale.unsqueeze(0))
        self.inverse, self.alpha = cache.inverse.numpy(), cache.alpha.numpy()
        self.upper = process.at_upper.whitened.numpy()
        self.constant, self.scale = cache.constant.item(), cache.outputscale.item()

    def at(self, X: Array) -> _Found:
        n = len(self.alpha)
        (value,), found = self.correlations.at(X)
        value = self.scale * value
        whitened = value[:, :n] @ self.inverse.T
        variance = np.maximum(self.scale - np.vecdot(whitened, whitened), 0.0)
        mean = self.constant + value[:, :n] @ self.alpha
        return _Found(mean, variance, value[:, n:] - whitened @ self.upper.T, (found, whitened))

    def gradient(self, at: _Found, by_mean: Array, by_variance: Array, by_above: Array) -> Array:
        found, whitened = at.rest
        by_variance = np.where(at.variance > 0, by_variance, 0.0)
        by_whitened = -2 * by_variance[:, None] * whitened - by_above @ self.upper
        own = np.multiply.outer(by_mean, self.alpha) + by_whitened @ self.inverse
        return self.correlations.gradient(found, self.scale * np.concatenate([own, by_above], -1)[None])


class _Linked:
    """See :class:`~mfbo_torch.models.multi_fidelity.linked.LinkedProcess`; ``H`` hypotheses."""

    def __init__(self, process: LinkedProcess) -> None:
        kriging, upper = process.residual.kriging, process.at_upper
        factor = kriging.factor
        lengthscales, group = factor.lengthscale.unique(dim=0, return_inverse=True)
        points = torch.cat([factor.inputs[0] * factor.lengthscale[0] + factor.center[0], process.designs])
        self.correlations = _Correlations(factor.kernel, points, factor.center[0], lengthscales)
        self.group, self.weights = group.numpy(), process.residual.weights.numpy()
        self.scale, self.squared = factor.outputscale.numpy(), process.squared.item()
        self.inverse, self.alpha = factor.inverse.numpy(), factor.alpha.numpy()
        self.solved, self.coefficients, self.covariance = (
            part.numpy() for part in (kriging.weights, kriging.coefficients, kriging.covariance)
        )
        self.upper_whitened, self.upper_unknown = upper.seen.whitened.numpy(), upper.seen.unknown.numpy()
        self.upper_apart = (upper.seen.mean - upper.mean.unsqueeze(-2)).numpy()

    def at(self, X: Array, below: _Found) -> _Found:
        n, w = self.alpha.shape[-1], self.weights
        values, found = self.correlations.at(X)
        values = self.scale[:, None, None] * values[self.group]
        further = self.squared * below.above
        cross = values[..., :n] + further[:, :n]
        basis = np.stack([np.ones_like(below.mean), below.mean], -1)
        means = self.coefficients @ basis.T + (cross @ self.alpha[..., None])[..., 0]
        whitened = cross @ self.inverse.swapaxes(-1, -2)
        unknown = basis - cross @ self.solved
        spread = unknown @ self.covariance
        prior = self.scale[:, None] + self.squared * below.variance
        own = np.maximum(prior - np.vecdot(whitened, whitened), 0.0)
        mean = w @ means
        apart = means - mean
        variance = w @ (own + np.vecdot(spread, unknown) + np.square(apart))
        above = values[..., n:] + further[:, n:] - whitened @ self.upper_whitened.swapaxes(-1, -2)
        above += spread @ self.upper_unknown.swapaxes(-1, -2) + apart[..., None] * self.upper_apart[:, None]
        rest = (found, whitened, spread, own, apart)
        return _Found(mean, variance, np.tensordot(w, above, 1), rest)

    def gradient(
        self, at: _Found, by_mean: Array, by_variance: Array, by_above: Array
    ) -> tuple[Array, tuple[Array, Array, Array]]:
        """The gradient through the kernel, and the derivatives in the mean, the variance and the covariances of the
        fidelity below."""
        found, whitened, spread, own, apart = at.rest
        w = self.weights[:, None]
        by_means = w * (by_mean + 2 * by_variance * apart + (by_above @ self.upper_apart.T).T)
        by_own = w * by_variance * (own > 0)
        by_unknown = w[..., None] * (
            2 * by_variance[:, None] * spread + by_above @ self.upper_unknown @ self.covariance
        )
        by_whitened = -2 * by_own[..., None] * whitened - w[..., None] * (by_above @ self.upper_whitened)
        by_cross = by_means[..., None] * self.alpha[:, None] + by_whitened @ self.inverse
        by_cross -= by_unknown @ self.solved.swapaxes(-1, -2)
        by_values = np.concatenate([by_cross, w[..., None] * by_above], -1) * self.scale[:, None, None]
        grouped = np.zeros((len(self.correlations.scales), *by_values.shape[1:]))
        np.add.at(grouped, self.group, by_values)
        by_below = np.vecdot(by_means.T, self.coefficients[:, 1]) + by_unknown[..., 1].sum(0)
        by_further = np.concatenate([by_cross.sum(0), by_above], -1)
        return self.correlations.gradient(found, grouped), (
            by_below,
            self.squared * by_own.sum(0),
            self.squared * by_further,
        )


class LinkedOutputs:
    """Mean and variance of ``shift + scale f``, ``f`` being the last of some processes, each of which but the first
    follows the one before it; see :class:`~mfbo_torch.ops.posterior.fused.Outputs`."""

    device = torch.device("cpu")

    def __init__(self, processes: Sequence[BaseProcess | LinkedProcess], shift: float, scale: float) -> None:
        self.linked: list[_Linked] = []
        for process in processes:
            if isinstance(process, LinkedProcess):
                self.linked.append(_Linked(process))
            else:
                self.base, self.linked = _Base(process), []
        self.shift, self.scale = shift, scale
        self.dim = len(self.base.correlations.center)
        every: list[_Base | _Linked] = [self.base, *self.linked]
        self.row = 8 * sum(of.correlations.points.shape[-2] * np.size(of.scale) for of in every)

    def over(self, unit: float) -> LinkedOutputs:
        """The same divided by a unit."""
        found = copy.copy(self)
        found.shift, found.scale = self.shift / unit, self.scale / unit
        return found

    def moments(self, X: Array, gradient: bool = False) -> tuple[Array, Array, list[_Found]]:
        """Means and variances ``b`` at ``b x d`` points; what :meth:`gradient` needs."""
        found = [self.base.at(X)]
        for process in self.linked:
            found.append(process.at(X, found[-1]))
        last = found[-1]
        return self.shift + self.scale * last.mean, self.scale**2 * last.variance, found

    def gradient(self, found: list[_Found], by_mean: Array | float, by_variance: Array) -> Array:
        """Gradient ``b x d`` of a function of means and variances with derivatives like these."""
        by_mean = np.broadcast_to(self.scale * np.asarray(by_mean), by_variance.shape)
        by = by_mean, self.scale**2 * by_variance, np.zeros_like(found[-1].above)
        total: Any = 0.0
        for process, at in zip(reversed(self.linked), reversed(found[1:]), strict=True):
            own, by = process.gradient(at, *by)
            total = total + own
        return total + self.base.gradient(found[0], *by)
