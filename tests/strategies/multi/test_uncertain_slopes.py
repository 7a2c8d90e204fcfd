"""By which slopes the cheap fidelities explain the target."""

import math

import pytest
import torch

from mfbo_torch.acquisition.multi_fidelity_ucb import explained_variance
from mfbo_torch.history import History
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.space import Space
from mfbo_torch.strategies import MFGPUCB

SPACE = Space({"x": (0.0, 1.0), "y": (0.0, 1.0)}, costs=(1, 5, 20))


def value(x, fidelity):
    first, second = x
    return math.sin(5 * first) - (second - 0.4) ** 2 + 0.1 * (2 - fidelity) * math.cos(9 * first * second)


@pytest.mark.parametrize("flying", [0, 2])
def test_those_that_the_averaged_chain_expects(flying):
    """One after another, and beside queries in flight; the variances are those of the fitted chain."""
    optimizer, checked, capital = Optimizer(MFGPUCB(space=SPACE, capital=200.0)), 0, 200.0
    rule, running = optimizer.strategy.rule, []
    while optimizer.history.spent < 0.6 * capital:
        seen = optimizer.history
        asked = optimizer.ask(1 + flying - len(running), capital=capital)
        for number, record in enumerate(asked):
            before = History([*seen.records, *(r for r in optimizer.history.records[len(seen) :][:number])])
            noted, snapshot = record.query.meta, rule.snapshot(before)
            if "explains" in noted and "because" not in noted and noted.get("beta") != 0.0:
                u = SPACE.to_unit(torch.tensor([record.query.x], dtype=torch.double))
                weights = rule.integrated(snapshot).slopes
                found = explained_variance(rule.model(snapshot), u, rule.pending(snapshot), expected=weights)
                assert noted["explains"] == pytest.approx((found / found[-1]).tolist()[:-1], rel=1e-3, abs=1e-6)
                checked += 1
        running += asked
        first = running.pop(0)
        optimizer.tell(first.id, value(first.query.x, first.query.fidelity))
    assert checked > 5
