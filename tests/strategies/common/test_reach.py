"""Values of any size are decided upon, and what is said of them is in their own units."""

import math

import pytest
import torch
from strategy_table import SPACE, loop, step, toy

from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History, Query, Recommendation
from mfbo_torch.strategies import MFGPUCB, ExpectedImprovement
from mfbo_torch.strategies.common.reach import Reach

STRATEGIES = {
    "EI": lambda: ExpectedImprovement(initial=4),
    "MFGPUCB": lambda: MFGPUCB(initial_capital=2.0),
    "published": lambda: MFGPUCB(initial_capital=2.0, link="independent"),
}
DESIGNS = torch.tensor([[0.0, 1.0], [5.0, 0.1]], dtype=torch.double)


def bound(name):
    return STRATEGIES[name]().bind(SPACE, 40.0)


def told(values, errors=None):
    """A history with two or more values at each fidelity, in turn."""
    history = History()
    for i, value in enumerate(values):
        u = torch.tensor([0.1 + 0.13 * i, (0.37 * i) % 1.0], dtype=torch.double)
        history = step(history, Query(tuple(SPACE.from_unit(u).tolist()), i % 2), SPACE, value)
        if errors:
            history = history.updated(history.records[-1].done(value, errors[i]))
    return history


AWKWARD = {
    "the smallest there are": told([5e-324, 1e-323, 0.0, 2e-320, 1e-310, 3e-322]),
    "the largest there are": told([1.7e308, -1.7e308, 1e308, -1.0, 3e307, 1.1e308]),
    "a penalty": told([0.5, 0.7, -1e300, -1e308, 0.2, 0.9]),
    "a target far below": told([0.5, 1e-200, 0.7, 3e-200, 0.1, 2e-200]),
    "a target far above": told([5e-310, 1e200, 7e-310, 3e200, 1e-310, 2e200]),
    "all the same": told([1e200] * 6),
    "zeros": told([0.0, 0.0, 0.0, 1e-300, 0.0, 0.0]),
    "noise far above": told([1.0, 2.0, 0.5, 1.5, 2.0, 1.0], [1e250] * 6),
    "noise far below": told([1e220, 2e220, 5e219, 1e220, 2e220, 1e220], [1e-300] * 6),
}


@pytest.mark.parametrize("history", AWKWARD.values(), ids=AWKWARD)
@pytest.mark.parametrize("name", ["EI", "MFGPUCB"])
def test_values_of_any_size_are_decided_upon(name, history):
    strategy = bound(name)
    record = strategy.ask(history)[0]
    assert all(p.lower <= x <= p.upper for p, x in zip(SPACE.parameters, record.x, strict=True))
    numbers = [v for v in record.meta.values() if isinstance(v, float)]
    assert all(map(math.isfinite, numbers))
    for part in strategy.predict(history, DESIGNS):
        assert not part[:, -1].isnan().any()
    assert strategy.recommend(history) is not None


@pytest.mark.parametrize("name", ["MFGPUCB", "published"])
def test_what_is_noted_is_in_the_units_of_the_values(name):
    """Runs in units a power of two apart ask the same and note the same, in their units."""
    plain, large = (loop(bound(name), toy(SPACE, scale), 6) for scale in (2.0**188, 2.0**700))
    for a, b in zip(plain, large, strict=True):
        assert (a.query.x, a.query.fidelity) == (b.query.x, b.query.fidelity)
        for key in ("mean", "deviation", "mean_below"):
            assert a.query.meta.get(key, 0.0) * 2.0**512 == b.query.meta.get(key, 0.0)
        assert [2.0**512 * z for z in a.query.meta.get("zeta", [])] == b.query.meta.get("zeta", [])
        for kind, (mean, deviation) in a.query.meta.get("foretold", {}).items():
            assert [mean * 2.0**512, deviation * 2.0**512] == b.query.meta["foretold"][kind]
    believed = [bound(name).predict(history, DESIGNS) for history in (plain, large)]
    torch.testing.assert_close(tuple(2.0**512 * part for part in believed[0]), believed[1], rtol=0, atol=0)


def test_what_is_recommended_is_in_the_units_of_the_values():
    values = [2.0**700 * v for v in (0.1, 0.3, 0.2, 0.5, 0.4, 0.45, 0.2, 0.44)]
    history = told(values, [2.0**697] * 8)
    found = bound("EI").recommend(history)
    assert isinstance(found, Recommendation)
    assert 0.2 < found.mean / 2.0**700 < 0.6
    assert found.noise[-1] == pytest.approx(2.0**697)
    assert found.best == history.records[3]


def test_usual_values_and_known_processes_keep_their_units():
    assert not Reach(told([0.5, 1e30, -1e-30, 0.0]), 1).needed
    assert not Reach(History(), 1).needed
    known = ExpectedImprovement(prior=Prior(lengthscale=[0.3], outputscale=1.0)).bind(SPACE, 40.0)
    assert known.predict(told([1e200, 2e200]), DESIGNS)[0].shape == (2, 2)
