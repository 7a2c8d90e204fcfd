"""A training with epochs as fidelities, and a strategy that climbs them."""

from mfbo_torch.history import Query
from mfbo_torch.strategies.base import Strategy

RATE = {"rate": {"lower": 0.0, "upper": 1.0}}
EPOCHS = {"epochs": [3, 9, 27]}


class Ladder(Strategy):
    """Each of some designs at every fidelity, one design after another or all of them at one fidelity first."""

    def __init__(self, *, wide=False, designs=4, **settings):
        super().__init__(**settings)
        self.wide, self.designs = wide, designs

    def decide(self, history):
        n, levels = len(history), self.space.num_fidelities
        design, level = (n % self.designs, n // self.designs) if self.wide else (n // levels, n % levels)
        return Query((0.1 + 0.1 * (design % self.designs),), level % levels, {})
