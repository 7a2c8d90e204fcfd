"""A strategy as a node of Ax's generation strategy."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ax.adapter.random import RandomAdapter
from ax.core.arm import Arm
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.experiment_status import ExperimentStatus
from ax.core.generator_run import GeneratorRun
from ax.core.types import TParameterization
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.transition_criterion import TransitionCriterion
from ax.generators.random.sobol import SobolGenerator
from ax.storage.json_store.decoder import object_from_json
from torch import Tensor

from mfbo_torch.app.builder import strategy_from_settings, strategy_to_settings
from mfbo_torch.ax.codec import AxCodec
from mfbo_torch.ax.goal import goal
from mfbo_torch.ax.history import META, read
from mfbo_torch.history import History, Query
from mfbo_torch.history.storage.journal import plain
from mfbo_torch.strategies import Strategy
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.global_state import GlobalState
from mfbo_torch.utils.validation import one_of


class StrategyNode(ExternalGenerationNode):
    """Generates trials with a strategy, from everything that is in the Ax experiment.

    The experiment is the only state: it becomes a history (see :func:`mfbo_torch.ax.history.read`), and the strategy's
    next queries become arms whose candidate metadata carry what later decisions need. So the decisions are those of
    :class:`~mfbo_torch.Optimizer` on the same history, also after the experiment was stored and loaded elsewhere. Ax
    has no model of its own in such a node: its predictions, and some of its analyses, are not available.

    Args:
        strategy: Decides the trials. The space is the experiment's; one of its own, such as an
            :class:`~mfbo_torch.IndirectSpace`, must have the same parameters, costs and constraints, and is stored.
        costs: ``M`` increasing positive costs, one for each value of the fidelity parameter; or an array of them.
        name, suggested_experiment_status, transition_criteria: As in Ax.
        continues: Whether a trial goes on from the one at the highest fidelity below at its design, as a training from
            its checkpoint, and costs what is missing.

    Raises:
        SettingError: The strategy is none, or has a setting that cannot be stored. Before the first trial: the
            experiment does not suit, see :class:`~mfbo_torch.ax.codec.AxCodec`.
    """

    def __init__(
        self,
        strategy: Strategy,
        costs: Sequence[float] | np.ndarray | Tensor | None,
        name: str = "mfbo_torch",
        suggested_experiment_status: ExperimentStatus | None = None,
        transition_criteria: Sequence[TransitionCriterion] | None = None,
        continues: bool = False,
    ) -> None:
        started = time.monotonic()
        if not isinstance(strategy, Strategy):
            raise SettingError("strategy", strategy, "a strategy, such as mfbo_torch.MFGPUCB()")
        strategy_to_settings(strategy)
        costs = costs.tolist() if isinstance(costs, (np.ndarray, Tensor)) else costs
        if isinstance(costs, str) or not isinstance(costs, Sequence) or len(costs) == 0:
            raise SettingError("costs", costs, "one positive number a fidelity, the target last")
        super().__init__(
            name=name,
            suggested_experiment_status=suggested_experiment_status,
            should_deduplicate=False,  # strategies avoid earlier designs themselves
            transition_criteria=transition_criteria,
        )
        self.strategy, self.costs, self.continues = strategy, costs, one_of("continues", continues, (True, False))
        self._bound = strategy
        self._seen: tuple[Experiment, Data] | None = None
        self._adapter: RandomAdapter | None = None
        self._codec: AxCodec | None = None
        self._history = History()
        self._known: set[str] = set()
        self._metadata: dict[str, dict[str, Any]] = {}
        self._state = GlobalState()
        self.fit_time_since_gen = time.monotonic() - started

    @property
    def _fitted_adapter(self) -> RandomAdapter | None:
        """One that says it cannot predict, as in Ax's own random stage: analyses then tell what they can without."""
        if self._adapter is None and self._seen is not None:
            experiment, data = self._seen
            self._adapter = RandomAdapter(experiment=experiment, data=data, generator=SobolGenerator())
        return self._adapter

    @classmethod
    def deserialize_init_args(
        cls, args: dict[str, Any], decoder_registry: Any = None, class_decoder_registry: Any = None
    ) -> dict[str, Any]:
        """The arguments of a stored node."""
        registries = {"decoder_registry": decoder_registry, "class_decoder_registry": class_decoder_registry}
        given = {name: object_from_json(value, **registries) for name, value in args.items()}
        return {**given, "strategy": strategy_from_settings(given.get("strategy"))}

    def bound(self, experiment: Experiment) -> tuple[Strategy, AxCodec]:
        """The strategy, bound to the space of an experiment, and the codec of its arms, where they suit each other."""
        wanted = goal(experiment.optimization_config)
        codec = AxCodec(experiment.search_space, self.costs, self.continues, wanted.limits, wanted.objectives)
        if self._codec is None or self._codec.space != codec.space:
            self._bound = self.strategy.bind(codec.space)
            codec.check(self._bound.space)
        self._codec = codec
        return self._bound, codec

    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        """Read the experiment."""
        self._seen, self._adapter = (experiment, data), None
        _, codec = self.bound(experiment)
        self._history = read(experiment, codec, data).history
        self._known = set(experiment.arms_by_signature)

    def get_next_candidate(self, pending_parameters: list[TParameterization]) -> TParameterization:
        """The parameters of the strategy's next query; arms that are pending may not be in the experiment yet."""
        if self._codec is None:
            raise SettingError("experiment", None, "read by update_generator_state before a candidate is asked for")
        for parameters in pending_parameters:
            if Arm.md5hash(parameters) not in self._known:
                self._add(parameters, {})
        with self._state.restored():
            query = plain(self._bound.ask(self._history)[0])
        chosen = self._codec.decode(query.x, query.fidelity)
        self._add(chosen, query.meta)
        self._metadata[Arm.md5hash(chosen)] = {META: query.meta}
        return chosen

    def _add(self, parameters: TParameterization, meta: Mapping[str, Any]) -> None:
        """Take an arm as pending, if it is in the search space."""
        self._known.add(Arm.md5hash(parameters))
        if self._codec is not None and (found := self._codec.encode(parameters)):
            query = Query(*found, dict(meta))
            self._history = self._history.asked(query, self._bound.cost(query, self._history))

    def _gen(self, experiment: Experiment, **kwargs: Any) -> GeneratorRun:
        fixed = kwargs.get("fixed_features")
        if fixed is not None and fixed.parameters:
            raise SettingError("fixed_parameters", dict(fixed.parameters), "none: strategies choose every parameter")
        self._metadata = {}
        run = super()._gen(experiment, **kwargs)
        return GeneratorRun(
            arms=run.arms,
            weights=run.weights,
            fit_time=float(run.fit_time),  # Ax counts with the whole number 0, and then cannot copy what it stored
            gen_time=run.gen_time,
            generator_key=self.name,
            candidate_metadata_by_arm_signature=self._metadata,
        )
