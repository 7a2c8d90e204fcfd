r"""Posteriors of the fidelities of a chain, and their covariances with the designs of upper fidelities.

A value at a design without a value of the fidelity below is an observation of both. The posterior of the fidelity
below, with mean :math:`\mu` and covariance :math:`C`, is the prior of the next one,

.. math:: f = c + \rho g + \delta, \qquad g \sim GP(\mu, C), \quad \delta \sim GP(0, k),

whose observations have the covariance :math:`k + E[\rho^2] C` and the mean :math:`c + \rho \mu`. For nested designs
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


class FidelityPosterior(ABC):
    """The posterior of a fidelity at ``... x q`` points, in its unit; ``mean`` is ``... x q``."""

    mean: Tensor

    @abstractmethod
    def variance(self) -> Tensor:
        """Posterior variances, ``... x q``."""

    @abstractmethod
    def above(self) -> Tensor:
        """Covariances ``... x q x r`` with the same fidelity at the ``r`` designs of upper fidelities."""

    @abstractmethod
    def covariance(self) -> Tensor:
        """Posterior covariances, ``... x q x q``."""

    @abstractmethod
    def of(self, which: slice) -> Self:
        """The posterior at some of ``q x d`` points."""


@dataclass(frozen=True, eq=False)
class BaseProcess:
    """A fidelity that follows none: its factor, and ``r x d`` designs of upper fidelities."""

    cache: Cache
    designs: Tensor

    def at(self, X: Tensor) -> BasePosterior:
        """The posterior at ``... x q x d`` points."""
        cross = self.cache.cross_covariance(X)
        mean = self.cache.constant + (cross @ self.cache.alpha.unsqueeze(-1)).squeeze(-1)
        return BasePosterior(self, X, mean, cross @ self.cache.inverse.mT)

    @cached_property
    def at_upper(self) -> BasePosterior:
        """The posterior at the designs of upper fidelities."""
        with torch.no_grad():
            return self.at(self.designs)


@dataclass(frozen=True, eq=False)
class BasePosterior(FidelityPosterior):
    """See :class:`FidelityPosterior`; ``whitened`` is :math:`L^{-1} k`, a point a row."""

    process: BaseProcess
    X: Tensor
    mean: Tensor
    whitened: Tensor

    def variance(self) -> Tensor:
        return (self.process.cache.outputscale - self.whitened.square().sum(-1)).clamp_min(0.0)

    def above(self) -> Tensor:
        return self._with(self.process.at_upper)

    def covariance(self) -> Tensor:
        return self._with(self)

    def of(self, which: slice) -> Self:
        return replace(self, X=self.X[which], mean=self.mean[which], whitened=self.whitened[which])

    def _with(self, other: BasePosterior) -> Tensor:
        cache = self.process.cache
        prior = cache.outputscale * cross_correlation(cache.kernel, cache.scaled(self.X), cache.scaled(other.X))
        return prior - self.whitened @ other.whitened.mT


@dataclass(frozen=True, eq=False)
class LinkedProcess:
    """A fidelity that follows the one ``below``, and the residual against it; ``slope`` is the expected slope, from a
    fit without the variance of the fidelity below, ``squared`` the expected square of the slope. The designs ``r x d``
    of upper fidelities are those of ``below`` less its own."""

    below: BaseProcess | LinkedProcess
    residual: Residual
    slope: Tensor
    squared: Tensor
    designs: Tensor

    def at(self, X: Tensor, below: BasePosterior | LinkedPosterior) -> LinkedPosterior:
        """The posterior at ``... x q x d`` points, given that of the fidelity below there."""
        further = self.squared * below.above()
        own = further.shape[-1] - len(self.designs)
        seen = predict(self.residual.kriging, X, basis(below.mean), further[..., :own])
        mean = (self.residual.weights.unsqueeze(-1) * seen.mean).sum(-2)
        return LinkedPosterior(self, X, mean, below, seen, further[..., own:])

    @cached_property
    def at_upper(self) -> LinkedPosterior:
        """The posterior at the designs of upper fidelities."""
        with torch.no_grad():
            own = len(self.below.designs) - len(self.designs)
            return self.at(self.designs, self.below.at_upper.of(slice(own, None)))


@dataclass(frozen=True, eq=False)
class LinkedPosterior(FidelityPosterior):
    """The posterior of a linked process at points ``X``, see :class:`FidelityPosterior`: the mean of the mixture, the
    posteriors of the fidelity below and of each hypothesis, and covariances ``... x q x r`` of the fidelity below with
    the designs of upper fidelities."""

    process: LinkedProcess
    X: Tensor
    mean: Tensor
    below: BasePosterior | LinkedPosterior
    seen: Prediction
    further: Tensor

    def variance(self) -> Tensor:
        weights = self.process.residual.weights.unsqueeze(-1)
        variances = variance(self.process.residual.kriging, self.seen, self.process.squared * self.below.variance())
        return (weights * (variances + self._apart.square())).sum(-2)

    def above(self) -> Tensor:
        return self._with(self.process.at_upper, self.further)

    def covariance(self) -> Tensor:
        return self._with(self, self.process.squared * self.below.covariance())

    def of(self, which: slice) -> Self:
        seen = Prediction(
            self.seen.mean[..., which], self.seen.whitened[..., which, :], self.seen.unknown[..., which, :]
        )
        below, further = self.below.of(which), self.further[which]
        return replace(self, X=self.X[which], mean=self.mean[which], below=below, seen=seen, further=further)

    @property
    def _apart(self) -> Tensor:
        return self.seen.mean - self.mean.unsqueeze(-2)

    def _with(self, other: LinkedPosterior, further: Tensor) -> Tensor:
        weights = self.process.residual.weights[:, None, None]
        own = covariance(self.process.residual.kriging, self.X, self.seen, other.X, other.seen, further)
        apart = self._apart.unsqueeze(-1) * other._apart.unsqueeze(-2)
        return (weights * (own + apart)).sum(-3)

    def gain(self) -> Tensor:
        """``... x q x n``, the change of the mean here with the mean at the fidelity's own designs."""
        inverse = self.process.residual.kriging.factor.inverse
        return (self.process.residual.weights[:, None, None] * (self.seen.whitened @ inverse)).sum(-3)


def between(posteriors: Sequence[BasePosterior | LinkedPosterior]) -> dict[tuple[int, int], Tensor]:
    r"""Covariances ``... x q x q`` of every fidelity ``m`` (rows) with ``k <= m`` (columns), in their units: with
    :math:`G = E[k K_y^{-1}]` at its points, :math:`\rho C - G \rho C_X` for the one below, :math:`C_X` being the
    covariances of that at the designs of ``m``."""
    found: dict[tuple[int, int], Tensor] = {}
    there: dict[int, Tensor] = {}  # of the last fidelity at the designs of upper ones with each ``k`` here
    for m, posterior in enumerate(posteriors):
        if isinstance(posterior, LinkedPosterior):
            gain, gain_above = posterior.gain(), posterior.process.at_upper.gain()
            n = gain.shape[-1]
            for k in there:
                found[m, k] = posterior.process.slope * (found[m - 1, k] - gain @ there[k][..., :n, :])
                there[k] = posterior.process.slope * (there[k][..., n:, :] - gain_above @ there[k][..., :n, :])
        else:
            for k in range(m):
                found[m, k] = torch.zeros_like(found[0, 0])
            there = {}
        found[m, m], there[m] = posterior.covariance(), posterior.above().mT
    return found
