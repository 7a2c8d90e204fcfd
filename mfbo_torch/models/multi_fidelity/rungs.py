r"""What is believed of each fidelity of a chain: its moments, and how it covaries with designs asked further up.

Where a fidelity was asked at a design and the one below was not, the value says something of both. The posterior of
the fidelity below, with mean :math:`\mu` and covariance :math:`C`, is the prior of the next one,

.. math:: f = c + \rho g + \delta, \qquad g \sim GP(\mu, C), \quad \delta \sim GP(0, k),

whose observations are thus of covariance :math:`k + E[\rho^2] C` about :math:`c + \rho \mu`. For nested designs
without noise :math:`C` is 0 there, and this is the recursion of [LeGratiet2014recursive]_ (Eqs. 9, 10).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from mfbo_torch.models.multi_fidelity.residual import Residual, basis
from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.kernels import cross_correlation
from mfbo_torch.ops.kriging import Prediction, covariance, predict, variance


class FidelityView(ABC):
    """A fidelity seen from ``... x q`` points, in its unit."""

    mean: Tensor
    """``... x q``."""

    @abstractmethod
    def variance(self) -> Tensor:
        """``... x q``."""

    @abstractmethod
    def above(self) -> Tensor:
        """``... x q x r``, covariances with the same fidelity at the ``r`` designs asked further up."""

    @abstractmethod
    def covariance(self) -> Tensor:
        """``... x q x q``."""

    @abstractmethod
    def of(self, which: slice) -> Self:
        """From some of ``q x d`` points."""


@dataclass(frozen=True, eq=False)
class Root:
    """A fidelity that follows none.

    Args:
        cache: Its factor.
        designs: ``r x d`` designs asked further up.
    """

    cache: Cache
    designs: Tensor

    def at(self, X: Tensor) -> RootView:
        """As seen from ``... x q x d`` points."""
        cross = self.cache.cross_covariance(X)
        mean = self.cache.constant + (cross @ self.cache.alpha.unsqueeze(-1)).squeeze(-1)
        return RootView(self, X, mean, cross @ self.cache.inverse.mT)

    @cached_property
    def seen_above(self) -> RootView:
        """As seen from the designs asked further up."""
        with torch.no_grad():
            return self.at(self.designs)


@dataclass(frozen=True, eq=False)
class RootView(FidelityView):
    """See :class:`FidelityView`; ``whitened`` is :math:`L^{-1} k`, a point a row."""

    root: Root
    X: Tensor
    mean: Tensor
    whitened: Tensor

    def variance(self) -> Tensor:
        return (self.root.cache.outputscale - self.whitened.square().sum(-1)).clamp_min(0.0)

    def above(self) -> Tensor:
        return self._with(self.root.seen_above)

    def covariance(self) -> Tensor:
        return self._with(self)

    def of(self, which: slice) -> Self:
        return replace(self, X=self.X[which], mean=self.mean[which], whitened=self.whitened[which])

    def _with(self, other: RootView) -> Tensor:
        cache = self.root.cache
        prior = cache.outputscale * cross_correlation(cache.kernel, cache.scaled(self.X), cache.scaled(other.X))
        return prior - self.whitened @ other.whitened.mT


@dataclass(frozen=True, eq=False)
class Rung:
    """A fidelity that follows the one below.

    Args:
        below: That one.
        residual: What it has beyond it.
        slope: The expected slope, of the residual without what is unknown below.
        squared: Its expected square.
        designs: ``r x d`` designs asked further up: those of the one below, less its own.
    """

    below: Root | Rung
    residual: Residual
    slope: Tensor
    squared: Tensor
    designs: Tensor

    def at(self, X: Tensor, below: RootView | RungView) -> RungView:
        """As seen from ``... x q x d`` points, from where the one below looks like this."""
        further = self.squared * below.above()
        own = further.shape[-1] - len(self.designs)
        seen = predict(self.residual.kriging, X, basis(below.mean), further[..., :own])
        mean = (self.residual.weights.unsqueeze(-1) * seen.mean).sum(-2)
        return RungView(self, X, mean, below, seen, further[..., own:])

    @cached_property
    def seen_above(self) -> RungView:
        """As seen from the designs asked further up."""
        with torch.no_grad():
            own = len(self.below.designs) - len(self.designs)
            return self.at(self.designs, self.below.seen_above.of(slice(own, None)))


@dataclass(frozen=True, eq=False)
class RungView(FidelityView):
    """See :class:`FidelityView`.

    Args:
        rung: What is seen.
        X: Where from.
        mean: Of the mixture.
        below: The fidelity below.
        seen: What the observations say.
        further: ``... x q x r``, covariances that come from below with the designs asked further up.
    """

    rung: Rung
    X: Tensor
    mean: Tensor
    below: RootView | RungView
    seen: Prediction
    further: Tensor

    def variance(self) -> Tensor:
        weights = self.rung.residual.weights.unsqueeze(-1)
        variances = variance(self.rung.residual.kriging, self.seen, self.rung.squared * self.below.variance())
        return (weights * (variances + self._apart.square())).sum(-2)

    def above(self) -> Tensor:
        return self._with(self.rung.seen_above, self.further)

    def covariance(self) -> Tensor:
        return self._with(self, self.rung.squared * self.below.covariance())

    def of(self, which: slice) -> Self:
        seen = Prediction(
            self.seen.mean[..., which], self.seen.whitened[..., which, :], self.seen.unknown[..., which, :]
        )
        below, further = self.below.of(which), self.further[which]
        return replace(self, X=self.X[which], mean=self.mean[which], below=below, seen=seen, further=further)

    @property
    def _apart(self) -> Tensor:
        return self.seen.mean - self.mean.unsqueeze(-2)

    def _with(self, other: RungView, further: Tensor) -> Tensor:
        weights = self.rung.residual.weights[:, None, None]
        own = covariance(self.rung.residual.kriging, self.X, self.seen, other.X, other.seen, further)
        apart = self._apart.unsqueeze(-1) * other._apart.unsqueeze(-2)
        return (weights * (own + apart)).sum(-3)

    def gain(self) -> Tensor:
        """``... x q x n``, how an error in the mean at its own designs moves the mean here."""
        inverse = self.rung.residual.kriging.factor.inverse
        return (self.rung.residual.weights[:, None, None] * (self.seen.whitened @ inverse)).sum(-3)


def between(views: Sequence[RootView | RungView]) -> dict[tuple[int, int], Tensor]:
    r"""Covariances ``... x q x q`` of every fidelity ``m`` (rows) with ``k <= m`` (columns), in their units.

    With :math:`G = E[k K_y^{-1}]` at its points, :math:`\rho C - G \rho C_X` for the one below, :math:`C_X` being the
    covariances of that at the designs of ``m``.
    """
    found: dict[tuple[int, int], Tensor] = {}
    there: dict[int, Tensor] = {}  # of the last fidelity at the designs asked further up with each ``k`` here
    for m, view in enumerate(views):
        if isinstance(view, RungView):
            gain, gain_above = view.gain(), view.rung.seen_above.gain()
            n = gain.shape[-1]
            for k in there:
                found[m, k] = view.rung.slope * (found[m - 1, k] - gain @ there[k][..., :n, :])
                there[k] = view.rung.slope * (there[k][..., n:, :] - gain_above @ there[k][..., :n, :])
        else:
            for k in range(m):
                found[m, k] = torch.zeros_like(found[0, 0])
            there = {}
        found[m, m], there[m] = view.covariance(), view.above().mT
    return found
