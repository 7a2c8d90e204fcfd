"""ζ, γ and checks, folded by hand over hand-written histories."""

import itertools
import math
import random

import pytest

from mfbo_torch.history import History, Query, Record
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import (
    ABOVE,
    STEP,
    Thresholds,
    adaptive_thresholds,
    calibrated_beta,
    last_level,
    overdue,
)

COSTS = (1.0, 3.0, 12.0)
"""Ratios 3 and 4."""
INITIAL = [(0, 0.0), (0, 50.0), (1, -50.0), (2, 10.0)]
"""Range 100: ζ and γ start at 1."""


def ask(history: History, fidelity: int, **meta: object) -> History:
    """One more pending query."""
    return history.asked(Query((0.1 * len(history),), fidelity, meta), COSTS[fidelity])


def told(history: History, fidelity: int, value: float, **meta: object) -> History:
    """One more observation."""
    history = ask(history, fidelity, **meta)
    return history.updated(history.records[-1].done(value))


def initial() -> History:
    history = History()
    for fidelity, value in INITIAL:
        history = told(history, fidelity, value, stage="initial")
    return history


def fold(history: History) -> Thresholds:
    return adaptive_thresholds(history, COSTS)


def test_start():
    assert fold(initial()) == Thresholds(zeta=(2.0, 1.0, 0.0), gamma=(1.0, 1.0), check=None)
    assert adaptive_thresholds(initial(), COSTS, fraction=0.1).zeta == (20.0, 10.0, 0.0)
    # what comes later widens no range, and what failed had no value
    assert fold(told(initial(), 0, 1e6)).zeta == (2.0, 1.0, 0.0)
    failed = ask(initial(), 2, stage="initial")
    assert fold(failed.updated(failed.records[-1].failed("a test"))) == fold(initial())


@pytest.mark.parametrize(
    ("values", "start"),
    [([3.0, 3.0], 0.03), ([-250.0, -250.0], 2.5), ([0.0, 0.0], 0.01), ([7.0], 0.07), ([], 0.01)],
    ids=str,
)
def test_initial_values_without_a_range(values, start):
    history = History()
    for value in values:
        history = told(history, 0, value, stage="initial")
    found = fold(history)
    assert found.zeta == pytest.approx((2 * start, start, 0.0))
    assert found.gamma == pytest.approx((start, start))
    # without an initial design all values count
    assert fold(told(told(History(), 0, 10.0), 0, 30.0)).zeta == pytest.approx((0.4, 0.2, 0.0))
    # one fidelity has neither
    history = told(told(History(), 0, 1.0, stage="initial"), 0, 5.0)
    assert adaptive_thresholds(history, (1.0,)) == Thresholds((0.0,), (), None)


@pytest.mark.parametrize("gap", [1.1, -1.1, 500.0])
def test_what_disagrees_is_checked(gap):
    for small in (0.9, 1.0, -1.0):
        assert fold(told(initial(), 2, 20.0 + small, mean_below=20.0)).check is None
    history = told(initial(), 1, 20.0 + gap, mean_below=20.0)
    assert fold(history).check == history.records[-1]
    assert fold(history).zeta == (2.0, 1.0, 0.0)
    # no matter what else happens meanwhile
    assert fold(told(history, 0, 5.0)).check == history.records[4]


def test_zeta_is_twice_the_violation():
    history = told(initial(), 2, 30.0, mean_below=20.0)
    assert fold(told(history, 1, 23.0, check=4)) == Thresholds(zeta=(28.0, 14.0, 0.0), gamma=(1.0, 1.0), check=None)
    # the other way round counts as much
    assert fold(told(history, 1, 37.0, check=4)).zeta == (28.0, 14.0, 0.0)
    # a check that finds no violation changes nothing
    assert fold(told(history, 1, 29.5, check=4)) == Thresholds(zeta=(2.0, 1.0, 0.0), gamma=(1.0, 1.0), check=None)
    # and it never falls
    history = told(history, 1, 20.0, check=4)
    assert fold(history).zeta == (40.0, 20.0, 0.0)
    # a gap of 10 is within 20 now: neither checked nor, if checked all the same, a reason to change
    again = told(history, 2, 40.0, mean_below=30.0)
    assert fold(again).check is None
    assert fold(told(again, 1, 30.0, check=6)).zeta == (40.0, 20.0, 0.0)


def test_a_check_may_call_for_another():
    """The observation at fidelity 1 that checks one at 2 is itself compared with fidelity 0."""
    history = told(initial(), 2, 30.0, mean_below=20.0)
    history = told(history, 1, 29.9, check=4, mean_below=10.0)
    assert fold(history).check == history.records[5]
    assert fold(told(history, 0, 10.0, check=5)).zeta == pytest.approx((79.6, 39.8, 0.0))


def test_pending_and_failed_checks():
    pending = ask(told(initial(), 2, 30.0, mean_below=20.0), 1, check=4)
    assert fold(pending).check is None
    assert fold(pending).zeta == (2.0, 1.0, 0.0)
    assert fold(pending.updated(pending.records[5].done(20.0))).zeta == (40.0, 20.0, 0.0)
    # a failed one is given up
    assert fold(pending.updated(pending.records[5].failed("a test"))) == fold(initial())
    # the pending and the failed contradict nothing
    history = ask(initial(), 2, mean_below=1e6)
    assert fold(history).check is None
    assert fold(history.updated(history.records[4].failed("a test"))).check is None


def idle(history: History, *fidelities: int) -> tuple[float, ...]:
    """γ after some more queries."""
    for fidelity in fidelities:
        history = told(history, fidelity, 5.0)
    return fold(history).gamma


def test_gamma_doubles_after_more_than_the_ratio_of_costs():
    start = initial()
    assert idle(start, *[0] * 3) == (1.0, 1.0)
    assert idle(start, *[0] * 4) == (2.0, 1.0)  # more than 3 below fidelity 1
    assert idle(start, *[0] * 5) == (2.0, 2.0)  # more than 4 below fidelity 2
    assert idle(start, *[0] * 7) == (2.0, 2.0)
    assert idle(start, *[0] * 8) == (4.0, 2.0)
    assert idle(start, *[0] * 12) == (8.0, 4.0)


def test_gamma_waits_where_something_above_was_asked():
    start = initial()
    assert idle(start, 0, 0, 0, 1, 0, 0, 0) == (1.0, 2.0)
    assert idle(start, 0, 0, 0, 2, 0, 0, 0) == (1.0, 1.0)
    assert idle(start, 1, 1, 1, 1, 1) == (1.0, 2.0)
    # the pending and the failed were asked as well
    history = start
    for fidelity in (0, 0, 0, 2, 0, 0, 0):
        history = ask(history, fidelity)
    assert fold(history).gamma == (1.0, 1.0)
    assert fold(ask(history, 0)).gamma == (2.0, 1.0)
    # the initial design is no idling
    history = initial()
    for _ in range(20):
        history = told(history, 0, 5.0, stage="initial")
    assert fold(history).gamma == (1.0, 1.0)


def test_what_was_asked_below_already_is_compared_and_not_asked():
    history = initial().asked(Query((0.7,), 0, {}), COSTS[0])
    pending = told(history, 1, 20.0, mean_below=0.0)
    same = pending.records[-1]
    history = pending.updated(Record(same.id, Query((0.7,), 1, same.query.meta), same.cost, 20.0, same.status))
    assert fold(history) == fold(initial())  # its value is still out
    assert fold(history.updated(history.records[4].done(18.0))).zeta == (8.0, 4.0, 0.0)
    assert fold(history.updated(history.records[4].done(19.5))).zeta == fold(initial()).zeta
    assert fold(history.updated(history.records[4].done(18.0))).check is None


def test_the_target_is_overdue_once_the_rest_has_cost_as_much():
    """Ten queries at 1 fit between two of the target at 10; those of the initial design do not count."""
    costs, history = (1.0, 4.0, 10.0), History()
    for _ in range(30):
        history = history.asked(Query((0.5,), 0, {"stage": "initial"}), 1.0)
    for n in range(10):
        assert not overdue(history.records, costs, 0)
        assert overdue(history.records, costs, 1) == (n > 6)
        history = history.asked(Query((0.5,), 0, {"stage": "model"}), 1.0)
    assert overdue(history.records, costs, 0)
    assert not overdue(history.asked(Query((0.5,), 2, {"stage": "model"}), 10.0).records, costs, 1)
    few = History().asked(Query((0.5,), 0, {"stage": "model"}), 1e-6).records
    assert overdue(few, costs, 0, most=1)
    assert not overdue(few, costs, 0, most=2)


def test_what_the_rest_of_a_capital_is_for():
    """Beside the target at 25, the rest goes to the largest below it that it pays for."""
    costs = (1.0, 8.0, 25.0)
    found = [last_level(costs, left) for left in (60.0, 50.0, 49.0, 33.0, 32.0, 26.0, 25.5, 25.0, 22.0, 7.0, 0.5)]
    assert found == [None, None, 1, 1, 0, 0, 2, 2, 1, 0, None]


def test_zeta_settles_after_few_doublings():
    chance, history, seen, gaps = random.Random(0), initial(), [fold(initial()).zeta[1]], list[float]()
    for _ in range(40):
        gap = 300 * chance.random() ** 4
        history = told(history, 1, gap, stage="model", mean_below=0.0)
        due = fold(history).check
        if due is not None:
            history = told(history, 0, 0.0, stage="model", check=due.id)
            gaps.append(gap)
        seen.append(fold(history).zeta[1])
    changes = sum(a != b for a, b in itertools.pairwise(seen))
    assert 0 < changes <= math.log2(2 * max(gaps) / seen[0])
    assert max(gaps) <= seen[-1]


@pytest.mark.parametrize("values", ["normal", "drifting", "hostile", "below", "wild"])
def test_few_values_are_above_a_calibrated_bound_whatever_they_are(values):
    chance, history, above = random.Random(1), initial(), 0
    first = beta = calibrated_beta(history)
    assert first == pytest.approx(1.2816**2, abs=1e-3)
    for t in range(200):
        mean, spread = chance.gauss(0, 5), chance.random() + 0.1
        bound = mean + math.sqrt(beta) * spread
        value = {
            "normal": mean + spread * chance.gauss(0, 1),
            "drifting": mean + spread * t / 50,
            "hostile": min(bound + 1e-6, mean + 3 * spread),
            "below": mean - spread,
            "wild": mean + spread * chance.paretovariate(0.5),
        }[values]
        above += value > bound
        history = told(history, 1, value, stage="model", mean=mean, spread=spread)
        beta = calibrated_beta(history)
        assert above <= ABOVE * (t + 1) + (beta - first) / STEP + 1e-9
        assert values == "wild" or beta <= max(first, 16.0) + STEP
    assert calibrated_beta(history.asked(Query((0.5,), 1, {"mean": 0.0, "spread": 1.0}), 1.0)) == beta
    if values == "normal":
        assert 0.05 <= above / 200 <= 0.15
    if values == "below":
        assert above == beta == 0
