"""What every strategy promises, on small problems: one row of ``strategy_table.ROWS`` each."""

import itertools
import json
import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from refusals import refused
from strategy_table import DESIGN_ROWS, MIXED, ROWS, SPACE, Row, box, each, loop, step, toy

from mfbo_torch.history import History, Query, Recommendation
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import Strategy


@pytest.fixture(params=each(ROWS))
def row(request) -> Row:
    return request.param


@pytest.fixture(params=each(DESIGN_ROWS))
def design_row(request) -> Row:
    """A strategy that looks for a design, rather than playing arms again and again."""
    return request.param


def bound(row: Row, space: Space | None = None, seed: int = 0) -> Strategy:
    return row.make(seed).bind(row.adapt(space or row.space), row.capital)


@cache
def usual(row: Row) -> History:
    """The history of an undisturbed run, shared by the tests."""
    return loop(bound(row), toy(row.space), row.steps)


@cache
def veteran(row: Row) -> Strategy:
    """One for the tests that go on from that run: it need not be fitted again, and asking leaves no trace."""
    return bound(row)


@cache
def following(row: Row) -> Query:
    """What is asked after that run."""
    return bound(row).ask(usual(row))[0]


def queries(history: History) -> list[Query]:
    return [r.query for r in history]


def check_allowed(query: Query, space: Space) -> None:
    assert len(query.x) == space.dim
    for value, parameter in zip(query.x, space.parameters, strict=True):
        assert parameter.lower <= value <= parameter.upper
        assert not parameter.integer or value == round(value)
    assert isinstance(query.fidelity, int)
    assert 0 <= query.fidelity <= space.target
    assert json.loads(json.dumps(dict(query.meta))) == query.meta


def distance(a: Query, b: Query, space: Space = SPACE) -> float:
    """Max-norm distance of two designs in the unit cube, infinite at different fidelities."""
    if a.fidelity != b.fidelity:
        return float("inf")
    first, second = space.to_unit(torch.tensor([a.x, b.x], dtype=torch.double))
    return (first - second).abs().max().item()


def test_unbound_or_for_none_it_refuses(row):
    refused("space", row.make(0).ask, History())
    refused("n = 0", bound(row).ask, History(), 0)


def test_the_seed_decides(row):
    assert queries(loop(bound(row), toy(row.space), row.steps)) == queries(usual(row))
    assert (queries(loop(bound(row, seed=1), toy(row.space), 3)) != queries(usual(row))[:3]) == row.seeded


def test_queries_are_allowed_and_the_same_in_a_replay(row):
    history = usual(row)
    for n in range(len(history)):
        check_allowed(history.records[n].query, row.space)
        assert bound(row).ask(History(history.records[:n])) == [history.records[n].query]


def test_asking_leaves_no_trace(row):
    """A strategy that was asked about another history decides as a fresh one."""
    strategy = bound(row)
    strategy.ask(History(usual(row).records[:-2]))
    assert strategy.ask(usual(row)) == [following(row)]


def test_pending_points_are_not_repeated(design_row):
    history = usual(design_row)
    asked = veteran(design_row).ask(history, 4)
    if design_row.repeats:
        assert len({query.x for query in asked}) == 1
        return
    for a, b in itertools.combinations(asked, 2):
        assert distance(a, b) > 1e-3
    for a, b in itertools.product(asked, queries(history)):
        assert distance(a, b) > 1e-7


def test_asking_many_is_asking_one_by_one(row):
    history = usual(row)
    asked = bound(row).ask(history, 2)
    pending = history.asked(following(row), row.space.costs[following(row).fidelity])
    assert asked == [following(row), *bound(row).ask(pending)]


def test_everything_pending(row):
    asked = bound(row).ask(History(), row.steps)
    for query in asked:
        check_allowed(query, row.space)
    for a, b in itertools.combinations(asked, 2):
        assert row.space is not SPACE or distance(a, b) > 1e-7


def test_failed_point_is_not_asked_at_once(design_row):
    history, failed = usual(design_row), following(design_row)
    strategy = veteran(design_row)
    for _ in range(2):
        history = step(history, failed, SPACE, None)
        query = strategy.ask(history)[0]
        assert distance(query, failed) > 1e-6
        failed = query


def test_failures_carry_no_value(row):
    """What a failed evaluation said, or how, makes no difference."""
    history = usual(row)
    query = following(row)
    asked = history.asked(query, row.space.costs[query.fidelity])
    nan = asked.updated(asked.records[-1].done(float("nan")))
    strategy = veteran(row)
    assert strategy.ask(nan) == strategy.ask(step(history, query, row.space, None))


def test_all_failed(row):
    history = loop(bound(row), lambda query: None, row.steps)
    for query in queries(history):
        check_allowed(query, row.space)
    assert bound(row).recommend(history) is None


@pytest.mark.parametrize("values", ["constant", "offset", "two"])
def test_awkward_values(row, values):
    objective = {
        "constant": lambda query: 1e9,
        "offset": toy(row.space, shift=1e9),
        "two": lambda query: float(query.x[0] > 0),
    }[values]
    for query in queries(loop(bound(row), objective, min(row.steps, 6))):
        check_allowed(query, row.space)


@pytest.mark.parametrize("scale", [2.0**30, 2.0**-30], ids=["1e9", "1e-9"])
def test_scale_of_the_values(design_row, scale):
    """Multiplying every value by a power of two changes no decision."""
    history = usual(design_row)
    scaled = history
    for r in history:
        noted = dict(r.query.meta)
        if "predicted" in noted:  # in the units of the values
            noted["predicted"] = {name: [scale * part for part in both] for name, both in noted["predicted"].items()}
        scaled = scaled.updated(replace(r.done(scale * r.value), query=replace(r.query, meta=noted)))
    expected, found = following(design_row), bound(design_row).ask(scaled)[0]
    assert found.fidelity == expected.fidelity
    assert found.x == pytest.approx(expected.x, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("space", [box(1, 1), box(1, 3), box(20), MIXED], ids=["1-1", "1-3", "20-2", "mixed"])
def test_other_spaces(design_row, space):
    if space.dim > design_row.most:
        refused(rf"^children = '{space.dim} dimensions.*must be given", bound(design_row, space).ask, History())
        return
    steps = min(design_row.steps, {1: 6, 20: 5}.get(space.dim, 100))
    for query in queries(loop(bound(design_row, space), toy(space), steps)):
        check_allowed(query, space)


def test_small_grid_is_exhausted_before_it_is_repeated(row):
    space = Space((Parameter("k", 0, 2, integer=True),), (1.0,), zeta=(0.0,))
    history = loop(bound(row, space), toy(space), 3)
    assert {query.x for query in queries(history)} == {(0.0,), (1.0,), (2.0,)}
    check_allowed(bound(row, space).ask(history)[0], space)


def test_recommends_the_best_at_the_target(design_row):
    history = usual(design_row)
    at_target = [r for r in history if r.query.fidelity == SPACE.target]
    best = bound(design_row).recommend(history)
    if isinstance(best, Recommendation):
        assert min((bound(design_row).space.inputs - torch.tensor(best.x, dtype=torch.double)).abs().amax(-1)) == 0
        assert math.isfinite(best.mean)
        assert best.deviation >= 0
        return
    assert best == max(at_target, key=lambda r: r.value, default=None)


def test_standard_errors_go_into_the_model(design_row):
    """A model believes a value with a large one less, and infers the noise where some values lack one."""
    at, believed = torch.tensor([r.query.x for r in usual(design_row)], dtype=torch.double), []
    for error in (1e-3, 1.0):
        history = History(replace(r, standard_error=error) for r in usual(design_row))
        strategy = bound(design_row)
        check_allowed(strategy.ask(history)[0], SPACE)
        believed.append(strategy.predict(history, at))
    if None in believed:
        return
    exact, vague = (mean.nan_to_num() for mean, _ in believed)
    assert (exact - vague).abs().max() > 1e-3 * exact.abs().max()
    some = History(replace(r, standard_error=1.0 if r.id else None) for r in usual(design_row))
    torch.testing.assert_close(
        strategy.predict(some, at), bound(design_row).predict(usual(design_row), at), equal_nan=True
    )


def test_cheaper_records_never_pass_for_the_targets(row):
    """About 100 there, about 1 at the target: a model of the target has not seen them, one of all knows which."""
    arms = row.space is not SPACE
    designs = [(-1.0,), (0.0,), (2.0,), (3.0,)] if arms else [(0.0, 1.0), (2.0, 20.0), (5.0, 0.1), (9.0, 50.0)]
    history, fine = History(), History()
    for x, fidelity, value in zip(designs, (0, 0, 1, 1), (100.0, 101.0, 1.0, 2.0), strict=True):
        history = step(history, Query(x, fidelity), row.space, value)
        fine = step(fine, Query(x, fidelity), row.space, value) if fidelity else fine
    strategy, X = bound(row), torch.tensor(designs, dtype=torch.double)
    predicted = strategy.predict(history, X)
    if predicted is not None and predicted[0][:, 0].isnan().all():
        torch.testing.assert_close(predicted, bound(row).predict(fine, X), equal_nan=True)
    elif predicted is not None and not predicted[0].isnan().any():
        assert (predicted[0][2:, 1] - torch.tensor([1.0, 2.0])).abs().max() < 25
    best = strategy.recommend(history)
    assert isinstance(best, Recommendation) or best.query.fidelity == row.space.target


def test_measured_costs(row):
    space = replace(row.space, measured=True)
    for query in queries(loop(bound(row, space), toy(space), min(row.steps, 5))):
        check_allowed(query, space)
