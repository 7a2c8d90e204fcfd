"""The best arm at the target fidelity, or the best input, and what it took to find it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from ax.api.client import Client
from ax.generation_strategy.generation_strategy import GenerationStrategy

from mfbo_torch.ax.goal import goal
from mfbo_torch.ax.history import read
from mfbo_torch.ax.node import StrategyNode
from mfbo_torch.history import History, Recommendation, Record, Status, noise_variances, values
from mfbo_torch.metrics.front import front
from mfbo_torch.models import PerFidelityGP
from mfbo_torch.strategies import Strategy
from mfbo_torch.strategies.common.fit_schedule import quiet
from mfbo_torch.utils.errors import SettingError


class BestPoint(NamedTuple):
    """An arm at the target fidelity; values are in the objective's own units and sign.

    Attributes:
        parameters: Its parameters, the fidelity included.
        mean: The posterior mean of the noise-free value, whose posterior standard deviation is ``deviation``.
        spent: The cost of all trials so far, one sum a fidelity.
        noise: The standard deviation of the noise at each fidelity, ``None`` where it is not known; empty without a
            model of the noise.
        outcomes: The observed values of the metrics that have limits.
        feasible: The probability that these keep their limits; ``None`` without limits, or without a model of them.
        best_index: The index of the trial with the best observation, which may be another one where values are noisy.
    """

    parameters: dict[str, Any]
    trial_index: int
    observed: float
    mean: float
    deviation: float
    spent: tuple[float, ...]
    noise: tuple[float | None, ...] = ()
    best_index: int = -1
    outcomes: Mapping[str, float] = MappingProxyType({})
    feasible: float | None = None


class BestInput(NamedTuple):
    """An input where arms are averages over inputs; values are in the objective's own units and sign.

    Attributes:
        x: The input, one of the space's ``inputs``. It is no arm, and cannot be queried itself.
        mean: The posterior mean of the function at the input, not of an average around it; its posterior standard
            deviation is ``deviation``.
        spent: The cost of all trials so far, one sum a fidelity.
    """

    x: tuple[float, ...]
    mean: float
    deviation: float
    spent: tuple[float, ...]


class FrontPoint(NamedTuple):
    """An arm at the target fidelity that no other one beats in every objective.

    Attributes:
        parameters: Its parameters, the fidelity included.
        values: What was observed of each objective.
    """

    parameters: dict[str, Any]
    trial_index: int
    values: dict[str, float]


def best_front(client: Client) -> list[FrontPoint]:
    """The completed arms at the target fidelity that keep their limits and that no other one beats in every objective,
    from the best value of the first one on. A ``SettingError`` where the client has no strategy node, or one objective.
    """
    experiment = client._experiment
    _, codec = node_of(client._generation_strategy).bound(experiment)
    wanted = [one.name for one in codec.space.objectives]
    if not wanted:
        raise SettingError("client", "one with one objective", "one with several; best_point has the best of one")
    history, sources = read(experiment, codec)
    return [
        FrontPoint(
            dict(experiment.arms_by_name[sources[record.id][1]].parameters),
            sources[record.id][0],
            {name: record.outcomes[name].value for name in wanted},
        )
        for record in front(history, codec.space)
    ]


def best_point(client: Client) -> BestPoint | BestInput:
    """The strategy's recommendation: a completed arm at the target fidelity, or an input.

    Where values are noisy the arm is the one with the best posterior mean of the strategy's model, or of a
    :class:`~mfbo_torch.PerFidelityGP` where the strategy has none of the target. Where arms are averages of the
    objective it is the input with the best posterior mean: the best average is not the optimum. Of several objectives
    it is the knee of the front, and the values are those of the first one.

    Raises:
        SettingError: The client has no strategy node, or nothing is completed (at the target).
    """
    experiment = client._experiment
    node = node_of(client._generation_strategy)
    strategy, codec = node.bound(experiment)
    history, sources = read(experiment, codec)
    sign = goal(experiment.optimization_config).sign
    spent = tuple(history.spent_per_fidelity(codec.space.num_fidelities))
    advised = strategy.recommend(history)
    noise: tuple[float | None, ...] = ()
    feasible = None
    top = best = history.best(codec.space.target)
    if isinstance(advised, Recommendation):
        if advised.best is None:
            return BestInput(advised.x, sign * advised.mean, advised.deviation, spent)
        x, noise, feasible = advised.x, advised.noise, advised.feasible
        best = next(r for r in history.select(Status.DONE, codec.space.target) if r.query.x == x)
    elif advised is not None and advised.query.fidelity == codec.space.target and advised.value is not None:
        best = advised
    if best is None or best.value is None or top is None:
        space = codec.space
        target = space.fidelity_name(space.target) if space.fidelities else f"{codec.fidelity} = {space.target}"
        kept = f" that keeps {' and '.join(map(str, space.limits))}" if space.limits else ""
        raise SettingError("client", f"no completed trial{kept} at the target", f"one with a value at {target}")
    mean, deviation = _modelled(strategy, history, best)
    index, arm_name = sources[best.id]
    parameters = dict(experiment.arms_by_name[arm_name].parameters)
    found = (parameters, index, sign * best.value, sign * mean, deviation, spent, noise, sources[top.id][0])
    return BestPoint(*found, {name: outcome.value for name, outcome in best.outcomes.items()}, feasible)


def node_of(generation_strategy: GenerationStrategy) -> StrategyNode:
    """The strategy node of a generation strategy: the current one, else the last."""
    nodes = [*generation_strategy._nodes, generation_strategy.current_node]
    found = [node for node in nodes if isinstance(node, StrategyNode)]
    if not found:
        raise SettingError("generation_strategy", generation_strategy.name, "one with a StrategyNode")
    return found[-1]


def _modelled(strategy: Strategy, history: History, best: Record) -> tuple[float, float]:
    """The posterior mean and standard deviation of the target at a record's design."""
    predicted = strategy.predict(history, torch.tensor([best.query.x], dtype=torch.double))
    if predicted is not None and not predicted[0][0, -1].isnan():
        return predicted[0][0, -1].item(), predicted[1][0, -1].item()
    X, Y = strategy.unit_points(history.done), values(history.done)
    with quiet():
        model = PerFidelityGP(X, Y, strategy.space.num_fidelities, noise_variances(history.done))
        model.fit(optimizer_kwargs={"options": {"maxiter": 100}})
    with torch.no_grad():
        mean, variance = model.mean_variance(strategy.unit_points([best])[:, :-1])
    return mean[0, -1].item(), math.sqrt(variance[0, -1].item())
