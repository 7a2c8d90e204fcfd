"""Regret, against a plain transcription of its definition."""

import math
import random

import pytest
import torch

from mfbo_torch import metrics
from mfbo_torch.history import History, Query
from mfbo_torch.utils.errors import SettingError

OPTIMUM, WORST = 10.0, -4.0
COSTS = (1.0, 3.5, 10.0)
EMPTY = torch.empty(0, dtype=torch.double)


def drawn(n: int, seed: int) -> History:
    """A history of random fidelities and fates."""
    rng, history = random.Random(seed), History()
    for _ in range(n):
        fidelity = rng.randrange(3)
        history = history.asked(Query((rng.random(),), fidelity), COSTS[fidelity])
        record, fate = history.records[-1], rng.random()
        if fate < 0.7:
            history = history.updated(record.done(rng.uniform(WORST, OPTIMUM)))
        elif fate < 0.85:
            history = history.updated(record.failed("a test"))
    return history


def rewards(history: History) -> list[float]:
    """``q_t``: the value at the target, ``-B`` elsewhere."""
    return [r.value if r.query.fidelity == 2 and r.status == "done" else WORST for r in history.records]


def cumulative(history: History, capital: float) -> float:
    """``R(Λ) = Λ f* - [Σ λ q + (Λ - Σ λ) (-B)]``, ``N`` the most queries whose costs sum to at most ``Λ``."""
    total = earned = 0.0
    for record, reward in zip(history.records, rewards(history), strict=True):
        if total + record.cost > capital:
            break
        total += record.cost
        earned += record.cost * reward
    return capital * OPTIMUM - (earned + (capital - total) * WORST)


@pytest.mark.parametrize("seed", range(4))
def test_cumulative_regret(seed):
    history = drawn(23, seed)
    for capital in (0.5, 1.0, 17.3, history.spent, 2 * history.spent):
        expected = cumulative(history, capital)
        assert metrics.cumulative_regret(history, 2, OPTIMUM, WORST, capital) == pytest.approx(expected, rel=1e-12)
        average = metrics.average_regret(history, 2, OPTIMUM, WORST, capital)
        assert average == pytest.approx(expected / capital, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_instant_and_simple_regret(seed):
    history = drawn(23, seed)
    instant = [OPTIMUM - reward for reward in rewards(history)]
    assert metrics.instant_regret(history, 2, OPTIMUM, WORST).tolist() == pytest.approx(instant)
    simple = [OPTIMUM - max(rewards(history)[: t + 1]) for t in range(23)]
    assert metrics.simple_regret(history, 2, OPTIMUM, WORST).tolist() == pytest.approx(simple)
    costs = [record.cost for record in history]
    assert metrics.capital_spent(history).tolist() == pytest.approx([sum(costs[: t + 1]) for t in range(23)])
    found = [r.value if r.query.fidelity == 2 and r.status == "done" else -math.inf for r in history]
    assert metrics.best_values(history, 2).tolist() == [max(found[: t + 1]) for t in range(23)]


def test_before_the_first_value_at_the_target():
    history = History().asked(Query((0.0,), 0), 1.0).asked(Query((0.0,), 2), 10.0)
    history = history.updated(history.records[0].done(9.0))
    assert metrics.simple_regret(history, 2, OPTIMUM, WORST).tolist() == [14.0, 14.0]
    assert metrics.best_values(history, 2).tolist() == [-math.inf, -math.inf]
    assert metrics.simple_regret(history, 0, OPTIMUM, WORST).tolist() == [1.0, 1.0]


def test_a_perfect_run_has_no_regret():
    history = History()
    for _ in range(10):
        history = history.asked(Query((0.0,), 2), 0.1)
        history = history.updated(history.records[-1].done(OPTIMUM))
    # ten times 0.1 is within a capital of 1, whatever the rounding
    assert metrics.cumulative_regret(history, 2, OPTIMUM, WORST, 1.0) == pytest.approx(0.0, abs=1e-12)


def test_several_runs_at_several_capitals():
    histories, capitals = [drawn(23, seed) for seed in range(3)], [0.5, 20.0, 60.0, 1e3]
    costs = torch.stack([metrics.query_costs(history) for history in histories])
    instant = torch.stack([metrics.instant_regret(history, 2, OPTIMUM, WORST) for history in histories])
    found = metrics.regret_at(capitals, costs, instant, OPTIMUM - WORST)
    for row, history in enumerate(histories):
        totals = [sum(COSTS[r.query.fidelity] for r in history.records[:n]) for n in range(1, 24)]
        counts = [sum(total <= capital for total in totals) for capital in capitals]
        assert metrics.paid_for(metrics.capital_spent(history), capitals).tolist() == counts
        expected = [cumulative(history, capital) for capital in capitals]
        assert found.total[row].tolist() == pytest.approx(expected, rel=1e-12)
        unspent = [c - sum(r.cost for r in history.records[:n]) for c, n in zip(capitals, counts, strict=True)]
        assert found.residual[row].tolist() == pytest.approx([14.0 * capital for capital in unspent], rel=1e-12)


def test_no_history():
    assert metrics.cumulative_regret(History(), 2, OPTIMUM, WORST, 7.0) == 7.0 * 14.0
    assert metrics.average_regret(History(), 2, OPTIMUM, WORST, 7.0) == 14.0
    for nothing in (0.0, -1.0, float("nan")):
        with pytest.raises(SettingError, match=r"^capital = .*: must be a number above 0$"):
            metrics.average_regret(History(), 2, OPTIMUM, WORST, nothing)
    for regret in (metrics.simple_regret, metrics.instant_regret):
        assert torch.equal(regret(History(), 2, OPTIMUM, WORST), EMPTY)
    assert torch.equal(metrics.best_values(History(), 2), EMPTY)
    assert torch.equal(metrics.capital_spent(History()), EMPTY)
