"""Outcome constraints of Ax: metrics beside the objective that have to keep their bounds."""

import math

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax_problem import read_of, same_decisions
from refusals import refused

from mfbo_torch import MFGPUCB, Observation, Optimizer, Parameter, SettingError, Space
from mfbo_torch.ax import ValueAgainstCost, attach_observations, best_point, modular_node, multi_fidelity_client
from mfbo_torch.history import Status
from mfbo_torch.strategies import Direct, ExpectedImprovement, RandomSearch

CONFIGS = [RangeParameterConfig("x", (0.0, 1.0), "float")]


def measured(x: float, fidelity: int) -> dict[str, float]:
    """The loss is smallest at x = 1, which is too slow; the best that is fast enough is at 0.7."""
    found = {"loss": (x - 1) ** 2 + 0.1 * (1 - fidelity), "latency": x + 0.02 * (1 - fidelity), "recall": 0.2 + 0.4 * x}
    return {name: round(value, 10) for name, value in found.items()}


def client_of(strategy=None, constraints=("latency <= 0.7", "recall >= 0.25"), **settings) -> Client:
    return multi_fidelity_client(CONFIGS, [1, 5], "-loss", strategy, outcome_constraints=constraints, **settings)


def attached(client: Client, x: float, told=None, fidelity: int = 1) -> int:
    index = client.attach_trial({"x": x, "fidelity": fidelity})
    client.complete_trial(index, measured(x, fidelity) if told is None else told)
    return index


@pytest.mark.slow
def test_decisions_are_those_of_ask_and_tell_and_the_best_is_feasible():
    """Also after the client was stored and loaded."""
    space = Space([Parameter("x", 0.0, 1.0)], [1, 5], limits={"latency": "<= 0.7", "recall": ">= 0.25"})
    optimizer = Optimizer(MFGPUCB(space=space, initial_capital=4))
    client = client_of(MFGPUCB(initial_capital=4))
    client = same_decisions(client, optimizer, 14, measured, lambda one: Observation(-one["loss"], outcomes=one))
    history = read_of(client).history
    assert [(r.value, r.feasible, r.outcomes) for r in history] == [
        (r.value, r.feasible, r.outcomes) for r in optimizer.history
    ]
    best = best_point(client)
    kept = [r for r in history.done if r.query.fidelity == 1 and r.feasible]
    assert best.observed == min(-r.value for r in kept)
    assert best.outcomes == {name: measured(**best.parameters)[name] for name in ("latency", "recall")}
    assert 0.55 < best.parameters["x"] <= 0.7
    assert 0.5 <= best.feasible <= 1
    assert client.compute_analyses([ValueAgainstCost()], display=False)[0].df["best"].iloc[-1] == best.observed


def test_what_keeps_no_limit_is_not_the_best():
    client = client_of(RandomSearch())
    attached(client, 0.9)
    refused(r"no completed trial that keeps latency <= 0.7 and recall >= 0.25 at the t", best_point, client)
    index = attached(client, 0.5)
    attached(client, 0.8)
    assert best_point(client).trial_index == index
    client.configure_optimization("-loss", ["2*latency <= 1.7"])
    assert best_point(client).trial_index == index + 1
    client.configure_optimization("-loss")
    assert best_point(client).trial_index == 0


def test_a_trial_without_an_outcome_has_failed():
    client = client_of(RandomSearch())
    attached(client, 0.5, {"loss": 1.0, "recall": 1.0})
    attached(client, 0.5, {"loss": 1.0, "recall": 1.0, "latency": math.inf})
    attached(client, 0.5, {"latency": 1.0, "recall": 1.0})
    reasons = ["completed without a value of latency", "latency is not finite: nan", "completed without a value"]
    assert [(r.status, r.reason) for r in read_of(client).history] == [(Status.FAILED, reason) for reason in reasons]


def test_observations_of_before_bring_their_outcomes():
    client = client_of(ExpectedImprovement(initial=2))
    rows = [{"x": x, **measured(x, 1)} for x in (0.2, 0.6, 0.9)]
    attach_observations(client, [{**rows[0], "latency": (0.2, 0.01)}, *rows[1:]])
    history = read_of(client).history
    assert [r.feasible for r in history] == [True, True, False]
    assert history.records[0].outcomes["latency"] == (0.2, 0.01, True)
    assert best_point(client).parameters == {"x": 0.6, "fidelity": 1}
    with pytest.raises(SettingError, match=r"observations\[0\] = .*must be given with 'recall'"):
        attach_observations(client, [{"x": 0.1, "loss": 1.0, "latency": 1.0}])
    refused(r"latency = nan: must be a finite number", attach_observations, client, [{**rows[0], "latency": math.nan}])
    assert len(read_of(client).history) == 3


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (["latency < 20"], r"outcome_constraints = \['latency < 20'\]: .*inequalities .*such as \"latency <= 20\""),
        (["loss <= 1"], r"outcome_constraints = \['loss <= 1'\]: must be inequalities of other metrics than 'loss'"),
        (["latency <= twenty"], "'latency <= twenty': must be each on one metric"),
        (["latency + recall <= 2"], "each on one metric, .*report a sum of several as a metric of its own"),
        (["latency <= 0.9*baseline"], 'must be with a bound of its own, "latency <= 20", no baseline'),
        (["latency <= 2", "latency >= 1"], r"outcome_constraints = \['latency', 'latency'\]: .*one bound on each"),
        ("latency <= 20", "outcome_constraints = 'latency <= 20': must be a list of inequalities"),
        ([20], r"outcome_constraints = \[20\]: must be a list of inequalities"),
    ],
)
def test_constraints_that_cannot_be(constraints, message):
    refused(message, client_of, constraints=constraints)


def test_strategies_that_heed_no_limits_are_refused_at_once():
    refused(r"constraints = .*must be none: Direct does not seek what keeps them", client_of, Direct())
    own = Space([Parameter("x", 0.0, 1.0)], [1, 5])
    refused(r"strategy.space.limits = \(\): must be .*as in the Ax experiment", client_of, RandomSearch(space=own))


def test_axs_own_generator_takes_no_limits_and_passes_over_metrics_that_are_only_tracked():
    limited, tracked = client_of(RandomSearch()), client_of(RandomSearch(), constraints=())
    for client in (limited, tracked):
        for i in range(6):
            attached(client, 0.1 + 0.15 * i, fidelity=i % 2)
        client.set_generation_strategy(GenerationStrategy(nodes=[modular_node([1, 5])]))
    refused(r"outcome_constraints = .*must be none .*StrategyNode", limited.get_next_trials, 1)
    ((_, parameters),) = tracked.get_next_trials(1).items()
    assert 0 <= parameters["x"] <= 1
