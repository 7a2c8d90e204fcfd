"""Initial designs and the keeping away from designs already asked."""

from dataclasses import replace

import pytest
import torch
from strategy_table import loop, step
from toy import Hill

from mfbo_torch.history import History, Query
from mfbo_torch.loop.runner import run
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import MFGPUCB, RandomSearch
from mfbo_torch.strategies.common import initial_design
from mfbo_torch.strategies.common.deduplicate import BUSY_RADIUS, clear, distinct


@pytest.mark.parametrize("design", [initial_design.uniform, initial_design.sobol])
@pytest.mark.parametrize("dim", [1, 3, 20])
def test_designs(design, dim):
    X = design(dim, 200, seed=3)
    assert X.shape == (200, dim)
    assert X.dtype == torch.double
    assert 0 <= X.min() <= X.max() <= 1
    assert X.mean(dim=0).sub(0.5).abs().max() < 0.1
    assert torch.equal(X, design(dim, 200, seed=3))
    assert not torch.equal(X, design(dim, 200, seed=4))
    for n in (1, 7, 100):
        assert torch.equal(design(dim, n, seed=3), X[:n])


@pytest.mark.parametrize(
    ("cost", "capital", "expected"), [(1.0, None, 10), (1.0, 100.0, 10), (1.0, 8.0, 4), (0.1, 0.6, 3), (5.0, 1.0, 2)]
)
def test_single_fidelity_count(cost, capital, expected):
    assert initial_design.single_fidelity_count(cost, capital) == expected


@pytest.mark.parametrize(
    ("costs", "dim", "capital", "expected"),
    [
        ((1.0, 10.0), 3, None, [40, 5]),  # 50 cheap ones are paid for, 10 (d + 1) allowed
        ((1.0, 10.0), 6, None, [50, 5]),
        ((1.0, 10.0, 100.0), 3, None, [40, 25, 2]),
        ((1.0, 10.0), 3, 40.0, [10, 1]),
        ((1.0, 10.0), 3, 4.0, [2, 0]),
        ((10.0,), 3, None, [10]),
        ((10.0,), 3, 60.0, [3]),
    ],
)
def test_multi_fidelity_counts(costs, dim, capital, expected):
    assert initial_design.multi_fidelity_counts(costs, dim, capital) == expected


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_clear_design_stays_and_a_full_space_gives_the_farthest():
    u = torch.tensor([0.5, 0.5], dtype=torch.double)
    taken = torch.tensor([[0.5, 0.6]], dtype=torch.double)
    found, is_clear = distinct(u, taken, torch.tensor([0.05]).double(), generator())
    assert is_clear
    assert torch.equal(found, u)
    taken = torch.linspace(0, 1, 200, dtype=torch.double)[:, None]
    found, is_clear = distinct(taken[3], taken, torch.full((200,), 0.01).double(), generator())
    assert not is_clear
    assert (found - taken).abs().min() > 1e-4


@pytest.mark.parametrize("radius", [1e-6, 1e-2])
@pytest.mark.parametrize("dim", [1, 20])
def test_a_taken_design_moves_a_little(radius, dim):
    u = torch.zeros(dim, dtype=torch.double)
    found, is_clear = distinct(u, u[None], torch.tensor([radius]).double(), generator())
    assert is_clear
    assert radius < (found - u).abs().max() < 200 * radius
    assert found.min() >= 0


GRID = Space((Parameter("a", 1, 10, integer=True), Parameter("b", 0, 19, integer=True)), (1.0,))


def test_a_grid_is_used_up():
    """200 whole-number designs: 200 different queries, then an observed one rather than a pending one."""
    strategy = RandomSearch(space=GRID)
    history = History()
    for i in range(200):
        u = clear(torch.tensor([[0.3, 0.3]]), 0, strategy.snapshot(history), generator(i))
        history = history.asked(strategy.query(u, 0), 1.0)
        if i > 100:
            history = history.updated(history.records[-1].done(0.0))
    assert len({r.query.x for r in history}) == 200
    repeated = strategy.query(clear(torch.tensor([0.3, 0.3]), 0, strategy.snapshot(history), generator()), 0)
    assert repeated.x in {r.query.x for r in history.done}


def test_other_fidelities_do_not_matter():
    strategy = RandomSearch(space=Space.box([[0.0], [1.0]], [1.0, 2.0]))
    history = History().asked(Query((0.5,), 0), 1.0)
    u = torch.tensor([0.5], dtype=torch.double)
    assert torch.equal(clear(u, 1, strategy.snapshot(history), generator()), u)
    assert (clear(u, 0, strategy.snapshot(history), generator()) - u).abs() > BUSY_RADIUS


@pytest.mark.parametrize(
    ("counts", "capital", "expected"),
    [
        ([15, 1, 1], None, [15, 1, 1]),
        ([15, 1, 1], 125.0, [15, 1, 1]),
        ([15, 1, 1], 120.0, [10, 1, 1]),
        ([15, 1, 1], 105.0, [0, 0, 1]),
        ([15, 1, 1], 99.0, [15, 1, 0]),
    ],
)
def test_the_first_designs_leave_room_for_the_target(counts, capital, expected):
    assert initial_design.with_the_target(counts, (1.0, 10.0, 100.0), capital) == expected


@pytest.mark.parametrize("settings", [{}, {"hedge": False}, {"link": "independent"}])
def test_a_capital_below_one_target_query_is_spent_below(settings):
    history = run(Hill(), MFGPUCB(**settings), 9.0, progress=False)
    assert [record.query.fidelity for record in history] == [0] * 9


def test_where_a_retry_has_taken_the_targets_capital_the_rest_is_spent_below():
    strategy, space = MFGPUCB(initial_capital=2), Hill().space
    history = step(History(), Query((1.0,), 0), space, None)
    history = history.updated(replace(history.records[0], cost=3.0))
    history = loop(strategy.bind(space, 12.0), lambda query: query.x[0], 9, history)
    assert [record.query.fidelity for record in history] == [0] * 10


def test_once_the_target_has_a_value_a_rest_that_does_not_pay_for_it_stays():
    space = Hill().space
    rule = MFGPUCB(space=space, capital=1.9 * space.costs[-1]).rule
    for fidelity, wanted in ((0, 0), (space.target, space.target)):
        history = step(History(), Query((1.0,), fidelity), space, 1.0)
        history = history.updated(replace(history.records[0], cost=space.costs[-1]))
        assert rule.free(space.target, rule.snapshot(history)) == wanted


@pytest.mark.parametrize("link", ["recursive", "independent"])
def test_a_capital_of_little_more_than_one_target_query_asks_it(link):
    problem = Hill()
    for capital in (10.0, 11.0, 13.0):
        assert run(problem, MFGPUCB(link=link), capital, progress=False).best(1) is not None
