"""Bayesian optimisation at one fidelity: GP-UCB, expected and probability of improvement."""

from __future__ import annotations

import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.acquisition.analytic import LogProbabilityOfImprovement

from mfbo_torch.confidence import gp_ucb_beta
from mfbo_torch.strategies.single.base import Banded, Noted, OneFidelity
from mfbo_torch.strategies.snapshot import Snapshot

MIN_IMPROVEMENT = 0.01
"""Smallest step that :class:`ProbabilityOfImprovement` takes for an improvement, in deviations of the values."""


class GPUCB(Banded):
    """GP-UCB, ``argmax μ_{t-1}(x) + β_t^½ σ_{t-1}(x)`` [Srinivas2010gpucb]_ (Eq. 6)."""

    heeds_limits = True

    def box_width(self, t: int) -> float:
        return gp_ucb_beta(t, self.space.dim, self.delta, a=self.a, b=self.b, r=self.r)

    def design(self, snapshot: Snapshot, generator: torch.Generator) -> Noted:
        beta = self.width(snapshot)
        acquisition = UpperConfidenceBound(self.hallucinated(snapshot), beta)
        return self.maximiser(acquisition, snapshot, generator), {"beta": beta}


class ExpectedImprovement(OneFidelity):
    """Expected improvement ``E[max(f(x) - y*, 0)]`` over the best observation ``y*``, as its log [Jones1998ego]_."""

    heeds_limits = True

    def design(self, snapshot: Snapshot, generator: torch.Generator) -> Noted:
        acquisition = LogExpectedImprovement(self.hallucinated(snapshot), self.best(snapshot))
        return self.maximiser(acquisition, snapshot, generator), {"rule": "improvement"}


class ProbabilityOfImprovement(OneFidelity):
    """Probability ``P[f(x) > y* + ξ]`` of an improvement over the best observation ``y*``, as its log [Jones1998ego]_.

    ``ξ`` is :data:`MIN_IMPROVEMENT` deviations of the values [Lizotte2008practical]_.
    """

    heeds_limits = True

    def design(self, snapshot: Snapshot, generator: torch.Generator) -> Noted:
        acquisition = LogProbabilityOfImprovement(self.hallucinated(snapshot), self.best(snapshot) + MIN_IMPROVEMENT)
        return self.maximiser(acquisition, snapshot, generator), {"rule": "improvement"}
