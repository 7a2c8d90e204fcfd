"""MF-GP-UCB beyond the general contract: its schedules, checks, fidelities and what it never does."""

import math
from itertools import combinations

import pytest
import torch
from strategy_table import SPACE, box, loop, step, toy
from ucb_runs import LINKS, check_largest, designed, model_of, strategy

from mfbo_torch.acquisition import MultiFidelityUpperConfidenceBound, select_fidelity
from mfbo_torch.history import History, Query
from mfbo_torch.models import PerFidelityGP
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import MFGPUCB
from mfbo_torch.strategies.common import fit_schedule
from mfbo_torch.strategies.common.initial_design import sobol
from mfbo_torch.strategies.explanation import Explanation
from mfbo_torch.strategies.multi import upper_bounds
from mfbo_torch.strategies.multi.mf_gp_ucb_recursive import APART

FAR = 1e3
"""A violation of every bound."""


def is_initial(history: History) -> list[bool]:
    return [r.query.meta["stage"] == "initial" for r in history]


def noise(space: Space):
    """An objective whose cheap fidelities are noise without any relation to the target."""
    unrelated = lambda query: math.sin(1e6 * math.fsum(query.x) + query.fidelity)  # noqa: E731
    return lambda query: toy(space)(query) if query.fidelity == space.target else unrelated(query)


@pytest.mark.parametrize("link", LINKS)
def test_width_of_the_band(link):
    """``β_t = 0.2 d log(2 t)``, ``t`` counting from 1 after the initial design, or the given constant."""
    asks = strategy(link, hedge=False)
    history = loop(asks, toy(SPACE), 5, designed(asks))
    for t, record in enumerate(history.records[is_initial(history).index(False) :], 1):
        if "check" not in record.query.meta:
            assert record.query.meta["beta"] == pytest.approx(0.2 * 2 * math.log(2 * t), rel=1e-12)
    fixed = strategy(link, beta=0.7, hedge=False).ask(history)[0]
    assert "check" in fixed.meta or fixed.meta["beta"] == 0.7


@pytest.mark.parametrize("link", LINKS)
def test_query_maximises_phi_at_the_fidelity_of_the_rule(link):
    asks = strategy(link, hedge=False)
    history = loop(asks, toy(SPACE), 3, designed(asks))
    history = history.asked(asks.ask(history)[0], 1.0)
    query = asks.ask(history)[0]
    assert "check" not in query.meta
    model, pending = model_of(asks, history), asks.unit_points(history.pending)
    acquisition = MultiFidelityUpperConfidenceBound(model, query.meta["beta"], query.meta.get("zeta"), pending)
    check_largest(acquisition, query, SPACE)
    u = SPACE.to_unit(torch.tensor([query.x], dtype=torch.double))
    if link == "independent":
        assert query.fidelity == select_fidelity(model, u, query.meta["beta"], query.meta["gamma"], pending)
    mean, variance = model.mean_variance(u)
    assert query.meta["mean"] == pytest.approx(mean[0, query.fidelity].item(), rel=1e-6)
    assert query.meta["deviation"] == pytest.approx(variance[0, query.fidelity].sqrt().item(), rel=1e-3)
    if query.fidelity:
        assert query.meta["mean_below"] == pytest.approx(mean[0, query.fidelity - 1].item(), rel=1e-6)


def violated(costs: tuple[float, ...] = (1.0, 4.0), fidelity: int = 1) -> tuple[MFGPUCB, History]:
    """A history that ends with an observation far from what the fidelity below had made likely."""
    space = Space(SPACE.parameters, costs)
    asks = strategy("independent", space)
    return asks, step(designed(asks), Query((1.25, 3.0), fidelity, {"stage": "model", "mean_below": 0.0}), space, FAR)


def test_violation_is_checked_at_the_same_design():
    asks, history = violated()
    check = asks.ask(history)[0]
    assert check.x == pytest.approx((1.25, 3.0), rel=1e-12)
    assert check.fidelity == 0
    assert check.meta["check"] == history.records[-1].id
    start = check.meta["zeta"][0]
    following = asks.ask(step(history, check, SPACE, 0.0))[0]
    assert "check" not in following.meta
    assert following.meta["zeta"] == pytest.approx([2 * FAR, 0.0])
    assert start < 1
    assert asks.ask(step(history, check, SPACE, FAR))[0].meta["zeta"] == check.meta["zeta"]


def test_check_of_three_fidelities_goes_down_one_by_one():
    asks, history = violated((1.0, 4.0, 16.0), fidelity=2)
    first = asks.ask(history)[0]
    assert (first.fidelity, first.meta["check"]) == (1, len(history) - 1)
    history = step(history, first, asks.space, FAR)
    second = asks.ask(history)[0]
    assert (second.fidelity, second.meta["check"]) == (0, len(history) - 1)
    assert second.x == pytest.approx(first.x, rel=1e-12)


def test_check_is_asked_once():
    """Neither while it is pending, nor after it failed."""
    asks, history = violated()
    batch = asks.ask(history, 3)
    assert [("check" in query.meta) for query in batch] == [True, False, False]
    assert "check" not in asks.ask(step(history, batch[0], SPACE, None))[0].meta


def test_chain_has_no_checks():
    query = Query((1.25, 3.0), 1, {"stage": "model", "mean_below": 0.0})
    asks = strategy("recursive")
    following = asks.ask(step(designed(asks), query, SPACE, FAR))[0]
    assert "check" not in following.meta
    assert "zeta" not in following.meta


def test_gamma_of_the_metadata_doubles():
    """A cheap fidelity that nothing above was asked for is left in the end."""
    space = box(2)
    asks = strategy("independent", space)
    start = idle = designed(asks, noise(space))
    for i in range(21):  # costs 4^m: doubled at the 5th, 10th, 15th and 20th
        idle = step(idle, Query((i / 20, 0.5), 0, {"stage": "model"}), space, None)
    before, after = (asks.ask(history)[0].meta["gamma"] for history in (start, idle))
    assert after == pytest.approx([16 * g for g in before])


@pytest.mark.slow
@pytest.mark.parametrize("costs", [(1.0, 1.5), (1.0, 1.5, 2.0)], ids=str)
@pytest.mark.parametrize("link", LINKS)
def test_never_stuck_at_a_cheap_fidelity(link, costs):
    """However noisy the cheap fidelities are, the target is asked again: in 20 queries a threshold doubles 10 times."""
    space = Space.box([[0.0, 0.0], [1.0, 1.0]], costs)
    asks = strategy(link, space)
    history = loop(asks, noise(space), 22, designed(asks, noise(space)))
    asked = [r.query.fidelity == space.target for r in history]
    first = is_initial(history).index(False)
    longest = max(map(len, "".join("t" if at_target else "c" for at_target in asked[first:]).split("t")))
    assert any(asked[first:])
    assert longest <= 20


@pytest.mark.parametrize("link", LINKS)
def test_target_follows_any_number_of_cheap_queries(link):
    """5,000 queries below, none of which gave a value: thresholds have grown beyond all bounds, and no number."""
    space = box(2)
    asks = strategy(link, space)
    records = list(designed(asks).records)
    for x in torch.rand(5000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double).tolist():
        records.append(step(History(), Query(tuple(x), 0, {"stage": "model"}), space, None).records[0])
    assert asks.ask(History(records))[0].fidelity == space.target


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS)
def test_only_cheap_observations(link):
    """Where nothing at the target ever succeeded, the target is asked."""
    space = box(2)
    asks = strategy(link, space)
    objective = lambda query: None if query.fidelity == space.target else toy(space)(query)  # noqa: E731
    history = designed(asks, objective)
    assert not history.select("done", space.target)
    answers = loop(asks, objective, 12, history)
    assert space.target in [r.query.fidelity for r in answers.records[len(history) :]]


@pytest.mark.parametrize("link", LINKS)
def test_no_band_at_all(link):
    """``β = 0`` asks for the best mean, and still reaches the target."""
    asks = strategy(link, beta=0.0)
    history = loop(asks, toy(SPACE), 6, designed(asks))
    later = [r.query for r, first in zip(history, is_initial(history), strict=True) if not first]
    assert all(query.meta.get("beta", 0.0) == 0.0 for query in later)
    assert SPACE.target in [query.fidelity for query in later]


def test_measured_costs_decide():
    """Of two histories that differ in what the queries took, the one with dear cheap queries goes to the target."""
    space = Space(SPACE.parameters, (1.0, 4.0), measured=True)
    asks = strategy("recursive", space)
    history = designed(asks, toy(space))
    asked = []
    for cheap in (1e-6, 4.0 - 1e-6):
        records = [r.__class__(r.id, r.query, (cheap, 4.0)[r.query.fidelity], r.value, r.status) for r in history]
        assert asks.costs(History(records)) == pytest.approx((cheap, 4.0))
        asked.append(asks.ask(History(records))[0].fidelity)
    assert asked == [0, 1]


@pytest.mark.parametrize("link", LINKS)
def test_memory_is_no_state(link):
    """Two histories of equal values at other designs have nothing in common."""
    asks = strategy(link)
    history = designed(asks, lambda query: 1.0)
    moved = History()
    for record in history:
        x = SPACE.from_unit(1 - SPACE.to_unit(torch.tensor(record.query.x, dtype=torch.double)))
        moved = step(moved, Query(tuple(x.tolist()), record.query.fidelity, record.query.meta), SPACE, 1.0)
    asks.ask(history)
    assert asks.ask(moved) == strategy(link).ask(moved)


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS)
def test_factors_of_a_long_history_are_extended(link, monkeypatch):
    """Fits become rare, and what was extended again and again is, to the last bit, what a restart computes."""
    monkeypatch.setattr(upper_bounds, "LARGE", 30)
    monkeypatch.setattr(fit_schedule, "LARGE", 30)
    objective, space = toy(SPACE), SPACE
    going, history, fits = strategy(link, refit_every=3), History(), []
    fit = PerFidelityGP.fit
    monkeypatch.setattr(PerFidelityGP, "fit", lambda self, *args, **how: fits.append(1) or fit(self, *args, **how))
    X = torch.rand(2, space.dim, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    for i, u in enumerate(sobol(space.dim, 90, 0)):
        query = going.query(u, space.target if i % 30 == 0 else 0, stage="model")
        history = step(history, query, space, objective(query))
        found = going.predict(history, X)
    assert len(fits) < 40
    for one, other in zip(found, strategy(link, refit_every=3).predict(history, X), strict=True):
        assert one.nan_to_num().equal(other.nan_to_num())


def test_initial_designs_of_the_chain_are_nested():
    history = designed(strategy("recursive", box(3, 3), initial_capital=None))
    designs = [{r.query.x for r in history if r.query.fidelity == m} for m in range(3)]
    assert designs[2]
    assert designs[2] <= designs[1] <= designs[0]


def test_first_designs_above_the_lowest_fidelity_are_the_best_below_that_are_apart():
    space = box(3, 3)
    history = designed(strategy("recursive", space, 1e4, initial_capital=12.0), toy(space))
    first = {m: [r for r in history if r.query.fidelity == m] for m in range(3)}
    assert all(len(records) > 2 for records in first.values())
    for m in (1, 2):
        best = [r.query.x for r in sorted(first[m - 1], key=lambda r: -r.value)]
        chosen = [best[0]]
        for record in first[m][1:]:
            gaps = {x: min(max(abs(a - b) for a, b in zip(x, y, strict=True)) for y in chosen) for x in best}
            apart = [x for x in best if gaps[x] > APART]
            chosen.append(apart[0] if apart else max(gaps, key=gaps.__getitem__))
            assert record.query.x == chosen[-1]
        assert first[m][0].query.x == best[0]


@pytest.mark.parametrize(("capital", "at_target"), [(2.0, 1), (5.0, 1), (6.0, 2), (20.0, 2), (200.0, 20)])
def test_the_target_is_in_the_first_design_at_any_capital(capital, at_target):
    """A third of the design's capital is for the fidelities below, more of a short one; a large one has a large
    design."""
    space = box(2)
    top = space.costs[-1]
    history = designed(strategy("recursive", space, capital * top, initial_capital=None), toy(space))
    assert history.queries_per_fidelity(2)[1] == at_target
    assert history.spent / top <= max(2.0, 0.6 * capital)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("capital", [20.0, 60.0, 1000.0])
def test_initial_design_leaves_capital_for_the_model(link, capital):
    assert designed(strategy(link, box(2), capital, initial_capital=None)).spent <= 0.6 * capital


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS)
def test_finds_the_optimum(link):
    """A quadratic with a biased cheap fidelity, for the cost of 60 cheap queries beyond the design."""
    space = box(2)
    asks = strategy(link, space)
    start = history = designed(asks)
    while history.spent < start.spent + 60:
        history = loop(asks, toy(space), 1, history)
    best = asks.recommend(history)
    assert best.query.x == pytest.approx((0.3, 0.3), abs=0.1)
    assert best.value > asks.recommend(start).value


@pytest.mark.parametrize("shift", [0.0, 1e9])
def test_offset_of_the_values(shift):
    """The optimiser of φ works as well far from zero."""
    space = box(2)
    asks = strategy("recursive", space)
    history = designed(asks, toy(space))
    for r in history:
        history = history.updated(r.done(64.0 * r.value + shift))
    query = asks.ask(history)[0]
    acquisition = MultiFidelityUpperConfidenceBound(model_of(asks, history), query.meta["beta"])
    check_largest(acquisition, query, space, 1e-3)


@pytest.mark.slow
def test_single_precision():
    asks = strategy("recursive", dtype="float32")
    history = loop(asks, toy(SPACE), 4, designed(asks))
    assert model_of(asks, history).train_X.dtype == torch.float32
    assert all(SPACE.bounds[0, i] <= r.query.x[i] <= SPACE.bounds[1, i] for r in history for i in range(2))


@pytest.mark.parametrize("hedge", [False, True])
def test_the_capital_is_spent_and_the_target_comes_last(hedge):
    """Of 47 that are left, 22 are spent below the target at 25 before its last query; nothing remains."""
    space = Space([Parameter("x", 0.0, 1.0), Parameter("y", 0.0, 1.0)], costs=[1.0, 8.0, 25.0])
    X, history = sobol(2, 13, 3).tolist(), History()
    for x, m in zip(X, [0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2], strict=True):
        history = history.asked(Query(tuple(x), m, {"stage": "model"}), space.costs[m])
        history = history.updated(history.records[-1].done(toy(space)(history.records[-1].query)))
    left = 47.0
    asks = MFGPUCB(hedge=hedge, refit_every=100).bind(space, history.spent + left)
    found = []
    while True:
        (query,) = asks.ask(history)
        if (left := left - space.costs[query.fidelity]) < 0:
            break
        found.append(query.fidelity)
        history = history.asked(query, space.costs[query.fidelity])
        history = history.updated(history.records[-1].done(toy(space)(query)))
    assert left + space.costs[query.fidelity] == 0
    assert found[-1] == 2
    assert 2 not in found[:-1]


def test_no_design_is_asked_again_while_the_target_is_awaited():
    """Below the target a bowl that it follows: once a cheap value is there, another one tells nothing."""
    space = Space([Parameter("x", 0.0, 1.0), Parameter("y", 0.0, 1.0)], costs=[1.0, 10.0])
    history, asks = History(), MFGPUCB(seed=1).bind(space, 60.0)
    while history.spent < 60.0:
        query = asks.decide(history)
        x, y = query.x
        value = -15 * (y - 0.23) ** 2 - 0.01 * x - 0.1 * (1 - query.fidelity)
        history = history.asked(query, space.costs[query.fidelity])
        history = history.updated(history.records[-1].done(value))
    resting = [r.query.x for r in history if r.query.meta.get("because") == "rest"]
    assert resting
    assert all(max(abs(a - b) for a, b in zip(x, y, strict=True)) > 1e-2 for x, y in combinations(resting, 2))


def test_an_overdue_query_of_the_fitted_chain_goes_where_its_mean_is_largest():
    """What is uncertain elsewhere, a cheaper fidelity would tell."""
    space, history = Space.box([[0.0, 0.0], [1.0, 1.0]], [1.0, 8.0]), History()
    bound = MFGPUCB(seed=21).bind(space, 160.0)
    query = bound.decide(history)
    while not (query.meta.get("because") == "overdue" and query.meta.get("beta") == 0):
        assert history.spent < 100
        x, y = query.x
        humps = (
            math.exp(-20 * ((x - 0.62) ** 2 + (y - 0.4) ** 2)) + math.exp(-10 * ((x - 0.2) ** 2 + (y - 0.8) ** 2)) / 3
        )
        value = 3 * humps if x + 0.5 * y < 0.87 else -4 - 5 * x
        history = step(history, query, space, value - 0.3 * math.sin(7 * x) * math.cos(4 * y) * (1 - query.fidelity))
        query = bound.decide(history)
    snapshot = bound.snapshot(history)
    assert query.meta["model"] == "linked"
    model = bound.rule.model(snapshot)
    tried = snapshot.designs(snapshot.at(1))
    at = space.to_unit(torch.tensor([query.x], dtype=torch.double))
    with torch.no_grad():
        chosen, known, anywhere = (model.mean_variance(U)[0][:, 1].max() for U in (at, tried, sobol(2, 4096, 7)))
    assert chosen > known
    assert chosen >= anywhere - 1e-3 * model.scale[1]


@pytest.mark.parametrize(("cheap", "alone"), [(2.0, True), (1.4, True), (1.3, False), (0.1, False)])
def test_a_fidelity_of_more_than_a_third_of_the_targets_cost_is_not_asked(cheap, alone):
    space = Space(SPACE.parameters, (cheap, 4.0))
    history = loop(MFGPUCB(space=space, capital=40.0), toy(space), 6)
    dear = [record.query.meta.get("because") == "dear" for record in history]
    assert all(dear) if alone else not any(dear)
    assert ({record.query.fidelity for record in history} == {1}) == alone
    if alone:
        assert "35 % of the target or more" in Explanation(history.records[-1], history, space).why


def test_what_is_known_at_a_dear_fidelity_is_used():
    """Also where the target has only failed, costs are measured, no model of the target alone takes turns, or the
    capital does not pay for it."""
    space = Space(SPACE.parameters, (2.0, 4.0))
    known = step(History(), Query((1.0, 2.0), 0), space, 0.5)
    for asks, before in (
        (MFGPUCB(space=space, capital=40.0), known),
        (MFGPUCB(space=space, capital=40.0), step(History(), Query((1.0, 2.0), 1), space, None)),
        (MFGPUCB(space=space, capital=40.0, hedge=False), History()),
        (MFGPUCB(space=space, capital=3.0), History()),
        (MFGPUCB(space=Space(SPACE.parameters, (2.0, 4.0), measured=True), capital=40.0), History()),
    ):
        assert "because" not in asks.ask(before)[0].meta
        assert asks.ask(before)[0].fidelity == 0


def test_what_failed_at_a_dear_fidelity_is_not_known():
    space = Space(SPACE.parameters, (2.905, 8.3))  # 0.35, up to rounding
    failed = step(History(), Query((1.0, 2.0), 0), space, None)
    assert MFGPUCB(space=space, capital=80.0).ask(failed)[0].meta["because"] == "dear"


@pytest.mark.parametrize("initial_capital", [None, 1, 5.5])
def test_the_first_designs_of_the_target_alone(initial_capital):
    space = Space(SPACE.parameters, (2.0, 4.0))
    history = loop(MFGPUCB(space=space, capital=80.0, initial_capital=initial_capital), toy(space), 7)
    assert sum(is_initial(history)) == {None: 3, 1: 1, 5.5: 5}[initial_capital]


@pytest.mark.parametrize(("target_costs", "filling"), [(2, 10), (5, 10), (8, 16), (10, 20), (None, 20)])
def test_a_short_run_climbs_at_the_cheapest_fidelity_first(target_costs, filling):
    """Half of the first designs there fill the space at 5 target costs, eight tenths at 8, all from 10 on."""
    space = Space([Parameter("x", 0.0, 1.0), Parameter("y", 0.0, 1.0)], costs=(1, 20))
    capital = None if target_costs is None else 20.0 * target_costs
    asks = MFGPUCB(space=space, capital=capital, seed=3)
    history = loop(asks, lambda query: -math.dist(query.x, (0.3, 0.6)), 20)
    cheap = [record for record in history if record.query.fidelity == 0]
    seen = torch.tensor([record.query.x for record in cheap[:filling]], dtype=torch.double)
    assert torch.allclose(seen, sobol(2, filling, 3))
    climbed = [record.value for record in cheap[filling:] if record.query.meta["stage"] == "initial"]
    assert bool(climbed) == (filling < 20)
    assert not climbed or max(climbed) > max(record.value for record in cheap[:filling])


def test_two_target_costs_are_one_query_of_the_target_and_the_best_of_those_below():
    space = Space([Parameter("x", 0.0, 1.0), Parameter("y", 0.0, 1.0)], costs=(1, 20))
    asks = MFGPUCB(space=space, capital=40.0)
    history = loop(asks, lambda query: -math.dist(query.x, (0.3, 0.6)), 21)
    cheap, last = history.records[:20], history.records[20]
    assert [record.query.fidelity for record in history] == [0] * 20 + [1]
    assert last.query.x == max(cheap, key=lambda record: record.value).query.x
    assert last.value > -0.01
