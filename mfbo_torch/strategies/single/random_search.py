"""Uniform random search at the target fidelity."""

from __future__ import annotations

from mfbo_torch.history import History, Query
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.common.deduplicate import clear


class RandomSearch(Strategy):
    """Uniform random designs at the target fidelity, none of them twice."""

    heeds_limits = heeds_objectives = True

    def decide(self, history: History) -> Query:
        snapshot, target = self.snapshot(history), self.space.target
        generator = snapshot.generator(self.seed)
        return self.query(clear(self.random_design(generator), target, snapshot, generator), target, stage="random")
