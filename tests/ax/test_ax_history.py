"""Ax experiments as histories: every status, what is kept of values, other nodes' trials; and the best of them."""

import math
import warnings
from typing import ClassVar

import numpy as np
import pytest
import torch
from ax.adapter.registry import Generators
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.client import Client
from ax.api.protocols.metric import IMetric
from ax.api.protocols.runner import IRunner
from ax.core.arm import Arm
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import AutoTransitionAfterGen
from ax_problem import COSTS, bound, client_of, loss, read_of
from refusals import refused

from mfbo_torch import MFGPUCB, Record, SettingError
from mfbo_torch.ax import StrategyNode, ValueAgainstCost, best_point
from mfbo_torch.ax.best import node_of
from mfbo_torch.history import Status
from mfbo_torch.models import PerFidelityGP
from mfbo_torch.strategies import ExpectedImprovement, RandomSearch


def arm(x: float, fidelity: int = 2):
    return {"x": x, "rate": 1.0, "fidelity": fidelity}


def test_every_status():
    client = client_of(RandomSearch())
    for i in range(9):
        client.attach_trial(arm(0.1 * i, i % 3))
    client.complete_trial(0, {"loss": 0.5})
    client.complete_trial(1)
    client.complete_trial(2, {"loss": float("nan")})
    client.mark_trial_failed(3, "out of memory")
    client.mark_trial_abandoned(4)
    client.attach_data(5, {"loss": 1.0})
    client.mark_trial_early_stopped(5)
    client.attach_data(6, {"loss": 1.0})
    client._experiment.trials[7]._status = TrialStatus.CANDIDATE
    client._experiment.trials[8]._status = TrialStatus.STALE
    history, sources = read_of(client)
    assert [index for index, _ in sources] == list(range(9))
    assert [r.status for r in history] == [Status.DONE, *[Status.FAILED] * 5, *[Status.PENDING] * 2, Status.FAILED]
    assert history.records[0].value == -0.5
    assert [r.cost for r in history] == [1.0, 4.0, 16.0] * 2 + [1.0, 4.0, 0.0]
    reasons = [r.reason for r in history if r.status == Status.FAILED]
    assert reasons[0] == "completed without a value"
    assert "not finite" in reasons[1] or "without a value" in reasons[1]
    assert reasons[2:] == ["failed: out of memory", "abandoned", "early stopped", "stale"]


def test_the_last_progression_counts():
    client = client_of(RandomSearch())
    client.attach_trial(arm(0.3))
    client.attach_data(0, {"loss": 3.0}, progression=1)
    client.attach_data(0, {"loss": 1.0}, progression=2)
    client.complete_trial(0)
    assert read_of(client).history.records[0].value == -1.0


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4, 1e12, 1e18])
def test_values_read_the_same_before_and_after_storage(tmp_path, scale):
    client = client_of(RandomSearch())
    for i, value in enumerate(np.random.default_rng(0).normal(size=6)):
        client.attach_trial(arm(0.1 * i))
        client.complete_trial(i, {"loss": scale * value})
    client.save_to_json_file(str(tmp_path / "a.json"))
    again = Client.load_from_json_file(str(tmp_path / "a.json"))
    assert [r.value for r in read_of(again).history] == [r.value for r in read_of(client).history]


def test_arms_outside_the_search_space_are_left_out():
    client = client_of(RandomSearch())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client.attach_trial(arm(7.0))
    client.attach_trial(arm(0.5))
    history, sources = read_of(client)
    assert sources == [(1, "1_0")]
    assert history.records[0].id == 0


def test_arms_of_a_batch_trial():
    client = client_of(RandomSearch())
    trial = client._experiment.new_batch_trial()
    trial.add_arms_and_weights([Arm(arm(0.1 * i, i)) for i in range(3)])
    trial.mark_running(no_runner_required=True)
    trial.mark_arm_abandoned("0_1")
    history, sources = read_of(client)
    assert sources == [(0, "0_0"), (0, "0_1"), (0, "0_2")]
    assert [r.status for r in history] == [Status.PENDING, Status.FAILED, Status.PENDING]
    assert history.records[1].reason == "abandoned"
    (run,) = client._generation_strategy.gen(experiment=client._experiment, n=3)[0]
    client._experiment.new_batch_trial(generator_runs=[run])
    assert [r.query.fidelity for r in read_of(client).history][3:] == [a.parameters["fidelity"] for a in run.arms]


class Recording(RandomSearch):
    """Notes the histories it was asked with."""

    seen: ClassVar[list] = []

    def decide(self, history):
        self.seen.append(history)
        return super().decide(history)


def test_trials_of_another_node_in_the_same_call_are_pending():
    client = client_of(RandomSearch())
    refused("costs", StrategyNode, RandomSearch(), None)
    node = StrategyNode(Recording(), COSTS)
    specs = [GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": 0})]
    criteria = [AutoTransitionAfterGen(transition_to=node.name, continue_trial_generation=False)]
    first = GenerationNode("Sobol", specs, transition_criteria=criteria)
    client.set_generation_strategy(GenerationStrategy(nodes=[first, node]))
    Recording.seen.clear()
    trials = client.get_next_trials(3)
    assert [len(history) for history in Recording.seen] == [1, 2]
    (record,) = Recording.seen[0]
    assert (*record.query.x, record.query.fidelity) == tuple(trials[0].values())
    assert node_of(client._generation_strategy) is node


def test_a_call_that_did_not_become_trials_leaves_no_trace():
    """Runs of the generation strategy that nobody attached are not in the history."""
    client = client_of(RandomSearch())
    client._generation_strategy.gen(experiment=client._experiment, n=1, num_trials=3)
    assert len(read_of(client).history) == 0
    client.get_next_trials(2)
    assert len(read_of(client).history) == 2


class Run(IRunner):
    def run_trial(self, trial_index, parameterization):
        return {"value": loss(parameterization)}

    def poll_trial(self, trial_index, trial_metadata):
        return TrialStatus.FAILED if trial_index == 4 else TrialStatus.COMPLETED

    def stop_trial(self, trial_index, trial_metadata):
        return {}


class Loss(IMetric):
    def fetch(self, trial_index, trial_metadata):
        return 0, trial_metadata["value"]


@pytest.mark.slow
def test_run_trials():
    client = client_of(MFGPUCB(initial_capital=1.0))
    client.configure_runner(Run())
    client.configure_metrics([Loss("loss")])
    client.run_trials(max_trials=8, parallelism=4, initial_seconds_between_polls=0)
    history, _ = read_of(client)
    assert [r.status for r in history] == [Status.FAILED if r.id == 4 else Status.DONE for r in history]
    assert len(history) == 8
    assert all(r.query.meta["stage"] for r in history)


@pytest.fixture(scope="module")
def finished() -> Client:
    """Twelve trials, one failed, one in flight."""
    client = client_of(MFGPUCB(initial_capital=1.0))
    for i in range(12):
        (p,) = client.get_next_trials(1).values()
        if i == 5:
            client.mark_trial_failed(i)
        elif i < 11:
            client.complete_trial(i, {"loss": loss(p)})
    return client


def test_best_point(finished):
    best = best_point(finished)
    history, _ = read_of(finished)
    at_target = [r for r in history.done if r.query.fidelity == 2]
    assert best.observed == min(-r.value for r in at_target)
    assert best.parameters == finished._experiment.trials[best.trial_index].arm.parameters
    assert best.parameters["fidelity"] == 2
    assert best.spent == tuple(sum(r.cost for r in history if r.query.fidelity == m) for m in range(3))
    assert sum(best.spent) == history.spent
    strategy, _ = bound(finished)
    mean, deviation = strategy.predict(history, torch.tensor([history.best(2).query.x], dtype=torch.double))
    assert (best.mean, best.deviation) == (-mean[0, 2].item(), deviation[0, 2].item())
    assert abs(best.mean - best.observed) < 4 * best.deviation + 1e-3


def test_the_best_point_of_a_strategy_without_a_model():
    client = client_of(RandomSearch())
    for i in range(9):
        client.attach_trial(arm(0.2 * i - 0.5, i % 3))
        client.complete_trial(i, {"loss": loss(arm(0.2 * i - 0.5, i % 3))})
    best = best_point(client)
    history, _ = read_of(client)
    strategy, _ = bound(client)
    Y = torch.tensor([[r.value] for r in history.done], dtype=torch.double)
    model = PerFidelityGP(strategy.unit_points(history.done), Y, 3).fit(optimizer_kwargs={"options": {"maxiter": 100}})
    posterior = model.posterior(strategy.unit_points([history.best(2)]))
    assert best.mean == pytest.approx(-posterior.mean.item(), rel=1e-6, abs=1e-9)
    assert best.deviation == pytest.approx(posterior.variance.sqrt().item(), rel=1e-4, abs=1e-9)


def test_standard_errors_come_from_ax(tmp_path):
    """They decide what is best: not the lucky trial, which stays beside it."""
    client = client_of(ExpectedImprovement())
    for i in range(9):
        client.attach_trial(arm(0.3 * i - 0.8))
        client.complete_trial(i, {"loss": (loss(arm(0.3 * i - 0.8)) - 9.0 * (i == 8), 5.0 if i == 8 else 0.01)})
    client.save_to_json_file(str(tmp_path / "a.json"))
    again = Client.load_from_json_file(str(tmp_path / "a.json"))
    assert [r.standard_error for r in read_of(again).history] == [*[0.01] * 8, 5.0]
    best = best_point(again)
    assert (best.trial_index, best.best_index) == (5, 8)
    assert best.noise[:2] == (None, None)
    assert best.noise[2] == pytest.approx(math.sqrt((8 * 0.01**2 + 25) / 9))
    assert best.mean == pytest.approx(best.observed, abs=0.1)
    client.attach_trial(arm(0.0))
    client.complete_trial(9, {"loss": 0.5})
    assert read_of(client).history.records[9].standard_error is None


class CheapAdvice(RandomSearch):
    """Recommends what it saw at the cheapest fidelity."""

    def recommend(self, history) -> Record | None:
        return history.best(0)


def test_the_best_point_is_at_the_target_whatever_the_strategy_recommends():
    client = client_of(CheapAdvice())
    client.attach_trial(arm(0.1, 0))
    client.complete_trial(0, {"loss": -9.0})
    refused("fidelity = 2", best_point, client)
    client.attach_trial(arm(0.2, 2))
    client.complete_trial(1, {"loss": 1.0})
    assert best_point(client).trial_index == 1


def test_value_against_cost(finished):
    (card,) = finished.compute_analyses([ValueAgainstCost()], display=False)
    assert isinstance(card, PlotlyAnalysisCard)
    frame = card.df
    history, sources = read_of(finished)
    assert frame["trial_index"].tolist() == [index for index, _ in sources]
    assert frame["spent"].tolist() == np.cumsum([r.cost for r in history]).tolist()
    assert frame["best"].iloc[-1] == best_point(finished).observed
    assert frame["status"].value_counts().to_dict() == {"done": 10, "failed": 1, "pending": 1}
    names = [trace.name for trace in card.get_figure().data]
    assert names[-1] == "best at the target"
    assert len(names) == 1 + frame["fidelity"].nunique()


def test_an_analysis_without_data_says_why():
    client = client_of(RandomSearch())
    (card,) = client.compute_analyses([ValueAgainstCost()], display=False)
    assert "No trial is completed" in card.blob
    assert "are needed" in ValueAgainstCost().validate_applicable_state()
    with pytest.raises(SettingError):
        ValueAgainstCost().compute()
    plain = GenerationStrategy(nodes=[GenerationNode("s", [GeneratorSpec(Generators.SOBOL)])])
    assert "StrategyNode" in ValueAgainstCost().validate_applicable_state(client._experiment, plain)
