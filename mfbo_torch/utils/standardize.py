"""The scale of observed values in any unit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

ROUNDING = 1e-14
"""Relative spread below which values count as equal: some units of double precision."""


def varies(Y: Tensor) -> bool:
    """Whether values differ by more than rounding, in any units and beside any offset."""
    return Y.numel() > 1 and bool(Y.max() - Y.min() > ROUNDING * Y.abs().max())


def shift_scale(Y: Tensor, least: float = 0.0, few: int = 1) -> tuple[float, float]:
    """Mean and standard deviation of values. Where the spread is not known, as for at most ``few`` values or equal
    ones, the scale is the largest of it, ``least`` (such as the noise's) and their size, or 1; the mean of no values is
    0."""
    if Y.numel() == 0:
        return 0.0, max(least, 1.0)
    shift = Y.mean().item()
    spread = Y.std().item() if Y.numel() > 1 else 0.0
    if Y.numel() > few and varies(Y):
        return shift, spread
    return shift, max(spread, least, Y.abs().max().item()) or 1.0


def outliers(values: Sequence[float]) -> np.ndarray:
    """Which values, a fifth at most, are outliers: a hundred times as far from the median as the others are apart."""
    if len(set(values)) < 2:
        return np.zeros(len(values), bool)
    distance = np.abs(np.array(values) - np.median(values))
    apart = np.ptp(np.array(values)[distance.argsort(kind="stable")[: math.ceil(0.8 * len(values))]])
    return (distance > 100.0 * apart) & bool(apart)


def extent(values: Sequence[float], also: Sequence[float] = ()) -> tuple[float, float]:
    """The ends of an axis for the values that are not :func:`outliers`, and for some more, with a margin."""
    kept = np.array([*np.array(values)[~outliers(values)], *also])
    margin = 0.05 * np.ptp(kept)
    return float(kept.min() - margin), float(kept.max() + margin)
