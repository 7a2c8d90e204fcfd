r"""Batches without regard to what is pending: the baselines of GP-BUCB.

References:

.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian
    Process Bandit Optimization. ICML 2012.
"""

from __future__ import annotations

from torch import Tensor

from mfbo_torch.history import History, Query, Status
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.strategies.single.analytic import GPUCB


def answered(history: History) -> History:
    """A history without the model's queries that are still out; ids are no longer places."""
    return History(r for r in history if r.status != Status.PENDING or r.query.meta.get("stage") != "model")


class NaiveRepeat(GPUCB):
    """NRB-UCB: the maximiser of GP-UCB again and again until a value arrives [Desautels2012gpbucb]_ (Sec. 5).

    Args:
        **settings: Those of :class:`~mfbo_torch.strategies.single.analytic.GPUCB`.
    """

    heeds_limits = False

    def decide(self, history: History) -> Query:
        """The next query: the one that would follow if nothing were pending."""
        return super().decide(answered(history))


class NaiveTop(GPUCB):
    """NTB-UCB: the best scores of GP-UCB in turn until a value arrives [Desautels2012gpbucb]_ (Sec. 5).

    In a box, where the best scores belong to one continuum, designs beside the maximiser are asked, a
    hundredth of the box apart.

    Args:
        **settings: Those of :class:`~mfbo_torch.strategies.single.analytic.GPUCB`.
    """

    heeds_limits = False

    def candidates(self, history: History) -> Tensor:
        candidates, pending = super().candidates(history), self.pending(history)
        if not len(candidates) or not len(pending):
            return candidates
        free = (candidates.unsqueeze(1) != pending).any(dim=-1).all(dim=-1)
        return candidates[free] if free.any() else candidates

    def untouched(self, history: History) -> bool:
        return not self.modelled(history)

    def hallucinated(self, history: History) -> CachedGP:
        return super().hallucinated(answered(history))
