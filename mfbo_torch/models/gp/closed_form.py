"""The loss of a fit and its gradient in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from botorch.exceptions import UnsupportedError
from botorch.optim.closures import NdarrayOptimizationClosure
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.kernels import Kernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.module import Module
from gpytorch.priors import LogNormalPrior, NormalPrior
from gpytorch.priors.prior import Prior
from linear_operator.utils.errors import NanError
from numpy.typing import NDArray
from torch import Tensor

from mfbo_torch.models.gp.shared_lengthscales import Shared
from mfbo_torch.ops.evidence import log_evidence
from mfbo_torch.ops.kernels import describe

Array = NDArray[np.float64]
Sloped = Callable[[Array], tuple[Array, Array]]
"""From numbers to values and their slopes."""
Summed = Callable[[Array], tuple[float, Array]]
"""From numbers to the sum of their values, and its slopes."""
MeanPart = tuple[Tensor, Tensor]
"""A parameter of a mean, and the ``n`` numbers that it is multiplied by."""
HALF_LOG = 0.5 * math.log(2 * math.pi)


class ClosedForm(NdarrayOptimizationClosure):
    """Minus the log marginal likelihood and the log priors of ``mll``, over ``n``, and its gradient: a closure of
    ``fit_gpytorch_mll``. With PyTorch's graph and BoTorch's copies it takes several times as long for dozens of points.

    Args:
        mll: Its model has the kernel, the parameters of the mean, and the noise where that is not known.
        X: ``n x d`` points.
        Y: ``n`` observations.
        kernel: RBF or Matérn, scaled or not.
        mean: What the mean is the sum of.
        noise: ``n`` noise variances, where they are known.

    Raises:
        UnsupportedError: Another kernel; a parameter or a prior of something else.
    """

    def __init__(
        self,
        mll: ExactMarginalLogLikelihood,
        X: Tensor,
        Y: Tensor,
        kernel: Kernel,
        mean: Sequence[MeanPart],
        noise: Tensor | None = None,
    ) -> None:
        self.kind, _, _ = describe(kernel, X.shape[-1])
        self.parameters = {name: p for name, p in mll.named_parameters() if p.requires_grad}
        self.X, self.Y, self.noise = X, Y, noise
        base = getattr(kernel, "base_kernel", kernel)
        size = base.raw_lengthscale.numel()
        usual = range(size) if size > 1 else [0] * X.shape[-1]
        self.groups = np.array(base.groups if isinstance(base, Shared) else usual)
        self.lengthscale = _Part(base, "raw_lengthscale")
        self.outputscale = None if base is kernel else _Part(kernel, "raw_outputscale")
        self.learnt_noise = None if noise is not None else _Part(mll.likelihood.noise_covar, "raw_noise")
        self.mean = [(_Part(None, parameter), column.cpu().double().numpy()) for parameter, column in mean]
        scales = [part for part in (self.lengthscale, self.outputscale, self.learnt_noise) if part is not None]
        self.parts, end = [*scales, *(part for part, _ in self.mean)], 0
        for name, parameter in self.parameters.items():
            part = _the_one(name, [part for part in self.parts if part.raw is parameter])
            part.place = slice(end, end := end + parameter.numel())
        for name, module, prior, value, _ in mll.model.named_priors():
            of = value(module)
            _the_one(name, [p for p in self.parts if p.module is module or p.raw is of]).take(prior)

    def __call__(self, state: Array | None = None, **_: Any) -> tuple[float, Array]:
        """The loss and its gradient where the parameters are ``state``, or as they are; NaN of numbers too large."""
        state = self.state if state is None else state
        try:
            return self._at(state)
        except NanError:
            return math.nan, np.full_like(state, math.nan)

    def _at(self, state: Array) -> tuple[float, Array]:
        for part in self.parts:
            part.read(state)
        like, n, noise = self.X, len(self.Y), self.noise
        lengthscale = torch.as_tensor(self.lengthscale.value[self.groups]).to(like)
        outputscale = like.new_ones(()) if self.outputscale is None else like.new_tensor(self.outputscale.value.item())
        if self.learnt_noise is not None:
            noise = like.new_tensor(self.learnt_noise.value.item()).expand(n)
        assert noise is not None
        mean = torch.as_tensor(sum(part.value * column for part, column in self.mean)).to(like)
        found = log_evidence(self.kind, self.X, self.Y - mean, lengthscale, outputscale, noise)
        total, gradient = found.value.item(), np.zeros_like(state)
        sides, pulls = (part.cpu().double().numpy() for part in (found.lengthscale, found.residuals))
        slopes: list[Array] = [np.bincount(self.groups, sides, self.lengthscale.value.size).astype(float)]
        slopes += [] if self.outputscale is None else [np.array([found.outputscale.item()])]
        slopes += [] if self.learnt_noise is None else [np.array([found.noise.sum().item()])]
        slopes += [np.array([-(column @ pulls)]) for _, column in self.mean]
        for part, slope in zip(self.parts, slopes, strict=True):
            total += part.add_priors(slope, gradient)
        return -total / n, gradient / -n

    def log_density(self) -> float:
        """The log density of data and hyper-parameters, by the logarithms of those whose prior is log-normal."""
        value, _ = self()
        return -value * len(self.Y) + sum(part.log() for part in self.parts)


class _Part:
    """A parameter with its constraint, its priors, and its place among all that are fitted, if it is."""

    def __init__(self, module: Module | None, name: str | Tensor) -> None:
        self.module, self.raw = module, getattr(module, name) if isinstance(name, str) else name
        bound = module.constraint_for_parameter_name(name) if module is not None else None
        self.sloped = _sloped(bound) if bound is not None and bound.enforced else None
        self.place: slice | None = None
        self.priors: list[Summed] = []
        self.is_logarithmic = False
        self.value, self.slope = np.zeros(0), np.zeros(0)

    def take(self, prior: Prior) -> None:
        self.priors.append(_log_prior(prior))
        self.is_logarithmic |= type(prior) is LogNormalPrior

    def read(self, state: Array) -> None:
        """Take the value from where all are."""
        raw = self.raw.detach().cpu().double().numpy().reshape(-1) if self.place is None else state[self.place]
        self.value, self.slope = (raw, np.ones_like(raw)) if self.sloped is None else self.sloped(raw)

    def add_priors(self, slope: Array, gradient: Array) -> float:
        """The log density of the priors; writes their slopes and ``slope``, that of the evidence, into the gradient."""
        total = 0.0
        for prior in self.priors:
            log, more = prior(self.value)
            total, slope = total + log, slope + more
        if self.place is not None:
            gradient[self.place] = slope * self.slope
        return total

    def log(self) -> float:
        return np.log(self.value).sum() if self.is_logarithmic else 0.0


def _the_one(name: str, found: list[_Part]) -> _Part:
    if not found:
        raise UnsupportedError(f"{name}: must be of the kernel, the noise or the mean")
    return found[0]


def _sloped(bound: Interval) -> Sloped:
    """What a constraint makes of a parameter."""
    if isinstance(bound, GreaterThan) and bound._transform is torch.exp:
        lower = bound.lower_bound.item()

        def exponential(raw: Array) -> tuple[Array, Array]:
            value = np.exp(raw)
            return value + lower, value

        return exponential
    return lambda raw: _through_torch(bound.transform, raw)


def _log_prior(prior: Prior) -> Summed:
    """From values to the log density of a prior, summed, and its slopes."""
    if type(prior) not in (NormalPrior, LogNormalPrior):
        return lambda value: _summed(*_through_torch(prior.log_prob, value))
    logarithmic = type(prior) is LogNormalPrior
    of = prior.base_dist if logarithmic else prior
    loc, scale = of.loc.item(), of.scale.item()
    constant = math.log(scale) + HALF_LOG

    def normal(value: Array) -> tuple[float, Array]:
        z = (value - loc) / scale
        return -0.5 * (z @ z) - len(value) * constant, -z / scale

    def log_normal(value: Array) -> tuple[float, Array]:
        log = np.log(value)
        z = (log - loc) / scale
        return -0.5 * (z @ z) - log.sum() - len(value) * constant, -(1.0 + z / scale) / value

    return log_normal if logarithmic else normal


def _summed(logs: Array, slopes: Array) -> tuple[float, Array]:
    return logs.sum(), slopes


def _through_torch(function: Callable[[Tensor], Tensor], at: Array) -> tuple[Array, Array]:
    with torch.enable_grad():
        x = torch.tensor(at, requires_grad=True)
        value = function(x)
        return value.detach().numpy(), torch.autograd.grad(value.sum(), x)[0].numpy()
