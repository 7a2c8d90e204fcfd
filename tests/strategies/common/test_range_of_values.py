"""Values of any size are decided upon: those out of range are failures, those whose squares vanish count as 0."""

import math

import pytest
import torch
from strategy_table import SPACE, loop, step, toy

from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History, Query, Recommendation, Status
from mfbo_torch.history.observation import LARGEST
from mfbo_torch.strategies import MFGPUCB, ExpectedImprovement

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
    "squares that vanish": told([5e-200, 1e-200, 0.0, 2e-200, 1e-201, 3e-200]),
    "squares that hardly vanish": told([5e-150, 1e-150, 0.0, 2e-150, 1e-151, 3e-150]),
    "the largest there are": told([LARGEST, -LARGEST, LARGEST / 2, -1.0, LARGEST / 6, LARGEST / 1.5]),
    "a penalty": told([0.5, 0.7, -LARGEST / 1e8, -LARGEST, 0.2, 0.9]),
    "a target far below": told([0.5, 1e-200, 0.7, 3e-200, 0.1, 2e-200]),
    "a target far above": told([5e-310, LARGEST / 9, 7e-310, LARGEST / 3, 1e-310, LARGEST]),
    "all the same": told([LARGEST] * 6),
    "zeros": told([0.0, 0.0, 0.0, 1e-300, 0.0, 0.0]),
    "noise far above": told([1.0, 2.0, 0.5, 1.5, 2.0, 1.0], [LARGEST] * 6),
    "noise far below": told([LARGEST / n for n in (5, 2, 9, 5, 2, 5)], [1e-300] * 6),
    "noise beside squares that vanish": told([1e-200, 2e-200, 5e-201, 1e-200, 2e-200, 1e-200], [1e-201] * 6),
}


@pytest.mark.parametrize("history", AWKWARD.values(), ids=AWKWARD)
@pytest.mark.parametrize("name", STRATEGIES)
def test_values_of_any_size_are_decided_upon(name, history):
    strategy = bound(name)
    record = strategy.ask(history)[0]
    assert all(p.lower <= x <= p.upper for p, x in zip(SPACE.parameters, record.x, strict=True))
    assert all(map(math.isfinite, [v for v in record.meta.values() if isinstance(v, float)]))
    for part in strategy.predict(history, DESIGNS):
        assert not part[:, -1].isnan().any()
    assert strategy.recommend(history) is not None


@pytest.mark.parametrize("name", STRATEGIES)
def test_values_out_of_range_are_failures_that_say_what_to_do(name):
    history = told([1.7e308, 1e200, 0.3, 0.2, -1e200, 0.1])
    assert [r.status for r in history] == [Status.FAILED] * 2 + [Status.DONE] * 2 + [Status.FAILED, Status.DONE]
    assert history.records[1].reason == (
        "the value 1e+200 is out of range (at most 1e+75 in size): rescale it or return its logarithm"
    )
    strategy = bound(name)
    assert all(map(math.isfinite, strategy.ask(history)[0].x))
    assert strategy.recommend(history).query.fidelity == SPACE.target


@pytest.mark.parametrize("name", ["MFGPUCB", "published"])
def test_what_is_noted_is_in_the_units_of_the_values(name):
    """Runs in units a power of two apart query the same and note the same, in their units."""
    plain, large = (loop(bound(name), toy(SPACE, scale), 6) for scale in (1.0, 2.0**200))
    for a, b in zip(plain, large, strict=True):
        assert (a.query.x, a.query.fidelity) == (b.query.x, b.query.fidelity)
        for key in ("mean", "deviation", "mean_below"):
            assert a.query.meta.get(key, 0.0) * 2.0**200 == b.query.meta.get(key, 0.0)
        assert [2.0**200 * z for z in a.query.meta.get("zeta", [])] == b.query.meta.get("zeta", [])
        for kind, (mean, deviation) in a.query.meta.get("predicted", {}).items():
            assert [mean * 2.0**200, deviation * 2.0**200] == b.query.meta["predicted"][kind]
    found = [bound(name).predict(history, DESIGNS) for history in (plain, large)]
    torch.testing.assert_close(tuple(2.0**200 * part for part in found[0]), found[1], rtol=0, atol=0)


def test_what_is_recommended_is_in_the_units_of_the_values():
    history = told([2.0**200 * v for v in (0.1, 0.3, 0.2, 0.5, 0.4, 0.45, 0.2, 0.44)], [2.0**197] * 8)
    found = bound("EI").recommend(history)
    assert isinstance(found, Recommendation)
    assert 0.2 < found.mean / 2.0**200 < 0.6
    assert found.noise[-1] == pytest.approx(2.0**197)
    assert found.best == history.records[3]


def test_a_known_process_takes_values_of_any_size():
    known = ExpectedImprovement(prior=Prior(lengthscale=[0.3], outputscale=1.0)).bind(SPACE, 40.0)
    assert known.predict(told([1e70, 2e70]), DESIGNS)[0].shape == (2, 2)
