"""Uniform random search at the target fidelity."""

from __future__ import annotations

from mfbo_torch.history import History, Query
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.common.deduplicate import clear


class RandomSearch(Strategy):
    """Uniform random designs at the target fidelity, none of them twice."""

    heeds_limits = True

    def decide(self, history: History) -> Query:
        """The next query."""
        generator = self.generator(history)
        u = self.random_design(generator)
        return self.query(clear(self, u, self.space.target, history, generator), self.space.target)
