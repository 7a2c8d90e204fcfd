"""MF-GP-UCB in batches and with asynchronous workers: pending queries count everywhere they should."""

import random

import pytest
import torch
from strategy_table import box, loop, toy
from ucb_runs import LINKS, check_largest, designed, model_of, strategy

from mfbo_torch.acquisition import MultiFidelityUpperConfidenceBound, cost_thresholds, select_fidelity
from mfbo_torch.history import History, Query
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.strategies import MFGPUCB

SPACE = box(2)


def started(link: str, steps: int = 2) -> History:
    """A history some decisions after the initial design."""
    asks = strategy(link, SPACE)
    return loop(asks, toy(SPACE), steps, designed(asks))


@pytest.mark.parametrize("link", LINKS)
def test_a_batch_conditions_deviations_at_their_own_fidelity(link):
    """Each query of a batch is that of a model which has seen values of the ones before, but for the mean."""
    history, asks = started(link), strategy(link, SPACE, hedge=False)
    model = model_of(asks, history)
    for query in asks.ask(history, 4):
        if "check" not in query.meta:
            points, beta, zeta = asks.unit_points(history.pending), query.meta["beta"], query.meta.get("zeta")
            u = torch.tensor([query.x], dtype=torch.double)
            bound = MultiFidelityUpperConfidenceBound(model, beta, zeta, points)
            values = torch.sin(torch.arange(len(points), dtype=torch.double)).unsqueeze(-1)  # any would do
            seen = model.condition_on_observations(points, values) if len(points) else model
            mean, deviation = model.mean_variance(u)[0], seen.mean_variance(u)[1].sqrt()
            bounds = mean + beta**0.5 * deviation + torch.tensor(zeta or [0.0, 0.0])
            expected = bounds[0].min() if zeta else bounds[0, -1]
            if zeta or not points[:, -1].any():  # a value at the target that is not nested tells a chain less
                assert bound(u.unsqueeze(-2)).item() == pytest.approx(expected.item(), abs=1e-9)
            check_largest(bound, query, SPACE)
        history = history.asked(query, SPACE.costs[query.fidelity])


def test_the_fidelity_rule_sees_what_is_pending():
    """What a cheap query there would tell is on its way, so the target is asked."""
    model = model_of(strategy("recursive", SPACE), started("recursive"))
    x = torch.tensor([[0.9, 0.1]], dtype=torch.double)
    costs, cheap = SPACE.costs, torch.tensor([[0.9, 0.1, 0.0]], dtype=torch.double)

    def chosen(pending: torch.Tensor | None) -> int:
        return select_fidelity(model, x, 1.0, cost_thresholds(model, x, 1.0, costs, X_pending=pending), pending)

    assert chosen(None) == 0
    assert chosen(cheap.expand(5, 3)) == 1
    batch = strategy("recursive", SPACE).ask(started("recursive"), 12)
    assert {0, 1} == {query.fidelity for query in batch}


def test_a_batch_is_what_one_query_after_another_would_be():
    """Each decided by a strategy that remembers nothing, with the others in flight."""
    history = started("recursive")
    batch = strategy("recursive", SPACE).ask(history, 6)
    assert len({(query.x, query.fidelity) for query in batch}) == 6
    for query in batch:
        assert strategy("recursive", SPACE).ask(history) == [query]
        history = history.asked(query, SPACE.costs[query.fidelity])


@pytest.mark.parametrize("link", LINKS)
def test_a_pending_query_at_the_target_tells_of_the_cheap_fidelity_through_the_link(link):
    model = model_of(strategy(link, SPACE), started(link))
    x, point = torch.tensor([[0.9, 0.1]], dtype=torch.double), torch.tensor([[0.9, 0.1, 1.0]], dtype=torch.double)
    before, after = model.mean_variance(x)[1][0], model.hallucinate(point).mean_variance(x)[1][0]
    assert (after[0] < before[0]) == (link == "recursive")
    assert after[1] < before[1]
    cheap = model.hallucinate(torch.tensor([[0.9, 0.1, 0.0]], dtype=torch.double)).mean_variance(x)[1][0]
    assert cheap[0] < before[0]
    assert (cheap[1] < before[1]) == (link == "recursive")  # through the link


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("workers", [3, 5])
def test_capital_counts_what_is_in_flight(link, workers):
    """Asynchronous workers, answers in any order: never more is asked than the capital pays for."""
    optimizer, rng = Optimizer(strategy(link, SPACE, capital=26.0)), random.Random(0)
    objective = toy(SPACE)
    while True:
        while len(optimizer.history.pending) < workers and optimizer.ask(capital=26.0):
            assert optimizer.history.spent <= 26.0
        if not optimizer.history.pending:
            break
        record = rng.choice(optimizer.history.pending)
        optimizer.tell(record.id, objective(record.query))
    history = optimizer.history
    assert len({(r.query.x, r.query.fidelity) for r in history}) == len(history)
    assert SPACE.target in {r.query.fidelity for r in history if r.query.meta["stage"] == "model"}


def test_failures_condition_nothing():
    """A failed query is not pending any more: the model that decides is the one without it."""
    history = started("recursive")
    failed = history.asked(Query((0.9, 0.1), 1, {"stage": "model"}), 4.0)
    failed = failed.updated(failed.records[-1].failed("a test"))
    asks = strategy("recursive", SPACE, hedge=False)
    query = asks.ask(failed)[0]
    bound = MultiFidelityUpperConfidenceBound(model_of(asks, history), query.meta["beta"])
    check_largest(bound, query, SPACE, 1e-3)


@pytest.mark.parametrize("count", [2, 5])
def test_one_fidelity_is_asked_beside_what_is_pending(count):
    optimizer = Optimizer(MFGPUCB(space=box(1, num_fidelities=1)))
    for _ in range(3):
        for record in optimizer.ask(8):
            optimizer.tell(record.id, -((record.query.x[0] - 0.3) ** 2))
    queries = [record.query.x for record in optimizer.ask(count)]
    assert len({*queries}) == count
