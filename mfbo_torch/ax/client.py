"""An Ax client for several fidelities in one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig, StorageConfig
from ax.api.utils.instantiation.from_config import parameter_from_config
from ax.api.utils.instantiation.from_string import optimization_config_from_string
from ax.core.experiment import Experiment
from ax.core.parameter import FixedParameter, Parameter, ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from ax.generation_strategy.generation_strategy import GenerationStrategy
from torch import Tensor

from mfbo_torch.ax.history import goal
from mfbo_torch.ax.node import StrategyNode
from mfbo_torch.errors import SettingError
from mfbo_torch.strategies import MFGPUCB, Strategy

FIDELITY = "fidelity"


def multi_fidelity_client(
    parameters: Sequence[RangeParameterConfig | ChoiceParameterConfig],
    costs: Sequence[float] | np.ndarray | Tensor,
    objective: str,
    strategy: Strategy | None = None,
    *,
    parameter_constraints: Sequence[str] = (),
    name: str | None = None,
    storage_config: StorageConfig | None = None,
) -> Client:
    """An Ax client whose trials have a ``"fidelity"``, from 0, the cheapest, to ``M - 1``, the target.

    It is used as any other: ``get_next_trials``, ``complete_trial``, ``mark_trial_failed``, ``attach_trial``,
    ``run_trials``. Ask :func:`~mfbo_torch.ax.best_point` for the best: Ax's own best point may be a cheap
    arm.

    Args:
        parameters: Ax's ``RangeParameterConfig`` and ``ChoiceParameterConfig`` (ordered, or of one value).
        costs: ``M`` increasing positive costs, the target last.
        objective: The metric to maximise, or with a minus before it to minimise, as in Ax: ``"-loss"``.
        strategy: Decides the trials; :class:`~mfbo_torch.MFGPUCB` if not given. One whose arms are averages brings its
            :class:`~mfbo_torch.IndirectSpace`, of the same parameters and costs: ``CMES(space=...)``.
        parameter_constraints: Linear inequalities such as ``"x1 + x2 <= 1"``.
        name: Of the experiment, needed to store it in a database.
        storage_config: Where Ax keeps it; the tables are made if they are missing. Other databases than SQLite keep to
            the 4,096 characters that Ax gives ``generation_strategy.nodes``: a space with tables needs a wider column.

    Raises:
        SettingError: Something of this cannot work; nothing has been stored then.
    """
    node = StrategyNode(MFGPUCB() if strategy is None else strategy, costs)
    if not isinstance(objective, str):
        raise SettingError("objective", objective, "the name of a metric, such as 'accuracy' or '-loss'")
    if storage_config is not None and name is None:
        raise SettingError("name", name, "given, to store the experiment in a database")
    search_space = _search_space(parameters, node.costs, parameter_constraints)
    experiment = Experiment(search_space=search_space, name=name)
    node.bound(experiment)
    goal(optimization_config_from_string(objective_str=objective))
    client = Client(storage_config=storage_config)
    if storage_config is not None:
        _make_tables()
    client.set_experiment(experiment)
    client.configure_optimization(objective=objective)
    client.set_generation_strategy(GenerationStrategy(nodes=[node], name=type(node.strategy).__name__))
    return client


def _search_space(
    parameters: Sequence[RangeParameterConfig | ChoiceParameterConfig],
    costs: Sequence[float],
    constraints: Sequence[str],
) -> SearchSpace:
    """The parameters and the fidelity, which comes last."""
    for config in parameters:
        if not isinstance(config, (RangeParameterConfig, ChoiceParameterConfig)):
            allowed = "each a RangeParameterConfig or ChoiceParameterConfig of ax.api.configs"
            raise SettingError("parameters", config, allowed)
    made: list[Parameter] = [parameter_from_config(config) for config in parameters]
    if FIDELITY in [parameter.name for parameter in made]:
        raise SettingError("parameters", FIDELITY, "other names: this one is the fidelity's, made from the costs")
    target = len(costs) - 1
    last = {"name": FIDELITY, "parameter_type": ParameterType.INT, "is_fidelity": True, "target_value": target}
    fidelity = RangeParameter(**last, lower=0, upper=target) if target else FixedParameter(**last, value=0)
    inequalities = [ParameterConstraint(inequality=text) for text in constraints]
    return SearchSpace(parameters=[*made, fidelity], parameter_constraints=inequalities)


def _make_tables() -> None:
    from ax.storage.sqa_store.db import create_all_tables, get_engine

    create_all_tables(get_engine())
