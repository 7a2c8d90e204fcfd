r"""Acquisition functions of one point with their gradients in closed form, on arrays.

A function :math:`a(\mu(x), \sigma^2(x))` of means and variances is a :data:`Head`, which gives its value and its
derivatives in both; the chain rule with those of :class:`~mfbo_torch.ops.posterior.fused.Outputs` is its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import is_
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement, UpperConfidenceBound
from botorch.models.model import Model
from gpytorch import settings
from scipy.special import erfcx, ndtr
from torch import Tensor

from mfbo_torch.models.gp.conditioned import ConditionedModel
from mfbo_torch.models.multi_fidelity.target import TargetModel
from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.once import Once
from mfbo_torch.ops.posterior.fused import MOST_BYTES, OnArrays, Outputs, plain, rows
from mfbo_torch.ops.prepared import Array

Head: TypeAlias = Callable[[Array, Array], tuple[Array, Callable[[], tuple[Array | float, Array]]]]
"""From means and variances, ``b`` or ``M x b``, to values ``b`` and a function that gives the derivatives in both."""

FLOOR = torch.finfo(torch.double).tiny
"""Smallest variance in the bounds here, whatever the unit of the values: a square root of zero has no slope."""
LEAST_VARIANCE = 1e-12
"""Smallest variance in BoTorch's analytic acquisitions."""
SERIES_BELOW = -30.0
"""The argument below which the ratio of a normal's distribution to its density is taken from its series."""


class Fused(NamedTuple):
    """An acquisition function on arrays: the ``head`` of means and variances of its model's ``outputs``."""

    outputs: OnArrays
    head: Head

    def __call__(self, X: Array) -> Array:
        """Values ``b`` at ``b x d`` points."""
        mean, variance, _ = self.outputs.moments(X)
        return self.head(mean, variance)[0]

    def with_gradient(self, X: Array) -> tuple[Array, Array]:
        """Values ``b`` and gradients ``b x d`` at ``b x d`` points."""
        mean, variance, found = self.outputs.moments(X, gradient=True)
        value, slopes = self.head(mean, variance)
        return value, self.outputs.gradient(found, *slopes())

    def descent(self, X: Array, starts: Any = None) -> tuple[Array, Array]:
        """Minus values and gradients, for a minimiser; from which starts the points come plays no part."""
        value, gradient = self.with_gradient(X)
        return -value, -gradient

    def takes(self, X: Tensor) -> bool:
        """Whether points are ``b x 1 x d``, few, in double precision and on the processor."""
        *batch, one, d = X.shape
        fit = bool(batch) and one == 1 and d == self.outputs.dim and plain(X)
        return fit and X.numel() * self.outputs.row <= MOST_BYTES * d

    def at(self, X: Tensor) -> Tensor:
        """Values ``...`` at ``... x 1 x d`` points, differentiable once."""
        if X.requires_grad and torch.is_grad_enabled():
            return _Value.apply(X, self)
        return torch.from_numpy(self(rows(X)).reshape(X.shape[:-2]))


class _Value(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, X: Tensor, fused: Fused) -> Tensor:
        value, ctx.gradient = fused.with_gradient(rows(X))
        ctx.save_for_backward(X)
        return torch.from_numpy(value.reshape(X.shape[:-2]))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (X,) = ctx.saved_tensors
        gradient = torch.from_numpy((ctx.gradient * grad.detach().numpy().reshape(-1, 1)).reshape(X.shape))
        if torch.is_grad_enabled():  # only where a second derivative may follow
            return Once.apply("an acquisition", gradient, X, grad), None
        return gradient, None


def deviation(variance: Tensor) -> Tensor:
    """The square root of variances, which has a slope everywhere: none where they are 0."""
    return variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()


class LastOutputs:
    """The outputs of a model in closed form, made anew when its factors have changed."""

    def __init__(self) -> None:
        self._last: tuple[tuple[Cache, ...], Outputs | None] | None = None

    def __call__(self, model: Model) -> Outputs | None:
        """The outputs; ``None`` where the model has none in closed form."""
        caches = model.factors() if isinstance(model, ConditionedModel) else None
        if caches is None:
            return None
        if self._last is None or len(caches) != len(self._last[0]) or not all(map(is_, caches, self._last[0])):
            self._last = caches, model.outputs(caches)
        return self._last[1]

    def __getstate__(self) -> dict[str, Any]:
        return {"_last": None}


def fused(acquisition: AcquisitionFunction) -> Fused | None:
    """The fused form of an acquisition function; ``None`` where it has none. Those of this package have a method for
    it; BoTorch's ``UpperConfidenceBound`` and ``LogExpectedImprovement`` have one with a
    :class:`~mfbo_torch.models.CachedGP` and with a :class:`~mfbo_torch.models.multi_fidelity.target.TargetModel`."""
    own = getattr(acquisition, "fused", None)
    if own is not None:
        return own()
    kind = type(acquisition)
    if kind not in (UpperConfidenceBound, LogExpectedImprovement) or acquisition.posterior_transform is not None:
        return None
    number = acquisition.beta if kind is UpperConfidenceBound else acquisition.best_f
    if number.numel() != 1:
        return None
    model = acquisition.model
    of = model.on_arrays() if isinstance(model, TargetModel) else LastOutputs()(model)
    if of is None:
        return None
    floor = max(settings.min_variance.value(torch.double), LEAST_VARIANCE)
    sign = 1.0 if acquisition.maximize else -1.0
    if kind is UpperConfidenceBound:
        return Fused(of, bound(math.sqrt(number.item()), floor, sign))
    return Fused(of, log_improvement(number.item(), floor, sign))


def bound(width: float, floor: float, weight: float = 1.0, offset: float = 0.0) -> Head:
    """``weight μ + offset + width σ`` of one output, its variance raised to ``floor``."""

    def head(mean: Array, variance: Array) -> tuple[Array, Callable[[], tuple[float, Array]]]:
        deviation = np.sqrt(np.maximum(variance, floor))
        value = width * deviation
        value += mean if weight == 1 else weight * mean
        return value + offset if offset else value, lambda: (weight, _through(deviation, variance, floor, width))

    return head


def _through(deviation: Array, variance: Array, floor: float, slope: Array | float) -> Array:
    """The derivative in the variance of a function with a slope in the deviation; none at the floor."""
    by_variance: Array = 0.5 * slope / deviation
    by_variance[variance <= floor] = 0.0
    return by_variance


def least_bound(width: float, floor: float, lifts: Array) -> Head:
    """``min_m μ_m + width σ_m + lifts_m``; derivatives are those of the first of equals."""

    def head(mean: Array, variance: Array) -> tuple[Array, Callable[[], tuple[Array, Array]]]:
        deviation = np.sqrt(np.maximum(variance, floor))
        bounds = mean + width * deviation + lifts[:, None]

        def slopes() -> tuple[Array, Array]:
            chosen = (bounds.argmin(0) == np.arange(len(bounds))[:, None]).astype(float)
            return chosen, _through(deviation, variance, floor, width * chosen)

        return bounds.min(0), slopes

    return head


def log_improvement(best: float, floor: float, sign: float = 1.0) -> Head:
    r""":math:`\log h(u) + \log \sigma`, :math:`h(u) = \phi(u) + u \Phi(u)`, :math:`u = \pm (\mu - f^*) / \sigma`
    [Ament2023logei]_ (Eq. 9)."""

    def head(mean: Array, variance: Array) -> tuple[Array, Callable[[], tuple[Array, Array]]]:
        deviation = np.sqrt(np.maximum(variance, floor))
        value, slope, rest = log_h(sign * (mean - best) / deviation)

        def slopes() -> tuple[Array, Array]:
            return sign * slope / deviation, _through(deviation, variance, floor, rest / deviation)

        return value + np.log(deviation), slopes

    return head


def log_h(u: Array) -> tuple[Array, Array, Array]:
    r""":math:`\log h`, its slope :math:`\Phi / h` and :math:`\phi / h`, to the last digits however small ``h`` is."""
    above = np.maximum(u, -1.0)
    density, below = np.exp(-0.5 * np.square(above)) / math.sqrt(2 * math.pi), ndtr(above)
    h = density + above * below
    low = np.minimum(u, -1.0)
    ratio = math.sqrt(math.pi / 2) * erfcx(-low / math.sqrt(2))  # of the distribution to the density
    t = np.square(1 / np.minimum(low, SERIES_BELOW))
    series = t * (1 - t * (3 - t * (15 - t * (105 - t * (945 - t * 10395)))))
    share = np.where(low < SERIES_BELOW, series, 1 + low * ratio)  # of h to the density
    high = u > -1
    value = np.where(high, np.log(h), -0.5 * np.square(low) - 0.5 * math.log(2 * math.pi) + np.log(share))
    return value, np.where(high, below / h, ratio / share), np.where(high, density / h, 1 / share)


def affine(inner: Fused, factor: float, shift: float) -> Fused:
    """``factor a(x) + shift``."""

    def head(mean: Array, variance: Array) -> tuple[Array, Callable[[], tuple[Array | float, Array]]]:
        value, slopes = inner.head(mean, variance)

        def scaled() -> tuple[Array | float, Array]:
            by_mean, by_variance = slopes()
            return factor * by_mean, factor * by_variance

        return factor * value + shift, scaled

    return Fused(inner.outputs, head)
