r"""Acquisition functions of one point with their gradients in closed form, as an optimiser wants them.

A function :math:`a(\mu(x), \sigma^2(x))` of means and variances is a :data:`Head`, which gives its value and its
derivatives in both; the chain rule with those of :class:`~mfbo_torch.ops.posterior.fused.Outputs` is its gradient.

References:

.. [Ament2023logei]
    S. Ament, S. Daulton, D. Eriksson, M. Balandat, E. Bakshy. Unexpected Improvements to Expected Improvement for
    Bayesian Optimization. NeurIPS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement, UpperConfidenceBound
from botorch.models.model import Model
from gpytorch import settings
from scipy.special import erfcx, ndtr
from torch import Tensor

from mfbo_torch.models.outputs import factors, outputs
from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.once import Once
from mfbo_torch.ops.posterior.fused import MOST_BYTES, Outputs, plain
from mfbo_torch.ops.prepared import Array

Head: TypeAlias = Callable[[Array, Array], tuple[Array, Array, Array]]
"""From means and variances ``M x b`` to values ``b`` and their derivatives ``M x b`` in the means and the variances."""

FLOOR = 1e-30
"""Least variance: a square root of zero has no slope."""
LEAST_VARIANCE = 1e-12
"""BoTorch's analytic acquisitions raise variances to it."""
FAR = -30.0
"""Below, the ratio of a normal's distribution to its density has a series that is exact."""


@dataclass(frozen=True)
class Fused:
    """An acquisition function on arrays.

    Args:
        outputs: Those of its model.
        head: What it makes of them.
    """

    outputs: Outputs
    head: Head

    def __call__(self, X: Array) -> Array:
        """Values ``b`` at ``b x d`` points."""
        return self.head(*self.outputs.moments(X)[:2])[0]

    def with_gradient(self, X: Array) -> tuple[Array, Array]:
        """Values ``b`` and gradients ``b x d`` at ``b x d`` points."""
        mean, variance, found = self.outputs.moments(X, gradient=True)
        value, by_mean, by_variance = self.head(mean, variance)
        return value, self.outputs.gradient(found, by_mean, by_variance)

    def takes(self, X: Tensor) -> bool:
        """Whether ``... x 1 x d`` points are few, in double precision and on the processor."""
        return X.shape[-2] == 1 and plain(X) and X.shape[:-1].numel() * self.outputs.row <= MOST_BYTES

    def at(self, X: Tensor) -> Tensor:
        """Values ``...`` at ``... x 1 x d`` points, differentiable once."""
        if X.requires_grad and torch.is_grad_enabled():
            return _Value.apply(X, self)
        return torch.from_numpy(self(_rows(X))).view(X.shape[:-2])


def _rows(X: Tensor) -> Array:
    return X.detach().reshape(-1, X.shape[-1]).numpy()


class _Value(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, X: Tensor, fused: Fused) -> Tensor:
        value, gradient = fused.with_gradient(_rows(X))
        ctx.save_for_backward(X)
        ctx.gradient = torch.from_numpy(gradient).view(X.shape)
        return torch.from_numpy(value).view(X.shape[:-2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        gradient = ctx.gradient * grad.detach()[..., None, None]
        if torch.is_grad_enabled():  # only where a second derivative may follow
            return Once.apply("an acquisition", gradient, *ctx.saved_tensors, grad), None
        return gradient, None


class Kept:
    """The outputs of a model, kept as long as its factors are the same."""

    def __init__(self) -> None:
        self._last: tuple[tuple[Cache, ...], Outputs | None] | None = None

    def __call__(self, model: Model) -> Outputs | None:
        """The outputs, ``None`` where the model has none of closed form."""
        caches = factors(model)
        if caches is None:
            return None
        if self._last is None or not all(a is b for a, b in zip_longest(self._last[0], caches)):
            self._last = caches, outputs(model, caches)
        return self._last[1]

    def __getstate__(self) -> dict[str, Any]:
        return {"_last": None}


def fused(acquisition: AcquisitionFunction) -> Fused | None:
    """The fused form of an acquisition function; ``None`` where it has none.

    Those of this package know theirs; BoTorch's ``UpperConfidenceBound`` and ``LogExpectedImprovement`` have one with
    a :class:`~mfbo_torch.models.CachedGP`.
    """
    own = getattr(acquisition, "fused", None)
    if own is not None:
        return own()
    kind = type(acquisition)
    if kind not in (UpperConfidenceBound, LogExpectedImprovement) or acquisition.posterior_transform is not None:
        return None
    number = acquisition.beta if kind is UpperConfidenceBound else acquisition.best_f
    caches = factors(acquisition.model)
    of = None if caches is None or number.numel() != 1 else outputs(acquisition.model, caches)
    if of is None:
        return None
    floor = max(settings.min_variance.value(torch.double), LEAST_VARIANCE)
    sign = 1.0 if acquisition.maximize else -1.0
    if kind is UpperConfidenceBound:
        return Fused(of, bound(math.sqrt(number.item()), floor, sign))
    return Fused(of, log_improvement(number.item(), floor, sign))


def bound(width: float, floor: float, weight: float = 1.0, offset: float = 0.0) -> Head:
    """``weight μ + offset + width σ`` of one output, its variance raised to ``floor``."""

    def head(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        deviation = np.sqrt(np.maximum(variance, floor))
        by_variance = np.where(variance > floor, 0.5 * width / deviation, 0.0)
        value = weight * mean + width * deviation + offset
        return value[0], np.full_like(mean, weight), by_variance

    return head


def least_bound(width: float, floor: float, lifts: Array) -> Head:
    """``min_m μ_m + width σ_m + lifts_m``; derivatives are those of the first of equals."""

    def head(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        deviation = np.sqrt(np.maximum(variance, floor))
        bounds = mean + width * deviation + lifts[:, None]
        chosen = bounds.argmin(0) == np.arange(len(bounds))[:, None]
        by_variance = np.where(chosen & (variance > floor), 0.5 * width / deviation, 0.0)
        return bounds.min(0), chosen.astype(float), by_variance

    return head


def log_improvement(best: float, floor: float, sign: float = 1.0) -> Head:
    r""":math:`\log h(u) + \log \sigma`, :math:`h(u) = \phi(u) + u \Phi(u)`, :math:`u = \pm (\mu - f^*) / \sigma`.

    [Ament2023logei]_ (Eq. 9).
    """

    def head(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        deviation = np.sqrt(np.maximum(variance, floor))
        u = sign * (mean - best) / deviation
        value, slope, rest = log_h(u)
        by_variance = np.where(variance > floor, 0.5 * rest / np.square(deviation), 0.0)
        return (value + np.log(deviation))[0], sign * slope / deviation, by_variance

    return head


def log_h(u: Array) -> tuple[Array, Array, Array]:
    r""":math:`\log h`, its slope :math:`\Phi / h` and :math:`\phi / h`, to the last digits however small ``h`` is."""
    above = np.maximum(u, -1.0)
    density, below = np.exp(-0.5 * np.square(above)) / math.sqrt(2 * math.pi), ndtr(above)
    h = density + above * below
    low = np.minimum(u, -1.0)
    ratio = math.sqrt(math.pi / 2) * erfcx(-low / math.sqrt(2))  # of the distribution to the density
    far = np.square(1 / np.minimum(low, FAR))
    series = far * (1 - far * (3 - far * (15 - far * (105 - far * (945 - far * 10395)))))
    share = np.where(low < FAR, series, 1 + low * ratio)  # of h to the density
    high = u > -1
    value = np.where(high, np.log(h), -0.5 * np.square(low) - 0.5 * math.log(2 * math.pi) + np.log(share))
    return value, np.where(high, below / h, ratio / share), np.where(high, density / h, 1 / share)


def affine(inner: Fused, factor: float, shift: float) -> Fused:
    """``factor a(x) + shift``."""

    def head(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        value, by_mean, by_variance = inner.head(mean, variance)
        return factor * value + shift, factor * by_mean, factor * by_variance

    return Fused(inner.outputs, head)
