"""Regret, partition and bounds of bandits, beside loops over their definitions."""

import math

import pytest
import torch
from torch.distributions import Bernoulli, Normal, kl_divergence

from benchmarks.quality.bandit.metrics import (
    OPTIMAL,
    expected_plays,
    gaps,
    lower_bound,
    meets,
    partition,
    plays,
    pseudo_regret,
    telling,
    thresholds,
    upper_bound,
)
from mfbo_torch.history import History, Query
from mfbo_torch.problems import MultiFidelityBandit, SyntheticBandit

MEANS = [[0.1, 0.05, 0.2], [0.5, 0.52, 0.6], [0.95, 0.85, 0.8], [0.78, 0.8, 0.7], [0.3, 0.4, 0.45], [0.7, 0.72, 0.8]]
ZETA, COSTS = (0.2, 0.16, 0.0), (1.0, 10.0, 100.0)


def bandit(rewards="bernoulli", scale=None):
    return MultiFidelityBandit(MEANS, ZETA, COSTS, rewards, scale)


def history():
    found = History()
    for arm, fidelity in [(0, 0), (1, 1), (2, 2), (0, 0), (5, 1)]:
        found = found.asked(Query((float(arm),), fidelity), COSTS[fidelity])
    return found.updated(found.records[0].failed("a test"))


def test_plays_and_regret():
    problem = bandit()
    counts = plays(history(), problem)
    assert counts.sum() == 5
    assert counts[0].tolist() == [2, 0, 0]
    regret = pseudo_regret(history(), problem, 200.0)
    assert regret.played.item() == pytest.approx(2 * 0.6 + 10 * 0.2)
    assert regret.residual.item() == pytest.approx((200 - 122) * 0.8)
    assert regret.total.item() == pytest.approx(200 * 0.8 - (2 * 0.2 + 10 * 0.6 + 100 * 0.8 + 10 * 0.8))
    early = pseudo_regret(history(), problem, 50.0)  # the play of 100 does not fit, nor what follows
    assert early.played.item() == pytest.approx(0.6 + 10 * 0.2)
    assert early.residual.item() == pytest.approx(39 * 0.8)


def sets(problem):
    """Section 4 in words: each arm's group from the definitions of J and K."""
    best, M = max(row[-1] for row in MEANS), len(COSTS)
    psi, inverse = (lambda e: 2 * e * e), (lambda y: math.sqrt(y / 2))
    gamma = [inverse(COSTS[m] / COSTS[m + 1] * psi(ZETA[m])) for m in range(M - 1)]
    near = [{k for k, row in enumerate(MEANS) if best - row[m] <= ZETA[m] + 2 * gamma[m]} for m in range(M - 1)]
    left, groups = set(range(len(MEANS))), {}
    for m in range(M - 1):
        groups[m] = left - near[m]
        left &= near[m]
    groups[M - 1] = {k for k in left if MEANS[k][-1] < best}
    return groups, {k for k, row in enumerate(MEANS) if row[-1] == best}, gamma


def test_partition_is_that_of_section_4():
    problem = bandit()
    groups, optimal, gamma = sets(problem)
    found = partition(problem).tolist()
    assert thresholds(problem).tolist() == pytest.approx(gamma, rel=1e-14)
    assert {k for k, m in enumerate(found) if m == OPTIMAL} == optimal == {2, 5}
    for m, arms in groups.items():
        assert {k for k, own in enumerate(found) if own == m} == arms
    assert all(groups.values())


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_properties_of_the_partition(number):
    problem = SyntheticBandit(number)
    own, gap, gamma = partition(problem), gaps(problem), thresholds(problem)
    for m in range(problem.space.num_fidelities - 1):
        inside = own == m
        assert (gap[inside, m] > 2 * gamma[m]).all()
        assert (gap[inside][:, :m] <= 2 * gamma[:m]).all()
    assert (own == OPTIMAL).sum() == 1


def test_upper_bound_is_the_sum_it_says():
    problem, capital, rho = bandit(), 1e12, 2.5
    groups, _, gamma = sets(problem)
    level, psi = rho * math.log(capital / COSTS[0]), lambda e: 2 * e * e
    total = COSTS[-1] * 0.8
    for m, arms in groups.items():
        for k in arms:
            own = 0.8 - MEANS[k][m] - ZETA[m]
            paid = sum(COSTS[low] * level / psi(gamma[low]) for low in range(m)) + COSTS[m] * level / psi(own / 2)
            total += (0.8 - MEANS[k][-1]) * paid
    assert upper_bound(problem, capital, rho) == pytest.approx(total, rel=1e-12)
    assert upper_bound(problem, 150.0, rho) == pytest.approx(150.0 * 0.8)
    assert all(lower_bound(problem, most) < upper_bound(problem, most, 2.0) for most in (1e6, 1e8, 1e10))
    bounds = expected_plays(problem, 1e5, rho)
    assert bounds[2].tolist() == [pytest.approx(rho * math.log(1e5) / psi(g)) for g in gamma] + [math.inf]


def prices(row, rewards):
    """What a nat costs at each fidelity that tells an arm of ``bandit`` from the optimum."""
    make = Bernoulli if rewards == "bernoulli" else (lambda mean: Normal(mean, torch.tensor(0.3, dtype=torch.double)))
    found = {}
    for m, (mean, bias, cost) in enumerate(zip(row, ZETA, COSTS, strict=True)):
        if 0.8 - mean - bias > 0:
            pair = [make(torch.tensor(value, dtype=torch.double)) for value in (mean, 0.8 - bias)]
            found[m] = cost / kl_divergence(*pair).item()
    return found


def test_sets_of_theorem_4_by_hand():
    """Optimum 0.8; gaps of the second arm 0.1, 0.12, 0.2; of the fourth -0.18, -0.16, 0.1; of the fifth 0.3, 0.24."""
    problem = bandit()
    assert partition(problem).tolist() == [0, 1, OPTIMAL, 2, 0, OPTIMAL]
    assert telling(problem).long().tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0]]
    assert meets(problem).tolist() == [True, False, False, True, True, False]


@pytest.mark.parametrize("rewards", ["bernoulli", "gaussian"])
def test_lower_bound_of_theorem_4_by_hand(rewards):
    problem = bandit(rewards, 0.3 if rewards == "gaussian" else None)
    cheapest = sum((0.8 - row[-1]) * min(prices(row, rewards).values()) for row in MEANS if row[-1] < 0.8)
    assert lower_bound(problem, 1e6, everywhere=True) == pytest.approx(math.log(1e4) * cheapest, rel=1e-9)
    assert lower_bound(problem, 50.0) == 0.0
    groups, total = partition(problem).tolist(), 0.0
    for k, row in enumerate(MEANS):
        if groups[k] != OPTIMAL:
            total += (0.8 - row[-1]) * min(price for low, price in prices(row, rewards).items() if low <= groups[k])
    assert lower_bound(problem, 1e6) == pytest.approx(math.log(1e4) * total, rel=1e-9)
    assert lower_bound(problem, 1e6) >= lower_bound(problem, 1e6, everywhere=True)


def test_the_two_lower_bounds_differ_where_a_dear_fidelity_is_the_cheapest_way_to_tell():
    """An arm of the first group whose bias hides all but a little there: the second fidelity tells it for less."""
    zeta, costs = (0.2, 0.01, 0.0), (1.0, 2.0, 4.0)
    problem = MultiFidelityBandit([[0.3, 0.11, 0.1], [0.9, 0.9, 0.9]], zeta, costs, "gaussian", 1.0)
    assert partition(problem).tolist() == [0, OPTIMAL]
    first, second = 2 * 1 / 0.4**2, 2 * 2 / 0.78**2
    assert second < first
    assert lower_bound(problem, 4e3) == pytest.approx(math.log(1e3) * 0.8 * first)
    assert lower_bound(problem, 4e3, everywhere=True) == pytest.approx(math.log(1e3) * 0.8 * second)
