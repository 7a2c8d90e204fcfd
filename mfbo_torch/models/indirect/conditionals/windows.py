r"""Conditionals that average over a window around a location."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from gpytorch.kernels import Kernel
from gpytorch.means import ConstantMean, LinearMean, ZeroMean
from torch import Tensor
from torch.quasirandom import SobolEngine
from torch.utils.checkpoint import checkpoint

from mfbo_torch.models.gp.means import ScaledConstantMean
from mfbo_torch.models.indirect.conditionals import closed_forms, composed
from mfbo_torch.models.indirect.conditionals.base import (
    Conditional,
    Embedding,
    Function,
    check_queries,
    frozen,
    of_kind,
)
from mfbo_torch.ops.kernels import gram
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, several, whole

AFFINE = (ScaledConstantMean, ConstantMean, ZeroMean, LinearMean)
"""Means whose average over a symmetric window is their value in its centre."""
MEAN_SAMPLES = 256
"""Number of quasi-Monte-Carlo points for the average of any other mean."""
MOST_PRODUCTS = 2**24
"""Largest size of one quasi-Monte-Carlo product, in numbers."""

Width = float | Sequence[float] | Tensor | Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Windows(Embedding, composed.Independent):
    """Windows of one shape, ``... x m x d`` centres and widths as the shape understands them, each replaced by
    ``num_samples`` points drawn with ``seed``; ``None`` for closed forms."""

    location: Tensor
    width: Tensor
    num_samples: int | None
    seed: int

    @staticmethod
    @abstractmethod
    def standard(uniform: Tensor) -> Tensor:
        """Uniform numbers of (0, 1) as draws from the window of width one around zero."""

    def samples(self, count: int) -> Tensor:
        """``... x m x count x d`` quasi-Monte-Carlo points of the windows, symmetric around their centres."""
        d = self.location.shape[-1]
        drawn = SobolEngine(d, scramble=True, seed=self.seed).draw((count + 1) // 2, dtype=torch.double)
        half = self.standard(drawn.clamp(1e-12, 1 - 1e-12).to(self.location))
        points = torch.cat([half, -half])[:count]
        return self.location.unsqueeze(-2) + self.width.unsqueeze(-2) * points

    def mean(self, mean: Function) -> Tensor:
        if isinstance(mean, AFFINE):
            return mean(self.location)
        return mean(self.samples(self.num_samples or MEAN_SAMPLES)).mean(-1)

    def cross(self, kernel: Kernel, X: Tensor) -> Tensor:
        if self.num_samples is None:
            return self._closed(kernel, X, None).mT
        return _means(kernel, self.samples(self.num_samples), X.unsqueeze(-2)).mT

    def covariance(self, kernel: Kernel, other: Embedding) -> Tensor:
        other = of_kind(type(self), other)
        if self.num_samples is None:
            return self._closed(kernel, other.location, other)
        return _means(kernel, self.samples(self.num_samples), other.samples(self.num_samples))

    def variance(self, kernel: Kernel) -> Tensor:
        d = self.location.shape[-1]
        step = 2**62 if self.num_samples is None else max(MOST_PRODUCTS // self.num_samples**2, 1)
        locations, widths = (flat.reshape(-1, 1, d).split(step) for flat in (self.location, self.width))
        pairs = zip(locations, widths, strict=True)
        singles = [type(self)(location, width, self.num_samples, self.seed) for location, width in pairs]
        return torch.cat([one.covariance(kernel, one) for one in singles]).view(self.location.shape[:-1])

    def joined(self, other: Embedding) -> Self:
        other = of_kind(type(self), other)
        location = torch.cat([self.location, other.location], -2)
        return type(self)(location, torch.cat([self.width, other.width], -2), self.num_samples, self.seed)

    def over(self, dims: Tensor) -> Self:
        location, width = (numbers.index_select(-1, dims) for numbers in (self.location, self.width))
        return type(self)(location, width, self.num_samples, self.seed)

    def _closed(self, kernel: Kernel, centres: Tensor, other: Self | None) -> Tensor:
        try:
            return composed.average(kernel, self, centres, other)
        except UnsupportedError as error:
            raise UnsupportedError(f"no closed form: {error}; or give num_samples for quasi-Monte-Carlo") from error


def _means(kernel: Kernel, A: Tensor, B: Tensor) -> Tensor:
    """Covariances averaged over the points of ``... x m x s x d`` and ``... x n x r x d`` windows, ``... x m x n``."""
    s, r, n = A.shape[-2], B.shape[-2], B.shape[-3]
    flat = B.flatten(-3, -2)
    step = max(MOST_PRODUCTS // max(s * r * n * A.shape[:-3].numel(), 1), 1)

    def averaged(part: Tensor) -> Tensor:
        block = gram(kernel, part.flatten(-3, -2), flat)
        return block.unflatten(-1, (n, r)).unflatten(-3, (-1, s)).mean((-3, -1))

    parts = A.split(step, dim=-3)
    if len(parts) == 1:
        return averaged(A)
    return torch.cat([checkpoint(averaged, part, use_reentrant=False) for part in parts], -2)


class GaussianWindows(Windows):
    """The width is a standard deviation."""

    def averaged(self, distance: Tensor, squared: Tensor, j: int, other: Self | None) -> Tensor:
        variance = self.width[..., j].square().unsqueeze(-1)
        if other is not None:
            variance = variance + other.width[..., j].square().unsqueeze(-2)
        return closed_forms.gaussian(distance, variance, squared)

    @staticmethod
    def standard(uniform: Tensor) -> Tensor:
        return torch.special.ndtri(uniform)


class UniformWindows(Windows):
    """The width is half of a side."""

    def averaged(self, distance: Tensor, squared: Tensor, j: int, other: Self | None) -> Tensor:
        scale = squared.sqrt()
        first = self.width[..., j].unsqueeze(-1) / scale
        second = None if other is None else other.width[..., j].unsqueeze(-2) / scale
        return closed_forms.uniform(distance / scale, first, second)

    @staticmethod
    def standard(uniform: Tensor) -> Tensor:
        return 2 * uniform - 1


class WindowConditional(Conditional):
    """Windows of a given width around a given location."""

    shape: type[Windows]
    fixed_width: Tensor | None

    def __init__(
        self,
        width: Width,
        location: Callable[[Tensor], Tensor] | None = None,
        *,
        num_samples: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if num_samples is not None:
            num_samples = whole("num_samples", num_samples, 2, wanted="None or a whole number from 2 on")
        self.location = frozen(location)
        self.num_samples, self.seed = num_samples, whole("seed", seed, 0)
        self.width: Any = frozen(width) if callable(width) else None
        fixed = None
        if not callable(width):
            if not isinstance(width, Tensor):
                given = width if isinstance(width, Iterable) else [width]
                width = several("width", given, partial(number, above=0), "positive numbers")
            fixed = torch.as_tensor(width, dtype=torch.double).reshape(-1)
            _check_width(fixed)
        self.register_buffer("fixed_width", fixed)

    def embed(self, A: Tensor) -> Windows:
        check_queries(A)
        location = A if self.location is None else self.location(A)
        if location.shape[:-1] != A.shape[:-1]:
            raise BotorchTensorDimensionError(
                f"location of shape {tuple(location.shape)} at queries of shape {tuple(A.shape)}: must be ... x m x d"
            )
        if self.fixed_width is not None:
            width = self.fixed_width.to(location)
        else:
            width = self.width(A)
            _check_width(width)
        try:
            width = width.expand(location.shape)
        except RuntimeError as error:
            raise BotorchTensorDimensionError(
                f"width of shape {tuple(width.shape)} at a location of shape {tuple(location.shape)}: "
                "must be one number, d numbers or ... x m x d"
            ) from error
        return self.shape(location, width, self.num_samples, self.seed)

    def extent(self, A: Tensor) -> Tensor:
        location = self.embed(A).location
        return location.new_ones(location.shape[-1])

    def standard_error(self, kernel: Kernel, A: Tensor, other: Tensor | None = None, repeats: int = 8) -> Tensor:
        """Standard error of :meth:`covariance` by quasi-Monte-Carlo, from independently scrambled repeats; a
        ``SettingError`` without ``num_samples``, as the closed form has no such error."""
        if self.num_samples is None:
            raise SettingError("num_samples", None, "a number: closed forms have no sampling error")
        first = self.embed(A)
        second = first if other is None else self.embed(other)
        runs = []
        for seed in range(self.seed + 1, self.seed + 1 + whole("repeats", repeats, 2)):
            left, right = (self.shape(e.location, e.width, self.num_samples, seed) for e in (first, second))
            runs.append(left.covariance(kernel, right))
        return torch.stack(runs).std(0)


class GaussianConditional(WindowConditional):
    r"""A query averages over :math:`N(h(a), \mathrm{diag}\, \tau(a)^2)` [Zhang2024indirect]_ (Section 3.2).

    Closed forms for RBF, linear and constant kernels, whatever ``h``; for Matérn and rational quadratic ones to an
    absolute error of :data:`~mfbo_torch.models.indirect.conditionals.closed_forms.MIXTURE_ERROR` times the output
    scale; for scales and sums of these, and products over different inputs
    (:mod:`~mfbo_torch.models.indirect.conditionals.composed`); for others by quasi-Monte-Carlo if ``num_samples`` is
    given.

    Args:
        width: Standard deviations :math:`\tau`: a number, ``d`` numbers, or a function from
            ``... x m x p`` queries to ``... x m x d`` (or ``... x m x 1``), for the resolution as part of the query.
        location: ``h``, a function from ``... x m x p`` queries to ``... x m x d``; the query itself if omitted.
        num_samples: Average over that many quasi-random points a window instead, for any kernel;
            :meth:`standard_error` gives the error.
        seed: Of those points.

    Raises:
        SettingError: A width that is not positive, or ``num_samples`` below 2.
        UnsupportedError: A kernel without a closed form, when a covariance is computed.
    """

    shape = GaussianWindows


class UniformConditional(WindowConditional):
    r"""A query averages over the box :math:`h(a) \pm \delta(a)` [Zhang2024indirect]_ (Section 3.2): ``width`` is the
    half-widths :math:`\delta`; all else is as for :class:`GaussianConditional`."""

    shape = UniformWindows


def _check_width(width: Tensor) -> None:
    if not (width.isfinite() & (width > 0)).all():
        worst = width[~(width > 0)].flatten()
        value = worst[0].item() if worst.numel() else float("inf")
        if width.dim() == 1:
            raise SettingError("width", value, "positive numbers")
        raise InputDataError(f"width = {value:g} of a query: must be positive")
