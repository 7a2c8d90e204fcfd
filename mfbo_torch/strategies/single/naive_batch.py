"""Batches without regard to what is pending: the baselines of GP-BUCB."""

from __future__ import annotations

from torch import Tensor

from mfbo_torch.history import Query, Status
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.strategies.single.analytic import GPUCB
from mfbo_torch.strategies.snapshot import Snapshot


def answered(snapshot: Snapshot) -> Snapshot:
    """What there would be without the model's pending queries; ids are no longer places."""
    records = snapshot.records
    return snapshot.of([r for r in records if r.status != Status.PENDING or r.query.meta.get("stage") != "model"])


class NaiveRepeat(GPUCB):
    """NRB-UCB: the maximiser of GP-UCB again and again until a value arrives [Desautels2012gpbucb]_ (Sec. 5)."""

    heeds_limits = False

    def next_query(self, snapshot: Snapshot) -> Query:
        return super().next_query(answered(snapshot))


class NaiveTop(GPUCB):
    """NTB-UCB: the best scores of GP-UCB in turn until a value arrives [Desautels2012gpbucb]_ (Sec. 5).

    In a box, designs beside the maximiser are queried, a hundredth of the box apart.
    """

    heeds_limits = False

    def candidates(self, snapshot: Snapshot) -> Tensor:
        candidates, pending = super().candidates(snapshot), self.pending(snapshot)
        if not len(candidates) or not len(pending):
            return candidates
        free = (candidates.unsqueeze(1) != pending).any(dim=-1).all(dim=-1)
        return candidates[free] if free.any() else candidates

    def untouched(self, snapshot: Snapshot) -> bool:
        return not self.modelled(snapshot)

    def hallucinated(self, snapshot: Snapshot) -> CachedGP:
        return super().hallucinated(answered(snapshot))
