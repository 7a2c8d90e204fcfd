"""Of many observations a model is made of some, which depend on the history alone."""

import pytest
import torch
from strategy_table import SPACE, toy, windowed

from mfbo_torch.history import History, Query, Record, Status
from mfbo_torch.strategies import CMES, MFGPUCB, ExpectedImprovement
from mfbo_torch.strategies.common import subsample
from mfbo_torch.strategies.common.initial_design import sobol
from mfbo_torch.strategies.common.subsample import Subset, chosen


@pytest.fixture
def small(monkeypatch):
    """The same with fewer observations."""
    monkeypatch.setattr(subsample, "MOST", 40)


def observed(count, fidelity=lambda i: 1):
    objective, designs = toy(SPACE), SPACE.from_unit(sobol(2, count, 0))
    records = []
    for i in range(count):
        query = Query(tuple(designs[i].tolist()), fidelity(i), {"stage": "initial" if i < 4 else "model"})
        records.append(Record(i, query, 1.0, objective(query), Status.DONE))
    return records


def test_all_up_to_the_bound_above_it_never_more_and_the_latest_always(small):
    for few in (observed(40), observed(78, lambda i: i % 2)):
        assert Subset()(SPACE, few) == few
    records, kept = observed(95), Subset()
    for n in range(41, 96):
        found = kept(SPACE, records[:n])
        assert len(found) <= 40
        assert found == Subset()(SPACE, records[:n])
        assert [r.id for r in found] == sorted({r.id for r in found})
        assert {0, 1, 2, 3, n - 1} <= {r.id for r in found}
        assert max(records[:n], key=lambda r: r.value) in found
    both = kept(SPACE, observed(95, lambda i: int(i % 5 == 0)))
    assert sum(r.query.fidelity == 1 for r in both) == 19
    assert sum(r.query.fidelity == 0 for r in both) <= 40


def test_of_many_above_the_cheapest_fewer_count(small):
    records, kept = observed(120, lambda i: i % 2), Subset(above=20)
    assert kept(SPACE, records[:40]) == records[:40]
    for n in range(41, 121):
        found = kept(SPACE, records[:n])
        of = [[r for r in found if r.query.fidelity == m] for m in range(2)]
        assert len(of[0]) == min((n + 1) // 2, 40) or (n + 1) // 2 > 40 >= len(of[0])
        assert len(of[1]) <= 20
        assert records[n - 1] in found
        assert max((r for r in records[:n] if r.query.fidelity), key=lambda r: r.value) in of[1]


def test_models_grow_between_two_choices(small):
    records = observed(70)
    before, after = (Subset()(SPACE, records[:n]) for n in (62, 68))
    assert after[: len(before)] == before
    assert [r.id for r in after[len(before) :]] == list(range(62, 68))


def test_what_is_kept_fills_the_space_and_the_neighbourhood_of_the_best(small):
    records = observed(400)
    U = SPACE.to_unit(torch.tensor([r.query.x for r in records], dtype=torch.double))
    found = chosen(SPACE, records, 30)
    assert len(found) == 30
    gaps = torch.cdist(U, U[found]).amin(-1)
    assert gaps.max() < 2 * torch.cdist(U, U[:30]).amin(-1).max()  # at most twice that of a design made for it
    best = max(range(400), key=lambda i: records[i].value)
    assert set((U - U[best]).norm(dim=-1).argsort()[:10].tolist()) <= set(found)


def test_the_same_design_again_and_again(small):
    found = Subset()(SPACE, [Record(i, Query((1.0, 1.0), 1), 1.0, float(i % 3), Status.DONE) for i in range(60)])
    assert len(found) <= 40
    assert len({r.id for r in found}) == len(found)


@pytest.mark.parametrize("make", [MFGPUCB, ExpectedImprovement])
def test_decisions_and_advice_are_made_with_what_is_kept(small, make):
    history = History(observed(90, (lambda i: int(i % 9 == 0)) if make is MFGPUCB else lambda i: 1))
    strategy, again = (make().bind(SPACE, 400.0) for _ in range(2))
    rule = getattr(strategy, "rule", strategy)
    assert len(rule.modelled(rule.snapshot(history))) <= 50
    query = strategy.ask(history)[0]
    assert query == again.ask(history)[0]
    assert query.meta["stage"] == "model"
    mean, _ = strategy.predict(history, torch.tensor([history.best(1).query.x], dtype=torch.double))
    assert abs(mean[0, 1].item() - history.best(1).value) < 0.1


def test_models_over_averages_are_bounded_too(small):
    space = windowed(SPACE)
    history = History(observed(90))
    strategy, again = (CMES(initial=2).bind(space, 4000.0) for _ in range(2))
    snapshot = strategy.snapshot(history)
    assert len(strategy.modelled(snapshot)) <= 40
    assert len(strategy.model(snapshot).model.train_targets.reshape(-1)) <= 40
    assert strategy.ask(history)[0] == again.ask(history)[0]
    assert strategy.recommend(history) == again.recommend(history)
