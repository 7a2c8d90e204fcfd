"""How many first queries the default has at each fidelity."""

from itertools import pairwise

import pytest

from mfbo_torch import Parameter, minimize
from mfbo_torch.history import History
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.space import Space
from mfbo_torch.strategies import MFGPUCB

SQUARE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def counts(costs, target_costs, **settings):
    capital = None if target_costs is None else target_costs * costs[-1]
    rule = MFGPUCB(space=Space(SQUARE, costs=costs), capital=capital, **settings).rule
    return rule.counts(rule.snapshot(History()))


@pytest.mark.parametrize(
    ("costs", "at_two", "at_five", "at_ten"),
    [
        ((1, 10), [10, 1], [20, 1], [10, 2]),
        ((1, 5, 10), [10, 0, 1], [15, 1, 1], [5, 2, 2]),
        ((1, 10, 100), [25, 7, 1], [47, 15, 1], [20, 5, 2]),
        ((1, 3, 9, 27), [20, 2, 0, 1], [20, 8, 1, 1], [9, 3, 2, 2]),
    ],
)
def test_a_short_capital_is_for_the_cheapest(costs, at_two, at_five, at_ten):
    """One query of the target: the cheapest fidelity first, one query of each between where more is to come."""
    assert [counts(costs, capital) for capital in (2, 5, 10)] == [at_two, at_five, at_ten]
    assert min(counts(costs, 3)) >= 1


@pytest.mark.parametrize("target_costs", [1.0, 1.5, 2.0, 2.5, 3.0, 5.0, 5.9])
def test_the_first_design_is_paid_for(target_costs):
    costs = (1, 5, 30)
    spent = sum(n * cost for n, cost in zip(counts(costs, target_costs), costs, strict=True))
    assert spent <= (1.0 if target_costs < 3 else max(2 / target_costs, 0.6)) * target_costs * 30 + 1e-9


def test_an_initial_capital_is_heeded():
    assert counts((1, 10, 100), None, initial_capital=2.0) == [22, 7, 1]
    assert counts((1, 10, 100), 2, initial_capital=1.5) == [20, 3, 1]


def beside(most: int, costs=(1, 3, 9, 27), capital=20 * 27.0):
    """The queries of sixteen workers until the target has a value; the cheaper an evaluation, the sooner it ends."""
    optimizer, running, clock = Optimizer(MFGPUCB(space=Space(SQUARE, costs=costs), capital=capital)), [], 0.0
    while len(optimizer.history) < most:
        for record in optimizer.ask(16 - len(running), capital=capital):
            running.append((clock + record.cost, record.id))
        clock, number = min(running)
        running.remove((clock, number))
        record = optimizer.history.records[number]
        x, y = record.query.x
        yield optimizer.history
        if record.query.fidelity == len(costs) - 1:
            return
        optimizer.tell(number, -((x - 0.3) ** 2) - (y - 0.6) ** 2 - 0.01 * record.query.fidelity)


def test_nothing_is_asked_at_the_target_before_something_has_ended():
    first = next(beside(40))
    assert len(first) == 16
    assert {record.query.fidelity for record in first} == {0}


def test_until_the_target_answers_the_first_design_goes_on():
    """Each query of the target, after the first ones, goes where the best below is, and the fidelities below have cost
    as much by then."""
    *_, last = beside(120)
    asked = [i for i, record in enumerate(last) if record.query.fidelity == 3]
    assert asked
    for i in asked:
        x, y = last.records[i].query.x
        below = [r for r in last.records[:i] if r.query.fidelity < 3]
        assert last.records[i].query.x in {r.query.x for r in below}
        assert (x - 0.3) ** 2 + (y - 0.6) ** 2 < 0.5
    for i, j in pairwise([i for i in asked if last.records[i].query.meta["stage"] == "model"]):
        assert 26 <= sum(record.cost for record in last.records[i + 1 : j]) <= 27


@pytest.mark.parametrize("target_costs", [0.05, 0.1, 0.2, 0.5])
def test_a_capital_below_the_target_is_for_the_cheapest(target_costs):
    """The first is below the cheapest cost, which a capital in seconds may be before any was measured."""
    assert counts((1, 10), target_costs)[0] >= 1
    assert counts((1, 10), target_costs)[1] == 0


def test_where_all_have_failed_below_the_next_ones_are_new():
    optimizer = Optimizer(MFGPUCB(space=Space({"x": (0.0, 1.0)}, costs=[3, 9, 27]), capital=216))
    failed = set()
    while (queries := optimizer.ask(1, capital=216)) and queries[0].query.meta["stage"] == "initial":
        [record] = queries
        (x,) = record.query.x
        assert x not in failed
        if x > 0.3:
            failed.add(x)
            optimizer.fail(record.id, "diverged")
        else:
            optimizer.tell(record.id, -((x - 0.2) ** 2))
    assert failed


@pytest.mark.parametrize(("most", "capital"), [(2, 15.0), (2, 20.0), (4, 20.0)])
@pytest.mark.parametrize("broken", [False, True], ids=["all", "one fails"])
def test_where_the_cheap_designs_are_used_up_the_best_of_them_is_promoted(most, capital, broken):
    def loss(n, fidelity):
        if broken and n == 1:
            raise ValueError("no")
        return n + 0.1 * (1 - fidelity)

    space = Space([Parameter("n", 1, most, integer=True)], costs=[1, 10])
    found = minimize(loss, space, capital)
    assert found.parameters == {"n": 2 if broken else 1}


@pytest.mark.parametrize("costs", [(1, 3, 10), (1, 3, 9, 27), (1, 10)])
@pytest.mark.parametrize(("size", "target_costs"), [(4, 2), (8, 4), (12, 5), (3, 3)])
@pytest.mark.parametrize("strategy", ["MFGPUCB", "BOCA"])
def test_a_finite_space_leaves_capital_for_the_target(costs, size, target_costs, strategy):
    """A fidelity that wants more first queries than there are designs gives way to the next one."""
    space = Space([Parameter("k", 1, size, integer=True)], costs=costs)
    found = minimize(lambda k, fidelity: (k - 2) ** 2 - fidelity, space, target_costs * costs[-1], strategy=strategy)
    assert found.success
    counts = found.history.queries_per_fidelity(len(costs))
    assert max(counts) <= size
    assert counts[-1] >= 1
