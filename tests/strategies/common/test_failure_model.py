"""Regions that fail are left, at every fidelity and by every strategy that says so; chance is not taken for one."""

import pytest
import torch
from strategy_table import SPACE, box, loop, step, toy

from mfbo_torch import strategies
from mfbo_torch.acquisition.feasible import Feasible
from mfbo_torch.history import History, Query, Status
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies.common.failure_model import Failures
from mfbo_torch.strategies.common.initial_design import uniform
from mfbo_torch.strategies.snapshot import SnapshotCache

TAUGHT = [
    lambda **settings: strategies.MFGPUCB(initial_capital=4.0, **settings),
    lambda **settings: strategies.ExpectedImprovement(initial=6, **settings),
    lambda **settings: strategies.ProbabilityOfImprovement(initial=6, **settings),
    lambda **settings: strategies.GPUCB(initial=6, **settings),
    lambda **settings: strategies.GPBUCB(initial=6, **settings),
    lambda **settings: strategies.QUpperConfidenceBound(initial=6, samples=16, **settings),
    lambda **settings: strategies.QLogExpectedImprovement(initial=6, samples=16, **settings),
    lambda **settings: strategies.MFSKO(initial_capital=4.0, **settings),
]
DEFAULT, TARGET_ONLY = TAUGHT[:2]


class Known(torch.nn.Module):
    """Much to gain on the left, next to nothing on the right."""

    model = None

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return torch.where(X[:, 0, 0] < 0.35, 1.0, 1e-9).to(X)


def past(space: Space, fails, n: int = 24) -> History:
    """Uniform designs, half of them at the target; those that fail have no value."""
    history = History()
    for i, u in enumerate(uniform(space.dim, n, 3)):
        query = Query(tuple(space.from_unit(u).tolist()), space.target if i % 2 else 0, {"stage": "model"})
        history = step(history, query, space, None if fails(query) else toy(space)(query))
    return history


def share(history: History, first: int) -> float:
    """Of the capital from a query on: what failed."""
    later = history.records[first:]
    return sum(r.cost for r in later if r.status == Status.FAILED) / sum(r.cost for r in later)


def beyond(query: Query) -> bool:
    """The half in which the toy rises, for the box; the best is at 0.3."""
    return query.x[0] < 0.35


def test_a_training_that_was_stopped_says_neither():
    """One failure on the left; what was stopped on the right is no failure."""
    space, history = box(1), History()
    for i in range(12):
        x = (i + 0.5) / 12
        history = history.asked(Query((x,), space.target, {"stage": "model"}), 1.0)
        last = history.records[-1]
        ends = last.failed("why") if i == 0 else last.stopped("why") if i > 5 else last.done(x)
        history = history.updated(ends)
    found = Failures(100).feasibility(SnapshotCache().snapshot(history, space), space.target)
    assert found is not None
    assert found(torch.tensor([[0.9]], dtype=torch.double)) > found(torch.tensor([[0.04]], dtype=torch.double))
    assert found.chance == pytest.approx(6 / 8)


@pytest.mark.slow
@pytest.mark.parametrize("make", TAUGHT, ids=lambda make: type(make()).__name__)
def test_a_region_that_fails_is_left(make):
    """The best design lies in it: a strategy that learns nothing asks there each time."""
    space = box(2)
    history = past(space, beyond)
    found = loop(make(space=space, capital=200.0), lambda q: None if beyond(q) else toy(space)(q), 5, history)
    assert share(found, len(history)) <= 0.6


@pytest.mark.parametrize("make", TAUGHT, ids=lambda make: type(make()).__name__)
def test_without_a_failure_nothing_is_touched(make):
    strategy = make(space=SPACE)
    strategy = getattr(strategy, "rule", strategy)
    history = past(SPACE, lambda query: False).asked(Query((0.0, 1.0), 0), 1.0)
    acquisition = Known()
    assert strategy.feasible(acquisition, strategy.snapshot(history), 0) is acquisition
    failed = history.updated(history.records[-1].failed("a time-out"))
    assert isinstance(strategy.feasible(acquisition, strategy.snapshot(failed), 0), Feasible)


VARIANTS = {
    "disc": (box(2), lambda q: (q.x[0] - 0.45) ** 2 + (q.x[1] - 0.3) ** 2 < 0.2**2),
    "target-only": (box(2), lambda q: q.fidelity == 1 and q.x[0] < 0.35),
    "most": (box(2), lambda q: not (q.x[0] > 0.6 and q.x[1] > 0.5)),
    "integers": (
        Space((Parameter("kind", 0, 3, integer=True), Parameter("x", 0.0, 1.0)), (1.0, 4.0)),
        lambda q: q.x[0] in (0, 1),
    ),
    "candidates": (
        Space.finite(torch.cartesian_prod(*[torch.linspace(0, 1, 7, dtype=torch.double)] * 2), (1.0, 4.0)),
        lambda q: q.x[0] < 0.4,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", [DEFAULT, TARGET_ONLY], ids=["default", "target-only"])
@pytest.mark.parametrize("name", VARIANTS)
def test_other_regions(name, make):
    """Soon something that can be evaluated is asked; a second ask gives the same."""
    space, fails = VARIANTS[name]
    history = past(space, fails)
    found = loop(make(space=space, capital=200.0), lambda q: None if fails(q) else toy(space)(q), 4, history)
    assert share(found, len(history)) <= 0.8
    assert make(space=space, capital=200.0).ask(found) == make(space=space, capital=200.0).ask(found)


def test_pending_queries_say_nothing_of_failures():
    """They are neither; while they are out the model of feasibility stays."""
    space = box(2)
    history = past(space, beyond)
    strategy = TARGET_ONLY(space=space)
    before = strategy.failures.feasibility(strategy.snapshot(history), 1)
    assert strategy.failures.feasibility(strategy.snapshot(history.asked(Query((0.1, 0.1), 1), 4.0)), 1) is before
    queries = strategy.ask(history, 4)
    assert len({query.x for query in queries}) == 4
    assert sum(map(beyond, queries)) <= 2


def test_chance_changes_little():
    """Of evaluations that fail now and then, wherever they are, the search is nearly the same as without them."""
    space = box(2)
    crashes = iter([i % 8 == 3 for i in range(100)])
    history = past(space, lambda query: next(crashes), 32)
    strategy = TARGET_ONLY(space=space)
    assert strategy.failures.feasibility(strategy.snapshot(history), 1)(uniform(2, 200, 0)).min() > 0.6
    assert (torch.tensor(strategy.ask(history)[0].x) - 0.3).abs().max() < 0.15


@pytest.mark.slow
def test_everything_fails_at_first():
    for make in (DEFAULT, TARGET_ONLY):
        strategy = make(space=box(2), capital=200.0)
        history = loop(strategy, toy(box(2)), 6, loop(strategy, lambda query: None, 12))
        assert len(history.done) == 6


def test_the_cheapest_fidelity_goes_first_where_the_target_may_fail():
    space = box(2)
    history = past(space, lambda query: query.x[0] < 0.5)
    rule = DEFAULT(space=space).rule
    probing = lambda u, history: rule.probing(u, 1, rule.snapshot(history))  # noqa: E731
    border, safe = torch.tensor([[0.48, 0.7]], dtype=torch.double), torch.tensor([[0.95, 0.5]], dtype=torch.double)
    assert probing(border, history) == 0
    assert probing(safe, history) == 1
    assert probing(border, History(r for r in history if r.status == Status.DONE)) == 1
    assert probing(border, step(history, Query((0.48, 0.7), 0), space, 1.0)) == 1


def test_a_region_is_asked_again_where_nothing_else_gains():
    """A gain elsewhere that is small enough no longer outweighs the smallest probability."""
    history = past(box(2), beyond)
    strategy = TARGET_ONLY(space=box(2))
    p = strategy.failures.feasibility(strategy.snapshot(history), 1)
    X = torch.tensor([[[0.1, 0.5]], [[0.8, 0.5]]], dtype=torch.double)
    low, high = Feasible(Known(), p, 0.0)(X)
    assert p(X[:, 0])[0] < 0.2
    assert low > high
