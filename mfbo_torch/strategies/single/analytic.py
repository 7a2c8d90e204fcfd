"""Bayesian optimisation at one fidelity: GP-UCB, expected and probability of improvement."""

from __future__ import annotations

import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement, UpperConfidenceBound
from botorch.acquisition.analytic import LogProbabilityOfImprovement
from torch import Tensor

from mfbo_torch.confidence import gp_ucb_beta
from mfbo_torch.strategies.common.gp import UnitCubeGP, rough_gp
from mfbo_torch.strategies.single.base import Banded, Noted, OneFidelity
from mfbo_torch.strategies.snapshot import Snapshot

BEST = 5
"""Number of the best observations that the search for the largest expected improvement starts at."""
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
    """Expected improvement ``E[max(f(x) - y*, 0)]`` over the best observation ``y*``, as its log [Jones1998ego]_.

    The kernel is Matérn-5/2. In a box the search starts at the best observations too: late in a run the peaks beside
    them are narrow.
    """

    heeds_limits = True

    @property
    def gp(self) -> UnitCubeGP:
        groups = self.space.groups
        return self._gp(groups, lambda: UnitCubeGP(self.surrogate, self.prior, rough_gp, groups))

    def design(self, snapshot: Snapshot, generator: torch.Generator) -> Noted:
        acquisition = LogExpectedImprovement(self.hallucinated(snapshot), self.best(snapshot))
        return self.maximiser(acquisition, snapshot, generator), {"rule": "improvement"}

    def climbed(self, acquisition: AcquisitionFunction, snapshot: Snapshot, generator: torch.Generator) -> Tensor:
        ranked = sorted(self.modelled(snapshot), key=lambda r: (not r.feasible, -(r.value or 0.0), r.id))
        return self.maximize_from(acquisition, snapshot.designs(ranked[:BEST]), generator, screened=512, climbed=3)


class ProbabilityOfImprovement(OneFidelity):
    """Probability ``P[f(x) > y* + ξ]`` of an improvement over the best observation ``y*``, as its log [Jones1998ego]_.

    ``ξ`` is :data:`MIN_IMPROVEMENT` deviations of the values [Lizotte2008practical]_.
    """

    heeds_limits = True

    def design(self, snapshot: Snapshot, generator: torch.Generator) -> Noted:
        acquisition = LogProbabilityOfImprovement(self.hallucinated(snapshot), self.best(snapshot) + MIN_IMPROVEMENT)
        return self.maximiser(acquisition, snapshot, generator), {"rule": "improvement"}
