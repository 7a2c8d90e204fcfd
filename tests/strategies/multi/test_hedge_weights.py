"""Models that take turns by their record."""

import math

import pytest
import torch

from mfbo_torch.history import History, Query
from mfbo_torch.history.observation import Observation
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.space import Space
from mfbo_torch.strategies import MFGPUCB
from mfbo_torch.strategies.multi.hedge_weights import (
    FADE,
    INTEGRATED,
    LEAST,
    LINKED,
    MODELS,
    WORST,
    dues,
    most_due,
    shares,
)

NAMES = ("a", "b", "c")


def log_densities(record, predictions):
    return {name: -0.5 * ((record.value - mean) / s) ** 2 - math.log(s) for name, (mean, s) in predictions.items()}


def told(history, value, predictions, model=None, parts=None):
    meta = {"predicted": predictions, "model": model, "shares": parts or dict.fromkeys(NAMES, 1 / 3)}
    history = history.asked(Query((0.0,), 1, meta), 1.0)
    return history if value is None else history.updated(history.records[-1].done(value))


def test_all_are_equal_before_anything_came():
    assert shares(History(), NAMES, log_densities) == pytest.approx(dict.fromkeys(NAMES, 1 / 3))
    assert most_due(dues(NAMES)(History()), shares(History(), NAMES, log_densities)) == "a"
    # what has no value counts as a turn and says nothing
    history = told(History(), None, dict.fromkeys(NAMES, (0.0, 1.0)), "a")
    assert shares(history, NAMES, log_densities) == pytest.approx(dict.fromkeys(NAMES, 1 / 3))
    assert most_due(dues(NAMES)(history), shares(history, NAMES, log_densities)) == "b"


def test_the_record():
    """One value that ``b`` predicted a nat better than ``a``, and that ``c`` did not predict at all."""
    history = told(History(), 0.0, {"a": (math.sqrt(2), 1.0), "b": (0.0, 1.0), "c": (100.0, 1.0)})
    found = shares(history, NAMES, log_densities)
    odds = {"a": math.exp(-1), "b": 1.0, "c": math.exp(-WORST)}
    expected = {name: LEAST + (1 - 3 * LEAST) * odd / sum(odds.values()) for name, odd in odds.items()}
    assert found == pytest.approx(expected)
    later = told(history, 0.0, dict.fromkeys(NAMES, (0.0, 1.0)))
    odds = {name: odd**FADE for name, odd in odds.items()}
    expected = {name: LEAST + (1 - 3 * LEAST) * odd / sum(odds.values()) for name, odd in odds.items()}
    assert shares(later, NAMES, log_densities) == pytest.approx(expected)


@pytest.mark.parametrize("best", NAMES)
def test_every_model_keeps_its_least_share(best):
    """Of ``n`` queries each model has at least ``LEAST n`` less one for each model, whoever predicts best."""
    history, turns = History(), dict.fromkeys(NAMES, 0)
    for n in range(1, 80):
        parts = shares(history, NAMES, log_densities)
        name = most_due(dues(NAMES)(history), parts)
        turns[name] += 1
        assert min(turns.values()) >= LEAST * n - len(NAMES)
        history = told(history, 0.0, {other: (0.0 if other == best else 50.0, 1.0) for other in NAMES}, name, parts)
    assert turns[best] >= (1 - 2 * LEAST) * 79 - len(NAMES)


def test_the_first_design_is_that_of_the_target_alone():
    """Three of equal shares that it has spent: the others have three each before its turn."""
    history, turns = History(), []
    for _ in range(3):
        history = history.asked(Query((0.0,), 1, {"stage": "initial"}), 1.0)
    for _ in range(9):
        parts = shares(history, MODELS, log_densities)
        name = most_due(dues(MODELS)(history), parts)
        turns.append(name)
        history = told(history, None, dict.fromkeys(MODELS, (0.0, 1.0)), name, parts)
    assert turns[:6].count(LINKED) == turns[:6].count(INTEGRATED) == 3
    assert sorted(turns[6:]) == sorted(MODELS)


def test_a_model_that_asks_cheaply_has_more_queries_not_less_capital():
    """Shares are of the capital: ten queries that cost a tenth are one query of the target."""
    history, spent, queries = History(), dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0)
    for _ in range(150):
        parts = shares(history, NAMES, log_densities)
        name = most_due(dues(NAMES)(history), parts)
        cost = 0.1 if name == "a" else 1.0
        spent[name] += cost
        queries[name] += 1
        assert max(spent.values()) - min(spent.values()) <= 1.0 + 1e-9
        meta = {"model": name, "shares": parts}
        history = history.asked(Query((0.0,), 1, meta), cost)
        history = history.updated(history.records[-1].done(0.0))
    assert queries["a"] >= 9 * queries["b"]


@pytest.mark.parametrize("error", [None, 0.0, 0.05])
def test_what_the_target_alone_predicts(error):
    """In closed form as by the model's own posterior, beside observations too, whose noise may be known."""
    space = Space({"x": (0.0, 1.0)}, costs=(1, 10))
    optimizer = Optimizer(MFGPUCB(space=space, capital=200.0))
    while queries := optimizer.ask(capital=200.0):
        ((x,),) = [record.query.x for record in queries]
        value = math.sin(6 * x) + x
        optimizer.tell(queries[0].id, value if error is None else Observation(value, error))
    rule = optimizer.strategy.rule
    snapshot = rule.snapshot(optimizer.history)
    data = rule._of_target(snapshot)[0]
    for x in [*(record.query.x[0] for record in optimizer.history), 0.123, 0.777]:
        u = torch.tensor([[x]], dtype=torch.double)
        mean, deviation, spread = rule._alone_at(snapshot, u)
        known, apart = rule.target_only.gp.predict(*data, u)
        _, seen = rule.target_only.gp.predict(*data, u, observed=True)
        assert mean.item() == pytest.approx(known.item(), abs=1e-8)
        assert deviation.item() == pytest.approx(apart.item(), rel=1e-2, abs=1e-4)
        assert spread.item() == pytest.approx(seen.item(), rel=1e-2, abs=1e-4)
        assert 0 < deviation <= spread
