"""A study of Optuna as a :class:`~mfbo_torch.history.History`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from mfbo_torch.history import History, Observation, Query, Record
from mfbo_torch.history.observation import Outcome, unusable, within_reach
from mfbo_torch.history.storage.journal import plain
from mfbo_torch.optuna.codec import StudyCodec
from mfbo_torch.space.objectives import Objective
from mfbo_torch.space.outcome_constraints import Limit
from mfbo_torch.utils.validation import VALUE

KEY = "mfbo_torch"
"""The prefix of the system attributes of a trial that keep its query."""
OWN = f"{KEY}:own"
"""The system attribute of every trial of a sampler like this."""
PIECE = 2000
"""The length of one such attribute in characters, which a column of a database takes."""


def read(study: Study, codec: StudyCodec, now: FrozenTrial, constraints: Sequence[str] = ()) -> tuple[History, int]:
    """The history of a study before the trial that is decided now, values to be maximised, and the number of running
    trials that were begun earlier and have no parameters yet; with the values of these constraints, which every
    completed trial has, as outcomes.

    Completed trials are done. Pruned ones are done at the highest fidelity that they have come to, by the steps that
    they have reported, with the value that they reported last by then. Where there is no fidelity a pruned trial has
    its last value, and the median change of completed trials from that step to their end. Failed trials, and pruned
    ones that reported nothing, have failed and keep their cost. Running trials are pending. Trials outside the
    search space, waiting ones, and those that have ended without a value for each constraint, are left out.
    """
    sign = -1.0 if study.directions[0] == StudyDirection.MINIMIZE else 1.0
    outcomes = replace(codec.space, objectives=objectives_in(study)).outcomes
    limits = limits_on(constraints)
    records, undecided = list[Record](), 0
    completed = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    for trial in sorted(study.get_trials(deepcopy=False), key=lambda trial: trial.number):
        known = [trial.constraints[name] for name in constraints if name in trial.constraints]
        ended = trial.state in (TrialState.PRUNED, TrialState.COMPLETE)
        untold = ended and len(known) < len(limits)  # completed meanwhile, by another process
        if trial.number == now.number or trial.state == TrialState.WAITING or untold:
            continue
        decided = _decided(trial)
        parameters = {**codec.external(decided.get("parameters", {})), **trial.params}
        if found := codec.encode(parameters):
            query = Query(*found, _meta(trial, codec, decided, *found))
            record = _record(len(records), query, codec, trial, sign, completed, outcomes)
            if limits and record.value is not None:
                kept = zip(limits, map(within_reach, known), strict=True)
                judged = {limit.name: Outcome(value, None, limit.met(value)) for limit, value in kept}
                record = replace(record, outcomes={**record.outcomes, **judged})
            records.append(record)
            if record.query.fidelity < query.fidelity:  # lest it be asked there again, and pruned again
                cost = codec.space.costs[query.fidelity]
                records.append(Record(len(records), query, cost).stopped(trial.state.name.lower()))
        elif trial.state == TrialState.RUNNING and trial.number < now.number:
            undecided += not codec.always <= parameters.keys()
    return History(records), undecided


def objectives_in(study: Study) -> tuple[Objective, ...]:
    """The objectives of a study that has several, by its metric names or as ``values_0, values_1, ...``."""
    names = getattr(study, "metric_names", None) or []  # not there in a bracket's view of HyperbandPruner
    if len(set(names)) < len(study.directions) or VALUE in names:
        names = [f"values_{k}" for k in range(len(study.directions))]
    several = zip(names, study.directions, strict=True) if len(names) > 1 else ()
    return tuple(Objective(name, direction == StudyDirection.MAXIMIZE) for name, direction in several)


def constraints_in(study: Study) -> tuple[str, ...]:
    """The constraints that every completed trial of a study has a value of."""
    done = [trial.constraints for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))]
    return tuple(name for name in (done[0] if done else ()) if all(name in given for given in done))


def limits_on(constraints: Iterable[str]) -> tuple[Limit, ...]:
    """The limits of constraints, kept from 0 down; Optuna lets their names be any text."""
    return tuple(Limit(f"constraint {number}", 0.0) for number, _ in enumerate(constraints))


def feasible(trial: FrozenTrial) -> bool:
    """Whether a trial keeps its constraints."""
    return all(value <= 0 for value in trial.constraints.values())


def note(study: Study, trial: FrozenTrial, codec: StudyCodec, query: Query) -> Query:
    """Keep a trial's query with it, as other workers and later decisions need it."""
    query = plain(query)
    asked = [list(query.x), query.fidelity]
    text = json.dumps({"parameters": codec.internal(query), "query": asked, "meta": dict(query.meta)})
    for i in range(0, len(text), PIECE):
        study._storage.set_trial_system_attr(trial._trial_id, f"{KEY}:{i // PIECE}", text[i : i + PIECE])
    return query


def mark(study: Study, trial: FrozenTrial) -> None:
    """Keep with a trial that it is of a sampler like this."""
    study._storage.set_trial_system_attr(trial._trial_id, OWN, True)


def is_own(trial: FrozenTrial) -> bool:
    """Whether a trial is of a sampler like this, see :func:`mark`."""
    return OWN in trial.system_attrs


def passed_over(study: Study, codec: StudyCodec) -> str | None:
    """How many completed trials lie outside the search space, and why the first one does; ``None`` for none, and before
    a trial of a sampler like this was completed: until then the search space is not known for sure."""
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    outside = [trial for trial in done if codec.encode(trial.params) is None]
    if not outside or not any(map(is_own, done)):
        return None
    reason = f"trial {outside[0].number} has {codec.misfit(outside[0].params)}"
    return f"{len(outside)} of {len(done)} completed trials are outside the search space and passed over: {reason}"


def _decided(trial: FrozenTrial) -> dict[str, Any]:
    """What :func:`note` kept; nothing where a trial is not of this sampler, or was ended while it was written."""
    pieces: list[str] = []
    while (piece := trial.system_attrs.get(f"{KEY}:{len(pieces)}")) is not None:
        pieces.append(piece)
    try:
        found = json.loads("".join(pieces))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _meta(
    trial: FrozenTrial, codec: StudyCodec, decided: Mapping[str, Any], x: tuple[float, ...], fidelity: int
) -> Mapping[str, Any]:
    """What was noted with the query that a trial is. Where an enqueued trial left parameters open and the first design
    filled them in, it is one of that design, lest the next one be filled in alike."""
    meta: Mapping[str, Any] = decided.get("meta", {})
    if _same(x, fidelity, decided.get("query")):
        return meta
    fixed = trial.system_attrs.get("fixed_params", {})
    filled = codec.external(decided.get("parameters", {})).keys() - {*fixed, codec.fidelity}
    first = filled and meta.get("stage") == "initial"
    return {key: value for key, value in meta.items() if first and key in ("stage", "index")}


def _same(x: tuple[float, ...], fidelity: int, asked: Any) -> bool:
    """Whether this is the query that was kept, up to the precision of a database."""
    if asked is None or len(asked[0]) != len(x) or asked[1] != fidelity:
        return False
    return all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-300) for a, b in zip(x, asked[0], strict=True))


def _record(
    id: int,
    query: Query,
    codec: StudyCodec,
    trial: FrozenTrial,
    sign: float,
    completed: Sequence[FrozenTrial],
    outcomes: Sequence[Limit] = (),
) -> Record:
    costs = codec.space.costs
    record = Record(id, query, costs[query.fidelity])
    if trial.state == TrialState.COMPLETE and outcomes:
        named = dict(zip((outcome.name for outcome in outcomes), trial.values, strict=True))
        for name, value in named.items():
            if (reason := unusable(value)) is not None:
                return record.failed(reason.replace("the value", name, 1))
        return record.observed(Observation(sign * float(trial.values[0]), None, named).judged(outcomes))
    if trial.state == TrialState.COMPLETE:
        return record.done(sign * float(trial.value or 0.0))
    if trial.state == TrialState.RUNNING:
        return record
    if trial.state == TrialState.PRUNED and (pruned := _pruned(trial, codec, query.fidelity, completed)) is not None:
        below, value = pruned
        return Record(id, query if below == query.fidelity else Query(query.x, below), costs[below]).done(sign * value)
    return record.failed(trial.state.name.lower())


def _pruned(
    trial: FrozenTrial, codec: StudyCodec, asked: int, completed: Sequence[FrozenTrial]
) -> tuple[int, float] | None:
    """The fidelity that a pruned trial has come to, at most the one it was asked for, and its value there."""
    values = {step: value for step, value in trial.intermediate_values.items() if math.isfinite(value)}
    if not values:
        return None
    if codec.fidelity is None:
        last = max(values)
        known = [(t.value, t.intermediate_values[last]) for t in completed if last in t.intermediate_values]
        changes = [end - there for end, there in known if end is not None and math.isfinite(there)]
        return asked, values[last] + (median(changes) if changes else 0.0)
    shift = 1 if 0 in trial.intermediate_values else 0  # steps that are counted from 0
    for m in range(asked, -1, -1):
        if codec.levels[m] <= max(values) + shift:
            return m, values[max((step for step in values if step + shift <= codec.levels[m]), default=min(values))]
    return None
