r"""How far from what was observed a model is believed: as far as what it predicted came true.

The region is the union of the cubes of half-width ``r`` around the observed designs. ``r`` grows by :data:`GROWTH`
where a value came within :data:`USUAL` deviations of what was predicted, and halves where it did not, as the radius of
a trust-region method does by the ratio of what was gained to what was promised. In many dimensions a model that is too
sure of itself sends every query to a place that no observation is near [Eriksson2019turbo]_.

References:

.. [Eriksson2019turbo]
    D. Eriksson, M. Pearce, J. R. Gardner, R. Turner, M. Poloczek. Scalable Global Optimization via Local Bayesian
    Optimization. NeurIPS 2019.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.acquisition.fused import Fused, fused
from mfbo_torch.history import Record
from mfbo_torch.ops.posterior.fused import OnArrays, plain
from mfbo_torch.ops.prepared import Array

MANY = 7
"""Number of parameters from which on there is a region. With fewer the first design leaves no place far from all
observations, and on functions of two to five parameters a region cost more than it gained."""
FIRST, LEAST, MOST = 0.1, 0.05, 1.0
"""Half-widths in the unit cube; from :data:`MOST` on there is no region."""
GROWTH, USUAL = math.sqrt(2), 2.0


def half_width(records: Iterable[Record], models: Collection[str]) -> float:
    """The half-width after what some models have predicted, by the ``model`` that each query notes."""
    width = FIRST
    for record in records:
        noted = record.query.meta
        if record.value is not None and noted.get("model") in models and "spread" in noted:
            usual = abs(record.value - noted["mean"]) <= USUAL * noted["spread"]
            width = min(MOST, width * GROWTH) if usual else max(LEAST, width / 2)
    return width


class Trusted(AcquisitionFunction):
    """An acquisition function at the point of the region that is nearest along each axis.

    Args:
        inner: The acquisition function of one point.
        designs: ``n x d`` observed designs.
        width: Half-width of the cubes.
    """

    def __init__(self, inner: AcquisitionFunction, designs: Tensor, width: float) -> None:
        super().__init__(inner.model)
        self.inner, self.designs, self.width = inner, designs, width

    def moved(self, X: Tensor) -> Tensor:
        """``... x d`` points, each moved into the cube of the observed design that is nearest by the largest
        difference of a coordinate."""
        apart = torch.cdist(X.detach().reshape(-1, X.shape[-1]), self.designs, p=math.inf)
        centre = self.designs[apart.argmin(-1)].reshape(X.shape)
        return X.clamp(centre - self.width, centre + self.width)

    def forward(self, X: Tensor) -> Tensor:
        """Values ``...`` at ``... x 1 x d`` points."""
        return self.inner(self.moved(X))

    def fused(self) -> Fused | None:
        """The fused form of the other acquisition at moved points; ``None`` where it has none."""
        inner = fused(self.inner)
        return (
            None if inner is None or not plain(self.designs) else Fused(_Moved(inner.outputs, self.moved), inner.head)
        )


class _Moved:
    """The outputs of a model at points that are moved first, which have no slope along the axes that are held."""

    def __init__(self, inner: OnArrays, moved: Callable[[Tensor], Tensor]) -> None:
        self.inner, self.moved = inner, moved
        self.dim, self.row, self.device = inner.dim, inner.row, inner.device

    def moments(self, X: Array, gradient: bool = False) -> tuple[Array, Array, list[Any]]:
        there = self.moved(torch.from_numpy(X)).numpy()
        mean, variance, found = self.inner.moments(there, gradient)
        return mean, variance, [found, there == X]

    def gradient(self, found: list[Any], by_mean: Array | float, by_variance: Array) -> Array:
        return self.inner.gradient(found[0], by_mean, by_variance) * found[1]
