"""An Ax client for several fidelities in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig, StorageConfig
from ax.api.utils.instantiation.from_config import parameter_from_config
from ax.core.experiment import Experiment
from ax.core.parameter import ChoiceParameter, FixedParameter, Parameter, ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from ax.generation_strategy.generation_strategy import GenerationStrategy
from torch import Tensor

from mfbo_torch.ax.goal import configured, goal
from mfbo_torch.ax.node import StrategyNode
from mfbo_torch.space import named_fidelities
from mfbo_torch.space.fidelities import Fidelities, Value
from mfbo_torch.strategies import MFEHVI, MFGPUCB, Strategy
from mfbo_torch.strategies.by_name import strategy_of
from mfbo_torch.utils.errors import SettingError

FIDELITY = "fidelity"


def multi_fidelity_client(
    parameters: Sequence[RangeParameterConfig | ChoiceParameterConfig],
    costs: Sequence[float] | np.ndarray | Tensor | None = None,
    objective: str | None = None,
    strategy: Strategy | str | None = None,
    *,
    seed: int | None = None,
    fidelities: Mapping[str, Sequence[Value]] | None = None,
    parameter_constraints: Sequence[str] = (),
    outcome_constraints: Sequence[str] = (),
    continues: bool = False,
    name: str | None = None,
    storage_config: StorageConfig | None = None,
) -> Client:
    """An Ax client whose trials have a ``"fidelity"``, from 0, the cheapest, to ``M - 1``, the target; or one of values
    with a name, such as ``"epochs"``, so that ``objective(**parameters)`` is called as anywhere else.

    It is used as any other: ``get_next_trials``, ``complete_trial``, ``mark_trial_failed``, ``attach_trial``,
    ``run_trials``. Ask :func:`~mfbo_torch.ax.best_point` for the best: Ax's own best point may be a cheap arm.

    Args:
        parameters: Ax's ``RangeParameterConfig`` and ``ChoiceParameterConfig`` (``dependent_parameters`` and all).
        costs: ``M`` increasing positive costs, the target last; the values of ``fidelities`` if not given.
        objective: The metric to maximise, or with a minus before it to minimise, as in Ax: ``"-loss"``; or several
            after commas, ``"-loss, accuracy"``, of which :func:`~mfbo_torch.ax.best_front` has the best.
        strategy: Decides the trials, or its name; :class:`~mfbo_torch.MFGPUCB` if not given, and for several objectives
            :class:`~mfbo_torch.MFEHVI`. One whose arms are
            averages brings its :class:`~mfbo_torch.IndirectSpace`, of the same parameters and costs:
            ``CMES(space=...)``.
        seed: Of a strategy that is named or not given; 0 if not given.
        fidelities: The name and the values of the fidelities, ``{"epochs": [3, 9, 27]}``, the target last.
        parameter_constraints: Linear inequalities such as ``"x1 + x2 <= 1"``.
        outcome_constraints: Bounds on other metrics such as ``"latency <= 20"``, which every trial reports beside the
            objective; the best point keeps them at the target. One on an objective of several is its worst value of
            interest.
        continues: As in :class:`~mfbo_torch.ax.StrategyNode`.
        name: Of the experiment, needed to store it in a database.
        storage_config: Where Ax keeps it; the tables are made if they are missing. Other databases than SQLite keep to
            the 4,096 characters that Ax gives ``generation_strategy.nodes``: a space with tables needs a wider column.

    Raises:
        SettingError: Something of this cannot work; nothing has been stored then.
    """
    named = None
    if fidelities is not None:
        given = costs.tolist() if isinstance(costs, (np.ndarray, Tensor)) else costs
        named = named_fidelities(fidelities, [getattr(config, "name", "") for config in parameters], given)
        costs = named.costs_of(given)
    config = configured(objective, outcome_constraints)
    usual = MFEHVI if goal(config).objectives else MFGPUCB
    node = StrategyNode(strategy_of(strategy, seed, usual), costs, continues=continues)
    if storage_config is not None and name is None:
        raise SettingError("name", name, "given, to store the experiment in a database")
    search_space = _search_space(parameters, node.costs, parameter_constraints, named)
    experiment = Experiment(search_space=search_space, name=name, optimization_config=config)
    node.bound(experiment)
    client = Client(storage_config=storage_config)
    if storage_config is not None:
        from ax.storage.sqa_store.db import create_all_tables, get_engine

        create_all_tables(get_engine())
    client.set_experiment(experiment)
    client.configure_optimization(objective, [*outcome_constraints])
    client.set_generation_strategy(GenerationStrategy(nodes=[node], name=type(node.strategy).__name__))
    return client


def _search_space(
    parameters: Sequence[RangeParameterConfig | ChoiceParameterConfig],
    costs: Sequence[float],
    constraints: Sequence[str],
    named: Fidelities | None,
) -> SearchSpace:
    """The parameters and the fidelity, which comes last."""
    for config in parameters:
        if not isinstance(config, (RangeParameterConfig, ChoiceParameterConfig)):
            allowed = "each a RangeParameterConfig or ChoiceParameterConfig of ax.api.configs"
            raise SettingError("parameters", config, allowed)
    made: list[Parameter] = [parameter_from_config(config) for config in parameters]
    if named is None and FIDELITY in [parameter.name for parameter in made]:
        raise SettingError("parameters", FIDELITY, "other names: this one is the fidelity's, made from the costs")
    inequalities = [ParameterConstraint(inequality=text) for text in constraints]
    return SearchSpace(parameters=[*made, _fidelity(len(costs) - 1, named)], parameter_constraints=inequalities)


def _fidelity(target: int, named: Fidelities | None) -> Parameter:
    """The fidelity: a number up to the target's, or one of some values in this order."""
    if named is None:
        last = {"name": FIDELITY, "parameter_type": ParameterType.INT, "is_fidelity": True, "target_value": target}
        return RangeParameter(**last, lower=0, upper=target) if target else FixedParameter(**last, value=0)
    kinds = {int: ParameterType.INT, float: ParameterType.FLOAT, str: ParameterType.STRING}
    found = {type(value) for value in named.values}
    kind = next(kind for kind in (str, float, int) if kind in found)
    values = [kind(value) for value in named.values]
    if (len(found) > 1) if kind is str else (values != sorted(values)):
        raise SettingError(f"fidelities.{named.name}", list(named.values), "numbers that increase, or texts, in Ax")
    last = {"name": named.name, "parameter_type": kinds[kind], "is_fidelity": True, "target_value": values[-1]}
    if not target:
        return FixedParameter(**last, value=values[0])
    return ChoiceParameter(**last, values=values, is_ordered=True, sort_values=kind is not str)
