r"""Outcome transforms: one monotone map that shortens long tails of values, and what counts as an outlier."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mfbo_torch.utils.standardize import varies

BELOW, ABOVE = (0.0, *(4.0**k for k in range(60))), (0.0, 1.0)
"""How strongly the tails may be shortened, per deviation: by 1, six deviations become two. Losses that explode are
below, and make up the deviation themselves; what stands out above is what is looked for."""
PRICE = 3.0
"""Nats by which a bend must raise the likelihood."""

MIN_VALUES = 10
"""Number of values below which nothing is said of their tails."""
OUTLIER = 10.0
"""A value this many times as far from the centre as any other is an outlier: an explosion, or another unit."""


@dataclass(frozen=True)
class Warp:
    r"""The identity near a centre, a logarithm far from it.

    .. math:: g(y) = \mathrm{sign}(u) \log(1 + a |u|) / a, \qquad u = (y - c) / s

    with ``c`` the centre, ``s`` the scale and one ``a`` for each side of the centre; ``a = 0`` leaves a side as it is.
    """

    centre: float = 0.0
    scale: float = 1.0
    below: float = 0.0
    above: float = 0.0

    def __call__(self, Y: Tensor) -> Tensor:
        """The values in its units."""
        u = (Y - self.centre) / self.scale
        return torch.where(u < 0, -_bent(-u, self.below), _bent(u, self.above))

    def with_noise(self, Y: Tensor, Yvar: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The values in its units, and the variances of their noise, where known, to first order."""
        return self(Y), None if Yvar is None else Yvar * (2 * self.log_slope(Y)).exp()

    def inverse(self, Z: Tensor) -> Tensor:
        """Back to the values."""
        u = torch.where(Z < 0, -_straight(-Z, self.below), _straight(Z, self.above))
        return self.centre + self.scale * u

    def log_slope(self, Y: Tensor) -> Tensor:
        """The logarithm of ``g'``."""
        u = (Y - self.centre) / self.scale
        bend = torch.where(u < 0, self.below, self.above)
        return -torch.log1p(bend * u.abs()) - math.log(self.scale)

    def unit(self, Y: Tensor) -> float:
        """What one of its units is about in those of some values: the median of ``1 / g'``."""
        return (-self.log_slope(Y)).exp().median().item()

    def moments(self, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
        """The median and half the distance of the quantiles one deviation from it, of a normal in its units."""
        return self.inverse(mean), 0.5 * (self.inverse(mean + deviation) - self.inverse(mean - deviation))


IDENTITY = Warp()


def fitted(Y: Tensor, others: Sequence[Tensor] = ()) -> Warp:
    """The map under which ``n`` values from points that fill the space look most like a normal sample, by likelihood;
    the identity's shape where no bend is worth :data:`PRICE`. Values of other fidelities that are mapped as well count
    where they are outliers beside ``Y`` (:data:`OUTLIER`); where all values of one fidelity are, it has other units,
    and nothing is bent."""
    Y = Y.reshape(-1).double()
    if len(Y) < MIN_VALUES or not varies(Y):
        return IDENTITY
    centre = Y.median().item()
    reach = OUTLIER * (Y - centre).abs().max()
    beyond = [(other - centre).abs() > reach for other in others]
    if any(outliers.numel() and outliers.all() for outliers in beyond):
        return IDENTITY
    Y = torch.cat([Y, *(other[outliers].to(Y) for other, outliers in zip(others, beyond, strict=True))])
    scale = Y.std().item()

    def merit(warp: Warp) -> float:
        bends = (warp.below > 0) + (warp.above > 0)
        return (warp.log_slope(Y).sum() - len(Y) * warp(Y).std().log()).item() - PRICE * bends

    best = max((Warp(centre, scale, a, b) for a, b in itertools.product(BELOW, ABOVE)), key=merit)
    return best if best.below or best.above else IDENTITY


def separated(values: Sequence[float]) -> bool:
    """Whether up to half of some values are :data:`OUTLIER` times as far below their centre as the others are apart."""
    return edge(values) > min(values)


def edge(values: Sequence[float]) -> float:
    """The smallest value that is not separated from those above it."""
    ordered = sorted(values)
    centre, top = ordered[len(ordered) // 2], ordered[-1]
    pairs = itertools.pairwise(ordered)
    gaps = [upper for lower, upper in pairs if upper <= centre and 0 < OUTLIER * (top - upper) < centre - lower]
    return max(gaps, default=ordered[0])


def last_outlier(first: Sequence[float], later: Sequence[float]) -> int | None:
    """The place of the last of some later values that is :data:`OUTLIER` times as far below the centre of the ``first``
    ones, at least one, as all before; ``None`` if none is."""
    centre = sorted(first)[(len(first) - 1) // 2]
    reach, last = OUTLIER * max(abs(value - centre) for value in first), None
    for k, value in enumerate(later):
        if 0 < reach < centre - value:
            last = k
        reach = max(reach, OUTLIER * abs(value - centre))
    return last


def near_limit(margins: Sequence[float]) -> list[tuple[float, float]]:
    """The margins by which an outcome keeps its limit, negative where it is broken, with outliers beyond the limit,
    such as penalties, drawn near; and the slope of the map at each.

    The range of the first :data:`MIN_VALUES` margins that are not :func:`separated`, and of the limit itself, is from
    ``e`` to ``e + r``, and grows with every value. A margin :math:`e - r u` with ``u`` above :data:`OUTLIER` becomes
    :math:`e - r u / (1 + u)`.
    """
    first = [*margins[:MIN_VALUES], 0.0]
    low, high = min(edge(first), 0.0), max(first)
    outliers: list[bool] = []
    for margin in margins:
        outliers.append(0 < OUTLIER * (high - low) < low - margin)
        if not outliers[-1]:
            low, high = min(low, margin), max(high, margin)
    found: list[tuple[float, float]] = []
    for margin, outlier in zip(margins, outliers, strict=True):
        u = (low - margin) / (high - low) if outlier else 0.0
        found.append((low - (high - low) * u / (1 + u), (1 + u) ** -2) if outlier else (margin, 1.0))
    return found


def _bent(u: Tensor, bend: float) -> Tensor:
    return torch.log1p(bend * u.clamp_min(0.0)) / bend if bend else u


def _straight(z: Tensor, bend: float) -> Tensor:
    return torch.expm1((bend * z.clamp_min(0.0)).clamp_max(50.0)) / bend if bend else z
