r"""Acquisitions where evaluations may fail or break limits.

References:

.. [Schonlau1998constrained]
    M. Schonlau, W. Welch, D. Jones. Global versus Local Search in Constrained Optimization of Computer Models.
    New Developments and Applications in Experimental Design, IMS 1998.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from torch import Tensor
from torch.special import log_ndtr

from mfbo_torch.acquisition.fused import LEAST_VARIANCE
from mfbo_torch.space.outcome_constraints import Limit


class Chances(Protocol):
    """A probability as a function of designs."""

    @property
    def dim(self) -> int:
        """Number of columns of a design."""

    def log(self, X: Tensor) -> Tensor:
        """Its logarithm at ``... x d`` designs, ``...``."""


class WithinLimits:
    r"""The probability that outcomes keep their limits, each with a posterior of its own.

    .. math:: p(x) = \prod_k \Phi(\pm (b_k - \mu_k(x)) / \sigma_k(x))

    [Schonlau1998constrained]_, as BoTorch's ``LogConstrainedExpectedImprovement`` has it, for ``K`` bounds; ``moments``
    gives mean and variance, ``... x K`` each, at ``... x d`` designs, in the outcomes' units.
    """

    def __init__(self, limits: Sequence[Limit], moments: Callable[[Tensor], tuple[Tensor, Tensor]], dim: int) -> None:
        self.limits, self.moments, self.dim = tuple(limits), moments, dim

    def log(self, X: Tensor) -> Tensor:
        """``log p`` at ``... x d`` designs, ``...``."""
        return self.log_each(X).sum(-1)

    def log_each(self, X: Tensor) -> Tensor:
        """The logarithms of the ``K`` factors, ``... x K``."""
        mean, variance = self.moments(X)
        bounds = mean.new_tensor([limit.bound for limit in self.limits])
        signs = mean.new_tensor([1.0 if limit.upper else -1.0 for limit in self.limits])
        least = LEAST_VARIANCE * bounds.square().clamp_min(LEAST_VARIANCE)
        return log_ndtr(signs * (bounds - mean) / torch.maximum(variance, least).sqrt())


class MostFeasible(AcquisitionFunction):
    """The logarithm of a probability, maximised while no feasible design is known."""

    def __init__(self, model: Model, chances: Chances) -> None:
        super().__init__(model)
        self.chances = chances

    def forward(self, X: Tensor) -> Tensor:
        """Values ``b`` at ``b x 1 x d'`` points."""
        return self.chances.log(X[..., 0, : self.chances.dim])


class Feasible(AcquisitionFunction):
    r"""An acquisition times the probability that the design, the first ``d`` columns of ``b x 1 x d'`` points, can be
    evaluated, or that its outcomes keep their limits (:class:`WithinLimits`).

    The logarithm of a gain becomes :math:`a(x) + \log p(x)` [Schonlau1998constrained]_. Another acquisition gains
    :math:`v(x) = a(x) - r` over its value ``r``, the ``reference``, where nothing is gained, the best known mean for an
    upper bound: :math:`v(x) - (1 - p(x)) |v(x)|`, that is :math:`p(x) v(x)` where there is a gain. Both grow with ``a``
    and with ``p``, and where ``p`` is the same everywhere the maximiser is that of ``a``.
    """

    def __init__(self, acquisition: AcquisitionFunction, feasibility: Chances, reference: float | None = None) -> None:
        super().__init__(acquisition.model)
        self.acquisition, self.feasibility, self.reference = acquisition, feasibility, reference

    def forward(self, X: Tensor) -> Tensor:
        """Values ``b`` at ``b x 1 x d'`` points."""
        value = self.acquisition(X)
        log = self.feasibility.log(X[..., 0, : self.feasibility.dim])
        if self.reference is None:
            return value + log
        gain, probability = value - self.reference, log.exp()
        return torch.where(gain > 0, probability * gain, (2 - probability) * gain)
