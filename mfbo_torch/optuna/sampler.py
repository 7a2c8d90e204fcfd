"""A sampler of Optuna that decides as a strategy does."""

from __future__ import annotations

import copy
import re
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from botorch.utils.multi_objective.pareto import is_non_dominated
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import intersection_search_space
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from mfbo_torch.history import ENQUEUED, History, Query, Status
from mfbo_torch.optuna.codec import ONE_AT_A_TIME, Costs, StudyCodec, checked, levels_of
from mfbo_torch.optuna.conditions import conditions_of, distributions_of
from mfbo_torch.optuna.history import (
    constraints_in,
    feasible,
    is_own,
    limits_on,
    mark,
    note,
    objectives_in,
    passed_over,
    read,
)
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.objectives import Objective
from mfbo_torch.strategies import MFEHVI, MFGPUCB, ExpectedImprovement, Strategy
from mfbo_torch.strategies.by_name import strategy_of
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.global_state import GlobalState

EARLY = 8
"""Number of trials at lower fidelities after which one is at the target, while none is done there."""


class Sampler(BaseSampler):
    """Samples the parameters of each trial by a strategy, several fidelities included.

    The study is the only state: its trials become a history (:func:`~mfbo_torch.optuna.history.read`), and their system
    attributes keep what later decisions need. A study can be continued with any storage, and several processes can work
    on one: each trial is decided with the running ones pending, that is with the deviation they will leave and no
    invented values.

    The parameters that all completed trials of such samplers have in common are searched jointly, and while there are
    none those of all completed trials; so are those whose presence another one explains
    (:func:`~mfbo_torch.optuna.conditions.conditions_of`). The others, and those of the first trial, are drawn
    independently. The trial after :data:`EARLY` ones below the target is at the target, while none is. Trials of
    others are learnt from where they lie in that search space; the rest is passed over, with one warning. Constraints
    (``trial.set_constraint``) that every completed trial has are limits of the search.
    ``study.best_trial`` ignores fidelities: use :meth:`best_trial`, and of several objectives :meth:`best_trials`.

    Args:
        fidelity: The name of the integer parameter that makes a trial cheaper, such as ``"epochs"``; ``None``: every
            trial is at the target.
        costs: The costs by value, as in ``{3: 1.0, 9: 3.0, 27: 9.0}``: these are the fidelities, and the most expensive
            one is the target. Or one for each value from low to high. By default a value is its own cost, and the
            fidelities are the highest value, a third of it, and so on, four at most.
        strategy: Decides the trials, or its name; by default :class:`~mfbo_torch.MFGPUCB`, or without a fidelity
            :class:`~mfbo_torch.strategies.ExpectedImprovement`; for a study with several directions
            :class:`~mfbo_torch.MFEHVI`.
        seed: Of a strategy that is named or not given, 0 if not given: workers on one study need the same.
        independent_sampler: Draws what is not searched jointly; random if not given.

    Raises:
        SettingError: ``strategy`` is none, has a space of its own, or decides for no study, as it averages or needs a
            capital; a ``seed`` beside it. After the first trial: the fidelity is no integer parameter of it, or the
            costs do not fit.
    """

    def __init__(
        self,
        fidelity: str | None = None,
        costs: Costs = None,
        strategy: Strategy | str | None = None,
        *,
        seed: int | None = None,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        if fidelity is not None and not isinstance(fidelity, str):
            raise SettingError("fidelity", fidelity, "the name of a parameter, such as 'epochs'")
        if fidelity is None and costs is not None:
            raise SettingError("costs", costs, "left out where no fidelity is named, as in Sampler('epochs', costs)")
        self._usual = strategy is None
        strategy = strategy_of(strategy, seed, ExpectedImprovement if fidelity is None else MFGPUCB)
        if strategy.own_space is not None:
            raise SettingError("strategy", strategy, "a strategy without a space, such as mfbo_torch.MFGPUCB()")
        _check_first_query(strategy, 1 if fidelity is None else 2)
        self.fidelity, self.costs, self.strategy = fidelity, checked(costs), strategy
        self._independent = independent_sampler
        self._bound: Strategy | None = None
        self._state = GlobalState()
        self._warned: set[str] = set()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Note with the trial that it is of this sampler."""
        mark(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that completed trials have in common, or pruned ones while there are none, without those of a
        single value; the range of the fidelity is that of the last one, and a range that has changed that of the last
        two."""
        trials = _ended(study)
        common = intersection_search_space(trials, all(trial.state == TrialState.PRUNED for trial in trials))
        lasting = _lasting(trials)
        common |= {name: lasting[name] for name in lasting if all(name in trial.params for trial in trials)}
        if all(self.fidelity in trial.params for trial in trials):
            common |= distributions_of(trials, [self.fidelity or ""])
        if not any(map(is_own, trials)) and self.fidelity not in (None, *common):  # unknown before the first trial
            return {}
        free = {name: distribution for name, distribution in common.items() if not distribution.single()}
        return free | distributions_of(trials, conditions_of(trials, free, self.fidelity))

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The parameters of the strategy's next query; of the one after, where an earlier trial still waits for its."""
        searched = {name: distribution for name, distribution in search_space.items() if not distribution.single()}
        if not searched.keys() - {self.fidelity}:  # no design to search: nothing is learned from what is cheaper
            name = self.fidelity
            return {name: levels_of(name, searched, self.costs)[0][-1]} if name in searched else {}
        trials = _ended(study)
        always = {name for name in searched if all(name in trial.params for trial in trials)}
        conditions = conditions_of(trials, [name for name in searched if name in always], self.fidelity)
        searched = {name: d for name, d in searched.items() if name in always or name in conditions}
        given = self.fidelity in searched  # not so where a sampler around this one has fixed it
        codec = StudyCodec(searched, *((self.fidelity, self.costs) if given else (None, None)), conditions)
        with ONE_AT_A_TIME, self._state.restored():
            if message := passed_over(study, codec):
                self._say(study, message)
            constraints = self._constraints(study)
            history, undecided = read(study, codec, trial, constraints)
            space = replace(codec.space, objectives=objectives_in(study), limits=limits_on(constraints))
            query = self._early(history, codec) or self._for(space).ask(history, undecided + 1)[-1]
            query = note(study, trial, codec, query)
        return codec.decode(query.x, query.fidelity)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value of one parameter: the cheapest of the fidelity, else as the independent sampler has it."""
        if param_name == self.fidelity:
            return levels_of(param_name, {param_name: param_distribution}, self.costs)[0][0]
        trials = _ended(study)
        if param_name in _lasting(trials) and not param_distribution.single():
            few = f"{sum(param_name in trial.params for trial in trials)} of {len(trials)} trials have it"
            self._say(study, f"{param_name!r} is drawn at random: {few}, and a new study searches it")
        sampler = self._independent
        if sampler is None:  # of the trial and the name alone: nothing is remembered
            sampler = RandomSampler(zlib.crc32(f"{self.strategy.seed} {trial.number} {param_name}".encode()))
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Complain of a fidelity that no trial has, after the first one; warn, once a study, where none comes to the
        target, or where ``study.best_trial`` is not there."""
        if self.fidelity is None or state not in (TrialState.COMPLETE, TrialState.PRUNED):
            return
        if state == TrialState.COMPLETE:
            levels_of(self.fidelity, trial.distributions, self.costs)
        ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL))
        there = [t for t in ended if t.state == TrialState.COMPLETE and self._at_target(t)]
        if not there and len(ended) + 1 >= 2 * EARLY and not self._at_target(trial):
            message = f"none of {len(ended) + 1} trials has been completed at the highest {self.fidelity}: "
            self._say(study, f"{message}there is no answer at the target yet")
        elif len(study.directions) == 1 and any(map(feasible, there)):
            best = study.best_trial
            if not is_own(best) or self._at_target(best):
                return
            message = f"study.best_trial has {self.fidelity} = {best.params.get(self.fidelity)}, and not the target's: "
            self._say(study, f"{message}the best one there is sampler.best_trial(study)")

    def _at_target(self, trial: FrozenTrial) -> bool:
        name = self.fidelity
        if name is None or name not in trial.distributions:
            return name is None
        return bool(trial.params[name] == levels_of(name, trial.distributions, self.costs)[0][-1])

    def reseed_rng(self) -> None:
        """Nothing of its own: random numbers are a function of the seed and the trials."""
        if self._independent is not None:
            self._independent.reseed_rng()

    def best_trial(self, study: Study) -> FrozenTrial:
        """The best completed trial at the target fidelity that keeps its constraints.

        Raises:
            ValueError: There is none yet, or the study has several objectives.
        """
        if len(study.directions) > 1:
            raise ValueError("the study has several objectives: use best_trials")
        if self.fidelity is None:
            return study.best_trial
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        found = [trial for trial in done if self._at_target(trial)]
        if not found:
            raise ValueError("no trial at the target fidelity has been completed yet")
        if not (found := list(filter(feasible, found))):
            raise ValueError("no trial at the target fidelity keeps its constraints yet")
        best = max if study.direction == StudyDirection.MAXIMIZE else min
        return copy.deepcopy(best(found, key=lambda t: t.value))

    def best_trials(self, study: Study) -> list[FrozenTrial]:
        """The completed trials at the target fidelity that keep their constraints and that no other one dominates."""
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        found = [t for t in done if feasible(t) and (self.fidelity is None or self._at_target(t))]
        signs = [1.0 if direction == StudyDirection.MAXIMIZE else -1.0 for direction in study.directions]
        rows = [[sign * value for sign, value in zip(signs, t.values, strict=True)] for t in found]
        kept = is_non_dominated(torch.tensor(rows, dtype=torch.double), deduplicate=False).tolist() if found else []
        return [copy.deepcopy(trial) for trial, best in zip(found, kept, strict=True) if best]

    def _early(self, history: History, codec: StudyCodec) -> Query | None:
        """The best design so far at the target, where :data:`EARLY` trials in a row were not there and none is done."""
        target = codec.space.target
        tried = [record for record in history if record.query.fidelity == target]
        since = len(history) - (tried[-1].id + 1 if tried else 0)
        done = history.done
        if not done or since < EARLY or any(record.status in (Status.DONE, Status.PENDING) for record in tried):
            return None
        highest = max(record.query.fidelity for record in done)
        best = history.best(highest)
        return None if best is None else Query(best.query.x, target, ENQUEUED)

    def _constraints(self, study: Study) -> tuple[str, ...]:
        """The constraints that the search heeds; one warning where there are others."""
        several, heeded = len(study.directions) > 1 and self._usual, constraints_in(study)
        if not (MFEHVI if several else self.strategy).heeds_limits:
            heeded = ()
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if left := list(dict.fromkeys(name for t in done for name in t.constraints if name not in heeded)):
            why = "not every completed trial has a value of it, or the strategy takes no limits"
            self._say(study, f"constraint {left[0]!r} is not heeded by the search: {why}")
        return heeded

    def _say(self, study: Study, message: str) -> None:
        """Warn once a study of one kind of thing."""
        key = f"{study.study_name} {re.sub('[0-9]', '', message)[:12]}"
        if key not in self._warned:
            self._warned.add(key)
            warnings.warn(message, stacklevel=3)

    def _for(self, space: Space) -> Strategy:
        """The strategy on a space; the same one as long as that stays, as it memoises."""
        if self._bound is None or self._bound.space != space:
            several = bool(space.objectives) and self._usual
            self._bound = (MFEHVI(seed=self.strategy.seed) if several else self.strategy).bind(space)
        return self._bound


def _check_first_query(strategy: Strategy, fidelities: int) -> None:
    """Refuse a strategy that decides neither for one objective nor for several, at once and not at the second trial."""
    errors, names = list[SettingError](), ("values_0", "values_1")
    for objectives in ((), tuple(Objective(name) for name in names)):
        space = Space([Parameter("x", 0, 1, integer=True)], range(1, fidelities + 1), objectives=objectives)
        try:
            strategy.bind(space).ask(History())
        except SettingError as error:
            errors.append(error)
    if len(errors) == 2:
        raise errors[0]


def _lasting(trials: Sequence[FrozenTrial]) -> dict[str, BaseDistribution]:
    """The ranges that the last two trials have in common."""
    if len(trials) < 2:
        return {}
    before, last = (trial.distributions for trial in trials[-2:])
    return {name: kind for name, kind in last.items() if before.get(name) == kind}


def _ended(study: Study) -> list[FrozenTrial]:
    """The trials that show the search space: those of such a sampler that have come to their end, or all such."""
    ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    done = [trial for trial in ended if trial.state == TrialState.COMPLETE or trial.intermediate_values]
    return list(filter(is_own, done)) or done
