"""The goal of an Ax experiment: one metric to optimise, others within limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ax.api.utils.instantiation.from_string import optimization_config_from_string
from ax.core.optimization_config import OptimizationConfig
from ax.core.outcome_constraint import OutcomeConstraint
from ax.core.types import ComparisonOp
from ax.exceptions.core import UserInputError

from mfbo_torch.space.outcome_constraints import Limit, limits_of
from mfbo_torch.utils.errors import SettingError

CONSTRAINTS = "outcome_constraints"


class Goal(NamedTuple):
    """The metric to optimise, the sign that makes larger better, and the limits of other metrics."""

    metric: str
    sign: float
    limits: tuple[Limit, ...] = ()

    @property
    def metrics(self) -> list[str]:
        """The metrics that a trial needs to be complete."""
        return [self.metric, *(limit.name for limit in self.limits)]


def goal(config: OptimizationConfig | None) -> Goal:
    """The goal of an experiment with this configuration: one metric, with at most one bound on each other one."""
    if config is None:
        raise SettingError("objective", None, "configured: client.configure_optimization(objective=...)")
    if len(config.objective.metric_names) != 1:
        raise SettingError("objective", config.objective.expression, "one metric, such as 'accuracy' or '-loss'")
    sign = -1.0 if config.objective.minimize else 1.0
    limits = limits_of(list(map(limit, config.all_constraints)), CONSTRAINTS)
    return Goal(config.objective.metric_names[0], sign, limits)


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
