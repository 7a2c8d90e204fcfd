"""What the strategies' models say, in the user's units."""

from functools import cache

import pytest
import torch
from refusals import refused
from strategy_table import PLAIN_ROWS, SPACE, Row, box, each, step, toy

from mfbo_torch.history import History, Query
from mfbo_torch.strategies import GPUCB, MFGPUCB, MFSKO, RandomSearch, Strategy
from mfbo_torch.strategies.single.base import OneFidelity

NONE = {"random", "direct", "mf_naive_random"}


@pytest.fixture(params=each([row for row in PLAIN_ROWS if row.label not in NONE]))
def row(request) -> Row:
    return request.param


@cache
def history(seed: int = 0) -> History:
    """Random designs at both fidelities, and one failure."""
    found = History()
    for query in RandomSearch(seed=seed, space=SPACE).ask(History(), 12):
        for at in (Query(query.x, 0), query):
            found = step(found, at, SPACE, toy(SPACE)(at))
    return step(found, Query((0.0, 1.0), 0), SPACE, None)


@cache
def bound(row: Row) -> Strategy:
    """The row's strategy, which keeps what it has fitted: the tests ask it about the same history."""
    return row.make(0).bind(SPACE, row.capital)


def designs() -> torch.Tensor:
    return torch.tensor([r.query.x for r in history().done], dtype=torch.double)


@pytest.mark.parametrize("any_row", each(PLAIN_ROWS))
def test_nothing_to_say(any_row):
    assert any_row.make(0).bind(SPACE, any_row.capital).predict(History(), designs()) is None
    assert (bound(any_row).predict(history(), designs()) is None) == (any_row.label in NONE)


def test_observed_values_are_predicted(row):
    """Noise-free data at every fidelity of a design: the mean is the value and the deviation small."""
    X = designs()
    strategy = bound(row)
    mean, deviation = strategy.predict(history(), X)
    assert mean.shape == deviation.shape == (len(X), 2)
    assert mean.dtype == deviation.dtype == torch.double
    values = torch.tensor([[toy(SPACE)(Query(tuple(x), m)) for m in (0, 1)] for x in X.tolist()])
    modelled = [strategy.level] if isinstance(strategy, OneFidelity) else [0, 1]
    for m in (0, 1):
        if m not in modelled:
            assert mean[:, m].isnan().all()
            assert deviation[:, m].isnan().all()
            continue
        spread = values[:, m].std()
        assert (mean[:, m] - values[:, m]).abs().max() < 0.1 * spread
        assert deviation[:, m].max() < 0.1 * spread
        assert (deviation[:, m] >= 0).all()


def test_scaled_values(row):
    """The units of the prediction are those of the values."""
    scaled = history()
    for r in scaled.done:
        scaled = scaled.updated(r.done(1024.0 * r.value))
    X = torch.tensor([[1.0, 2.0], [8.0, 0.02]], dtype=torch.double)
    mean, deviation = bound(row).predict(history(), X)
    mean_scaled, deviation_scaled = bound(row).predict(scaled, X)
    near = {"rtol": 1e-3, "atol": 1e-2, "equal_nan": True}
    torch.testing.assert_close(mean_scaled, 1024.0 * mean, **near)
    torch.testing.assert_close(deviation_scaled, 1024.0 * deviation, **near)


def test_a_fidelity_without_observations():
    space = box(2, 3)
    cheap = History()
    for x in (0.1, 0.5, 0.8):
        cheap = step(cheap, Query((x, 0.5), 0), space, toy(space)(Query((x, 0.5), 0)))
    mean, deviation = MFGPUCB().bind(space, 40.0).predict(cheap, torch.rand(3, 2, dtype=torch.double))
    assert mean[:, 0].isfinite().all()
    assert mean[:, 1:].isnan().all()
    assert deviation[:, 1:].isnan().all()


@pytest.mark.parametrize("count", [1, 3])
def test_equal_values_are_predicted_as_such(count):
    found = History()
    for i in range(count):
        found = step(found, Query((float(i), 1.0), 1), SPACE, 7.0)
    for strategy in (GPUCB(), MFSKO()):
        mean, deviation = strategy.bind(SPACE).predict(found, torch.tensor([[5.0, 50.0]], dtype=torch.double))
        assert mean[0, 1] == pytest.approx(7.0)
        assert deviation[0, 1] > 0


def test_designs_of_another_width_are_refused():
    strategy = MFGPUCB(space=SPACE)
    wide = torch.rand(2, SPACE.dim + 1, dtype=torch.double)
    refused(f"n x {SPACE.dim}, a column for each parameter", strategy.predict, history(), wide)
