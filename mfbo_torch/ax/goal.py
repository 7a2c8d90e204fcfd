"""The goal of an Ax experiment: one metric to optimise, or several, others within limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ax.api.utils.instantiation.from_string import optimization_config_from_string
from ax.core.optimization_config import MultiObjectiveOptimizationConfig, OptimizationConfig
from ax.core.outcome_constraint import OutcomeConstraint
from ax.core.types import ComparisonOp
from ax.exceptions.core import UserInputError

from mfbo_torch.space.objectives import Objective, checked_objectives
from mfbo_torch.space.outcome_constraints import Limit, limits_of
from mfbo_torch.utils.errors import SettingError

CONSTRAINTS = "outcome_constraints"


class Goal(NamedTuple):
    """The metric to optimise, the sign that makes larger better, and the limits of other metrics; where several are to
    be optimised, the first one, and all of them as ``objectives``."""

    metric: str
    sign: float
    limits: tuple[Limit, ...] = ()
    objectives: tuple[Objective, ...] = ()

    @property
    def metrics(self) -> list[str]:
        """The metrics that a trial needs to be complete."""
        several = [one.name for one in self.objectives] or [self.metric]
        return list(dict.fromkeys([*several, *(limit.name for limit in self.limits)]))


def goal(config: OptimizationConfig | None) -> Goal:
    """The goal of an experiment with this configuration: one metric, or several after commas, with at most one bound on
    each other one. Ax's objective thresholds are the reference point."""
    if config is None:
        raise SettingError("objective", None, "configured: client.configure_optimization(objective=...)")
    if isinstance(config, MultiObjectiveOptimizationConfig):
        return _several(config)
    if len(config.objective.metric_names) != 1:
        wanted = "one metric, such as 'accuracy' or '-loss', or several after commas"
        raise SettingError("objective", config.objective.expression, wanted)
    sign = -1.0 if config.objective.minimize else 1.0
    limits = limits_of(list(map(limit, config.all_constraints)), CONSTRAINTS)
    return Goal(config.objective.metric_names[0], sign, limits)


def _several(config: MultiObjectiveOptimizationConfig) -> Goal:
    text, weights = config.objective.expression, dict(config.objective.metric_weights)
    if len(weights) != len(text.split(",")) or {abs(weight) for weight in weights.values()} != {1.0}:
        raise SettingError("objective", text, "one metric between two commas, such as '-loss, accuracy'")
    worst = {found.name: found for found in map(limit, config.objective_thresholds)}
    for name, found in worst.items():
        if found.upper != (weights[name] < 0):
            wanted = f"a bound on its worse values: {name} {'<=' if weights[name] < 0 else '>='} {found.bound:g}"
            raise SettingError(CONSTRAINTS, str(found), wanted)
    objectives = tuple(
        Objective(name, weight > 0, worst[name].bound if name in worst else None) for name, weight in weights.items()
    )
    limits = limits_of(list(map(limit, config.outcome_constraints)), CONSTRAINTS)
    return Goal(objectives[0].name, 1.0 if objectives[0].maximize else -1.0, limits, checked_objectives(objectives))


def limit(constraint: OutcomeConstraint) -> Limit:
    """An outcome constraint as a limit: on one metric, and not relative to a baseline."""
    if constraint.relative:
        raise SettingError(CONSTRAINTS, constraint.expression, 'with a bound of its own, "latency <= 20", no baseline')
    if len(constraint.metric_names) != 1:
        wanted = 'each on one metric, "latency <= 20"; report a sum of several as a metric of its own'
        raise SettingError(CONSTRAINTS, constraint.expression, wanted)
    return Limit(constraint.metric_names[0], float(constraint.bound), constraint.op is ComparisonOp.LEQ)


def configured(objective: str | None, constraints: Sequence[str]) -> OptimizationConfig:
    """The configuration that texts describe, checked by :func:`goal`."""
    if not isinstance(objective, str):
        raise SettingError("objective", objective, "the name of a metric, such as 'accuracy' or '-loss'")
    if isinstance(constraints, str) or not all(isinstance(text, str) for text in constraints):
        raise SettingError(CONSTRAINTS, constraints, 'a list of inequalities, such as ["latency <= 20"]')
    metric = goal(optimization_config_from_string(objective_str=objective)).metric
    try:
        config = optimization_config_from_string(objective_str=objective, outcome_constraint_strs=list(constraints))
    except UserInputError as error:
        wanted = f'inequalities of other metrics than {metric!r}, such as "latency <= 20" or "recall >= 0.9"'
        raise SettingError(CONSTRAINTS, list(constraints), wanted) from error
    goal(config)
    return config
