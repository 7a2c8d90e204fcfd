"""MF-UCB, UCB and successive elimination, beside plain transcriptions of their equations."""

import math
import warnings

import numpy as np
import pytest
from refusals import refused
from strategy_table import step

from benchmarks.quality.bandit import plain
from mfbo_torch import Optimizer, maximize, minimize
from mfbo_torch.confidence.concentration import Tail
from mfbo_torch.history import History, Query, Status
from mfbo_torch.problems import MultiFidelityBandit
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import MFUCB, UCB, SuccessiveElimination
from mfbo_torch.strategies.bandit.base import ZetaWarning

COSTS, ZETA = (1.0, 3.0, 10.0), (0.4, 0.15, 0.0)
SPACE = Space((Parameter("arm", 0, 4, integer=True),), COSTS, zeta=ZETA)


def played(plays, space=SPACE):
    """The history of some plays ``(arm, fidelity, value)``; the value may be "pending" or "failed"."""
    history = History()
    for arm, fidelity, value in plays:
        query = Query((float(arm),), fidelity)
        if value == "pending":
            history = history.asked(query, space.costs[fidelity])
        else:
            history = step(history, query, space, None if value == "failed" else value)
    return history


def random_plays(seed, count, bounded):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2, count).astype(float) if bounded else rng.normal(size=count)
    arms, fidelities = rng.integers(0, 5, count).tolist(), rng.integers(0, 3, count).tolist()
    return list(zip(arms, fidelities, values.tolist(), strict=True))


def tables(plays):
    sums, counts = [[0.0] * 3 for _ in range(5)], [[0] * 3 for _ in range(5)]
    for arm, fidelity, value in plays:
        sums[arm][fidelity] += value
        counts[arm][fidelity] += 1
    return sums, counts


def choice(strategy, history):
    query = strategy.ask(history)[0]
    return int(query.x[0]), query.fidelity


@pytest.mark.parametrize("bounded", [False, True], ids=["sub-Gaussian", "in [0, 1]"])
@pytest.mark.parametrize(("seed", "count", "rho"), [(0, 3, 2.0), (1, 12, 2.0), (2, 40, 4.5), (3, 200, 0.3)])
def test_bounds_widths_and_gamma_are_those_of_the_equations(bounded, seed, count, rho):
    plays = random_plays(seed, count, bounded)
    strategy = MFUCB(**({"rewards": "bounded"} if bounded else {"scale": 0.7}), rho=rho).bind(SPACE)
    psi, inverse = plain.sub_gaussian(0.5 if bounded else 0.7)
    bounds, widths = strategy.bounds(strategy.plays(played(plays)))
    (sums, counts), t = tables(plays), count + 1
    expected = [plain.bound(t, sums[k], counts[k], ZETA, rho, inverse) for k in range(5)]
    assert bounds.tolist() == expected
    assert widths.T.tolist() == [[plain.width(t, n, rho, inverse) for n in counts[k]] for k in range(5)]
    gamma = plain.gamma(COSTS, ZETA, psi, inverse)
    assert strategy.rule.gamma.tolist() == pytest.approx([*gamma, -math.inf], rel=1e-14)

    arm, fidelity = choice(strategy, played(plays))
    assert arm == expected.index(max(expected))
    wide = [m for m in range(2) if plain.width(t, counts[arm][m], rho, inverse) >= gamma[m]]
    assert fidelity == min(wide, default=2)


def test_arms_never_played_come_first_and_ties_go_to_the_lowest():
    strategy = MFUCB(scale=0.1).bind(SPACE)
    history = History()
    for arm in range(5):
        assert choice(strategy, history) == (arm, 0)
        history = played([(k, 0, 1.0) for k in range(arm + 1)])
    assert choice(strategy, history) == (0, 0)
    assert choice(strategy, played([(0, 0, 0.5), (1, 0, 1.0), (2, 0, 1.0), (3, 0, 1.0), (4, 0, 1.0)])) == (1, 0)


def test_the_lowest_fidelity_with_something_to_tell():
    strategy = MFUCB(scale=0.5).bind(SPACE)
    gamma, seen = strategy.rule.gamma.tolist(), set()
    plays = [*((k, 0, 0.0) for k in range(1, 5)), (0, 0, 5.0)]
    while 2 not in seen and len(plays) < 5000:
        arm, fidelity = choice(strategy, played(plays))
        assert arm == 0
        t, counts = len(plays) + 1, tables(plays)[1][0]
        widths = [plain.width(t, n, 2.0, plain.sub_gaussian(0.5)[1]) for n in counts]
        assert fidelity == min((m for m in range(2) if widths[m] >= gamma[m]), default=2)
        seen.add(fidelity)
        if len(plays) % 20 and fidelity < 2:  # several plays in one go, so that the target is reached soon
            plays += [(0, fidelity, 5.0)] * 7
        plays.append((0, fidelity, 5.0))
    assert seen == {0, 1, 2}


def test_pending_plays_count_in_the_widths_and_not_in_the_means_so_that_a_batch_spreads():
    strategy = MFUCB(scale=0.3).bind(SPACE)
    inverse = plain.sub_gaussian(0.3)[1]
    known = [(k, 0, 0.1 * k) for k in range(5)]
    bounds, _ = strategy.bounds(strategy.plays(played([*known, (2, 0, "pending"), (2, 0, "failed")])))
    assert bounds[2].item() == 0.2 + ZETA[0] + inverse(2.0 * math.log(8) / 3)
    assert bounds[3].item() == pytest.approx(0.3 + ZETA[0] + inverse(2.0 * math.log(8)), rel=1e-15)
    queries = MFUCB().bind(SPACE).ask(History(), 7)
    assert [q.x[0] for q in queries] == [0, 1, 2, 3, 4, 0, 1]


@pytest.mark.parametrize("make", [MFUCB, UCB, SuccessiveElimination])
def test_an_arm_that_only_fails_is_left(make):
    strategy = make(scale=0.1).bind(SPACE)
    history = History()
    for _ in range(80):
        query = strategy.ask(history)[0]
        history = step(history, query, SPACE, None if query.x[0] == 3 else 0.2 * query.x[0])
    assert sum(r.query.x[0] == 3 for r in history) < 20
    assert sum(r.query.x[0] == 4 for r in history) > 30
    assert sum(r.cost for r in history) == history.spent


@pytest.mark.filterwarnings("ignore:zeta")
@pytest.mark.parametrize("make", [MFUCB, UCB, SuccessiveElimination])
def test_the_memo_changes_nothing(make):
    """Asked about many histories in turn, in any order, a strategy decides as a fresh one."""
    rng = np.random.default_rng(0)
    plays = [(a, m, v if rng.random() < 0.7 else "pending") for a, m, v in random_plays(5, 60, False)]
    other = random_plays(6, 30, False)
    strategy = make(scale=0.2).bind(SPACE)
    for seen in (plays[:10], plays[:30], plays, other, plays[:30], other[:10], []):
        assert strategy.ask(played(seen)) == make(scale=0.2).bind(SPACE).ask(played(seen))


def test_sums_are_added_in_the_order_of_asking():
    """Whatever came in first: a history is folded alike on the way and after a resume."""
    values = [1e16, 1.0, -1e16, 1.0]
    history = played([(0, 2, "pending")] * 4)
    strategy = UCB().bind(SPACE)
    for i in (2, 3, 0, 1):
        history = history.updated(history.records[i].done(values[i]))
        strategy.plays(history)
    for one in (strategy, UCB().bind(SPACE)):
        assert one.plays(history).sums[2, 0].item() == ((1e16 + 1.0) - 1e16) + 1.0


@pytest.mark.filterwarnings("ignore:zeta")
def test_any_pair_of_psi_and_inverse():
    factor = 2.0 * 0.7**2
    tail = Tail(lambda e: e**2 / factor, lambda y: (y * factor).sqrt())
    plays = random_plays(7, 50, False)
    own, known = MFUCB(rewards=tail).bind(SPACE), MFUCB(scale=0.7).bind(SPACE)
    assert own.ask(played(plays)) == known.ask(played(plays))
    linear = Tail(lambda e: 3.0 * e, lambda y: y / 3.0)
    widths = MFUCB(rewards=linear).bind(SPACE).bounds(MFUCB().bind(SPACE).plays(played(plays)))[1]
    assert widths[0, 0].item() == pytest.approx(2.0 * math.log(51) / tables(plays)[1][0][0] / 3.0, rel=1e-14)


def test_ucb_is_mf_ucb_with_one_fidelity():
    top = Space(SPACE.parameters, (10.0,), zeta=(0.0,))
    plays = [(a, 2, v) for a, _, v in random_plays(8, 40, False)]
    single = [(a, 0, v) for a, _, v in plays]
    cheap = [(1, 0, 9.0), (2, 1, 9.0)]
    ours, theirs = UCB(scale=0.4).bind(SPACE), MFUCB(scale=0.4).bind(top)
    assert ours.ask(played(plays))[0].x == theirs.ask(played(single, top))[0].x
    assert ours.ask(played([*plays, *cheap])) == ours.ask(played(plays))
    ucb1 = UCB(rewards="bounded", rho=4.0).bind(SPACE)
    ones = [(k, 2, 0.5) for k in range(5)]
    bounds, _ = ucb1.bounds(type(found := ucb1.plays(played(ones)))(*(table[2:] for table in found)))
    assert bounds.tolist() == pytest.approx([0.5 + math.sqrt(2.0 * math.log(6))] * 5, rel=1e-14)


def test_successive_elimination_against_a_loop():
    strategy = SuccessiveElimination(scale=0.3, delta=0.1).bind(SPACE)
    inverse = plain.sub_gaussian(0.3)[1]
    rng, history, plays = np.random.default_rng(0), History(), []
    for _ in range(150):
        sums, counts = tables(plays)
        width = [inverse(math.log(2 * 5 / 0.1 * n[2] * (n[2] + 1)) / n[2]) if n[2] else math.inf for n in counts]
        mean = [s[2] / n[2] if n[2] else 0.0 for s, n in zip(sums, counts, strict=True)]
        best = max(m - w for m, w in zip(mean, width, strict=True))
        inside = [k for k in range(5) if mean[k] + width[k] >= best]
        expected = min(inside, key=lambda k: (counts[k][2], k))
        assert choice(strategy, history) == (expected, 2)
        plays.append((expected, 2, 0.25 * expected + 0.3 * rng.normal()))
        history = played(plays)
    assert len(inside) < 5


def test_recommends_the_arm_most_played_at_the_highest_fidelity():
    history = played([(0, 2, 9.0), (1, 2, 1.0), (1, 2, 0.5), (3, 0, 1.0), (3, 0, 1.0), (3, 0, 1.0), (4, 2, "pending")])
    for make in (MFUCB, UCB, SuccessiveElimination):
        assert make().bind(SPACE).recommend(history) == history.records[2]
        assert make().bind(SPACE).recommend(played([(3, 0, 1.0), (4, 2, "pending")])).query.x == (3.0,)
        assert make().bind(SPACE).recommend(played([(3, 0, "failed")])) is None


def contradictory(gap, count):
    """One arm whose fidelities differ by ``gap``, seen so often."""
    return played([(k, 0, 0.0) for k in range(5)] + [(0, 0, gap)] * count + [(0, 2, 0.0)] * count)


def test_warns_when_observations_contradict_zeta():
    with pytest.warns(ZetaWarning, match=r"^zeta = \[0.4, 0.15, 0.0\] is contradicted by what arm 0 gave"):
        MFUCB(scale=0.1).bind(SPACE).ask(contradictory(0.6, 40))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MFUCB(scale=0.1).bind(SPACE).ask(contradictory(0.6, 2))  # too few to say
        MFUCB(scale=0.1).bind(SPACE).ask(contradictory(0.39, 400))
        UCB(scale=0.1).bind(SPACE).ask(contradictory(0.6, 40))  # needs no ζ
    # two cheap fidelities differ by no more than the sum of their ζ
    cheap = played([(k, 0, 0.0) for k in range(5)] + [(1, 1, 0.7)] * 200 + [(1, 0, 0.0)] * 200)
    with pytest.warns(ZetaWarning):
        MFUCB(scale=0.1).bind(SPACE).ask(cheap)


def test_zeta_of_ones_own_and_the_number_of_arms():
    assert MFUCB(zeta=(0.9, 0.1, 0.0)).bind(SPACE).rule.zeta.tolist() == [0.9, 0.1, 0.0]
    assert MFUCB().bind(SPACE).rule.zeta.tolist() == list(ZETA)
    assert MFUCB().bind(MultiFidelityBandit([[0.1], [0.2]], [0.0], [1.0]).space).num_arms == 2


def test_after_a_refused_value_the_memo_is_sound():
    strategy = MFUCB(rewards="bounded").bind(SPACE)
    for _ in range(2):
        refused(r"value = 2\.0", strategy.ask, played([(0, 0, 1.0), (1, 0, 2.0)]))
    good = played([(0, 0, 1.0), (1, 0, 0.5)])
    assert strategy.ask(good) == MFUCB(rewards="bounded").bind(SPACE).ask(good)


def test_nan_is_a_failure_that_costs():
    history = played([*((k, 0, 0.5) for k in range(5)), (2, 0, math.nan)])
    plays = MFUCB().bind(SPACE).plays(history)
    assert (plays.asked[0, 2], plays.done[0, 2], plays.sums[0, 2]) == (2, 1, 0.5)
    assert history.spent == 6.0


def test_bounded_losses_are_minimised_as_rewards_are_maximised():
    plays = random_plays(3, 60, True)
    gains, losses = played(plays), played([(arm, m, value - 1.0) for arm, m, value in plays])
    assert MFUCB(rewards="bounded").bind(SPACE).ask(gains) == MFUCB(rewards="bounded").bind(SPACE).ask(losses)
    refused("value = 0.5", MFUCB(rewards="bounded").bind(SPACE).ask, played([(0, 0, -0.5), (0, 0, 0.5)]))


def test_the_arm_of_the_least_loss_is_found():
    arms = Space(SPACE.parameters, (1.0,))
    found = minimize(lambda arm: 0.2 + 0.15 * abs(arm - 3), arms, 60, strategy=UCB(rewards="bounded"))
    assert found.parameters == {"arm": 3}


def test_a_reward_out_of_bounds_is_refused_and_no_run_ends_of_it():
    optimizer = Optimizer(MFUCB(rewards="bounded", space=SPACE))
    (record,) = optimizer.ask()
    refused("value = 2.0: must be between 0 and 1", lambda: optimizer.tell(record.id, 2.0))
    assert optimizer.tell(record.id, 0.5).value == 0.5
    rewards = iter([0.5, 1.5])
    settings = {"strategy": MFUCB(rewards="bounded"), "progress": False}
    result = maximize(lambda arm, fidelity: next(rewards, 0.4), SPACE, 60, **settings)
    (failed,) = result.history.select(Status.FAILED)
    assert "must be between 0 and 1" in failed.reason
