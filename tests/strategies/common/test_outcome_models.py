"""Strategies that seek what keeps the limits on outcomes, and the probability that a design does."""

import math

import pytest
import torch
from botorch.acquisition.analytic import LogConstrainedExpectedImprovement, LogExpectedImprovement
from botorch.models import ModelListGP, SingleTaskGP
from refusals import refused

from mfbo_torch import Observation, Optimizer, Parameter, Space, minimize, strategies
from mfbo_torch.acquisition.feasible import Feasible, MostFeasible, WithinLimits
from mfbo_torch.history import History, Query, Recommendation, Record, Status
from mfbo_torch.history.observation import Outcome
from mfbo_torch.models.outcome_transform import near_limit
from mfbo_torch.space.outcome_constraints import limits_of
from mfbo_torch.strategies.base import LIMITED
from mfbo_torch.strategies.common.outcome_models import measured

SPACE = Space([Parameter("x", 0.0, 1.0), Parameter("y", 0.0, 1.0)], [1, 10], limits={"load": ">= 16"})


def evaluated(x: float, y: float, fidelity: int) -> Observation:
    """The best feasible point is (0.4, 0.4), the best of all (0.2, 0.2)."""
    bias = 0.1 * (1 - fidelity)
    return Observation(-((x - 0.2) ** 2) - (y - 0.2) ** 2 + bias * x, None, {"load": 20 * (x + y) + bias * y})


def test_probability_and_acquisition_are_those_of_botorch():
    X = torch.rand(12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    outcomes = [X.sum(-1, keepdim=True), 5 * X[:, :1] - X[:, 1:], (3 * X[:, 1:]).sin()]
    models = [SingleTaskGP(X, Y).eval() for Y in outcomes]
    limits = limits_of({"a": "<= 1.1", "b": ">= 0.3"})

    def moments(U):
        found = [model.posterior(U.unsqueeze(-2)) for model in models[1:]]
        return tuple(torch.stack([getattr(p, of)[..., 0, 0] for p in found], -1) for of in ("mean", "variance"))

    U = torch.rand(7, 1, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    best = outcomes[0].mean()
    expected = LogConstrainedExpectedImprovement(ModelListGP(*models), best, 0, {1: [None, 1.1], 2: [0.3, None]})(U)
    limited = WithinLimits(limits, moments, 2)
    found = Feasible(LogExpectedImprovement(models[0], best), limited)
    assert torch.allclose(found(U), expected, rtol=1e-5)
    assert torch.allclose(MostFeasible(models[0], limited)(U), limited.log(U.squeeze(-2)))
    assert limited.log((U + torch.tensor([300.0, -300.0])).squeeze(-2)).isfinite().all()
    assert torch.autograd.gradcheck(found, U.requires_grad_())


@pytest.mark.parametrize("name", ["MFGPUCB", "ExpectedImprovement", "GPUCB", "GPBUCB"])
def test_decisions_keep_to_what_is_feasible(name):
    """A decision is where the limit is kept, or close to where it is, and a function of the history."""
    settings = {"capital": 120.0} if name == "MFGPUCB" else {"initial": 5}
    strategy = getattr(strategies, name)(space=SPACE, **settings)
    optimizer, rule = Optimizer(strategy), getattr(strategy, "rule", strategy)
    while (due := rule.due(rule.snapshot(optimizer.history))) is not None or not optimizer.history.done:
        (record,) = optimizer.ask()
        optimizer.tell(record.id, evaluated(*record.query.x, record.query.fidelity))
        assert due is None or record.query.meta["stage"] == "initial"
    for _ in range(2):
        (record,) = optimizer.ask()
        x, y = record.query.x
        assert 20 * (x + y) > 14.5
        optimizer.tell(record.id, evaluated(x, y, record.query.fidelity))
    snapshot = rule.snapshot(optimizer.history)
    (chance,) = rule.chances(snapshot, torch.tensor([[0.9, 0.9]])).tolist()
    (none,) = rule.chances(snapshot, torch.tensor([[0.1, 0.1]])).tolist()
    assert chance > 0.95
    assert none < 0.05
    history = optimizer.history
    again = type(strategy)(space=SPACE, capital=strategy.capital, **strategy.settings)
    assert strategy.ask(history) == again.ask(history)
    if (best := history.best(1)) is not None:
        advised = optimizer.recommend()
        assert isinstance(advised, Recommendation)
        assert advised.best == best
        assert advised.feasible == pytest.approx(rule.chances(snapshot, torch.tensor([advised.x]))[0].item())


def test_while_nothing_is_feasible_the_most_likely_is_sought():
    strategy = strategies.ExpectedImprovement(space=SPACE, initial=4)
    optimizer = Optimizer(strategy)
    for record, at in zip(optimizer.ask(4), ((0.1, 0.1), (0.5, 0.1), (0.1, 0.4), (0.3, 0.2)), strict=True):
        optimizer.tell(record.id, Observation(1.0, None, {"load": 20 * sum(at)}))
    assert optimizer.recommend() is None
    (record,) = optimizer.ask()
    snapshot = strategy.snapshot(optimizer.history)
    chances = strategy.chances(snapshot, torch.rand(50, 2).double())
    (own,) = strategy.chances(snapshot, torch.tensor([record.query.x])).tolist()
    assert own >= chances.max() - 1e-6 or math.isclose(own, 1.0, abs_tol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("upper", [True, False])
def test_a_penalty_in_an_outcome_does_not_hide_its_limit(upper):
    sign = 1 if upper else -1

    def measured(x, y):
        load = 1e8 if x + y > 1.6 else 10 + 12 * x * x + 6 * y
        return {"value": (x - 0.8) ** 2 + (y - 0.7) ** 2, "load": sign * load}

    limit = {"load": "<= 20" if upper else ">= -20"}
    space = Space([Parameter("x", 0.0, 1.0), Parameter("y", 0.0, 1.0)], [1], limits=limit)
    assert minimize(measured, space, 20, seed=1).fun < 0.011, "0.09 where the limit is lost beside it; the best 0.0097"


def test_a_fidelity_in_other_units_is_not_far_beyond_a_limit():
    (limit,) = limits_of({"load": ">= 0"})
    cheap, target = [0.001 * k for k in range(1, 9)] + [-1e6], [-1.0, -2.0, -3.0]
    records = [
        Record(i, Query((0.1,), int(load in target)), 1.0, 0.0, Status.DONE, outcomes={"load": Outcome(load, 0.1)})
        for i, load in enumerate([*cheap, *target])
    ]
    found = measured(records, limit)
    assert [r.value for r in found if r.query.fidelity] == target
    assert [r.value for r in found[:8]] == cheap[:8]
    assert -0.01 < found[8].value < 0
    assert found[8].standard_error < 1e-6
    assert found[0].standard_error == 0.1


def test_what_is_far_beyond_a_limit_is_near_limit():
    margins = [3.0, -2.0, 5.0, -1e8, 1.0, -40.0, 0.5, 2.0, -1.0, 4.0, -1e4, -500.0]
    near = near_limit(margins)
    kept = [i for i, (margin, slope) in enumerate(near) if slope == 1.0]
    assert kept == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert all(near[i][0] == margins[i] for i in kept)
    far = [near[i][0] for i in (3, 10, 11)]
    assert -85.0 < far[0] < far[1] < far[2] < -40.0, "one range below the others at most, in their order"
    assert all(0 < near[i][1] < 1 for i in (3, 10, 11))
    assert near_limit([]) == []
    assert near_limit([-1e8]) == [(-1e8, 1.0)], "nothing to compare it with"
    plain = [9.0, 8.5, -80.0, 9.5, 8.0]
    assert near_limit(plain) == [(margin, 1.0) for margin in plain], "it is not far from the limit"


def test_a_strategy_that_would_pass_over_limits_is_refused_and_those_that_do_not_are_named():
    for strategy in (strategies.MFSKO, strategies.MFNaive, strategies.Direct, strategies.NaiveRepeat):
        refused(rf"none: {strategy.__name__} does not seek what keeps them; MFGPUCB", strategy().bind, SPACE)
        refused("does not seek", strategy(space=SPACE).ask, History())
    named = LIMITED.replace(" and ", ", ").split(", ")
    assert len(named) == 6
    assert all(getattr(strategies, name)().bind(SPACE).heeds_limits for name in named)


@pytest.mark.parametrize("penalty", [1e200, -1e300])
def test_an_outcome_beyond_what_models_can_use(penalty):
    """It is drawn to the largest size that they can."""
    space = Space({"x": (0, 1)}, costs=[1, 10], limits={"latency": "<= 1" if penalty > 0 else ">= -1"})

    def objective(x, fidelity):
        return {"value": (x - 0.7) ** 2, "latency": penalty if x < 0.5 else 0.0}

    assert minimize(objective, space, 40).fun < 0.01
