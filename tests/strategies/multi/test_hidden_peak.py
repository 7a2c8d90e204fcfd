"""A cheap fidelity that does not show the highest peak: the default leaves the one it has climbed."""

import math

import pytest
from strategy_table import step

from mfbo_torch.history import History, Query
from mfbo_torch.space import Space
from mfbo_torch.strategies import MFGPUCB


def value(query: Query) -> float:
    """A wide peak of height 1, and at the target alone a narrow one of height 1.5."""
    (x,) = query.x
    wide, narrow = math.exp(-(((x - 0.25) / 0.15) ** 2)), 1.5 * math.exp(-(((x - 0.85) / 0.08) ** 2))
    return wide + narrow * query.fidelity


@pytest.mark.parametrize("seed", range(3))
def test_the_peak_that_is_climbed_is_not_polished(seed):
    strategy = MFGPUCB(seed=seed).bind(Space.box([[0.0], [1.0]], [1.0, 10.0]), 150.0)
    history = History()
    while history.spent < 140.0:
        (query,) = strategy.ask(history)
        history = step(history, query, strategy.space, value(query))
    there = [record for record in history if record.query.fidelity]
    assert max(record.value for record in there) > 1.3
    assert sum(abs(record.query.x[0] - 0.25) < 0.01 for record in there) <= 4
