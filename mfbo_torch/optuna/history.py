"""A study of Optuna as a :class:`~mfbo_torch.history.History`."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from mfbo_torch.history import History, Query, Record
from mfbo_torch.history.storage.journal import plain
from mfbo_torch.optuna.domain import Domain

KEY, PIECE = "mfbo_torch", 2000
"""What was decided is with a trial's system attributes, in pieces that a column of a database takes."""


class Told(NamedTuple):
    """What a study tells.

    Attributes:
        history: The trials in the search space in the order of their numbers, values to be maximised.
        undecided: How many running trials were begun before this one and have no parameters yet.
    """

    history: History
    undecided: int


def read(study: Study, domain: Domain, now: FrozenTrial) -> Told:
    """Everything asked so far, but for the trial that is decided now.

    Completed trials are done. Those that failed or were pruned have failed and keep their cost; where the last step
    that a pruned trial reported is a value of the fidelity below the one it was asked at, it is done at that one.
    Running trials are pending. Trials outside the search space, and those that wait, are left out.

    Args:
        study: With one objective.
        domain: Of its search space.
        now: The trial to decide.
    """
    sign = -1.0 if study.direction == StudyDirection.MINIMIZE else 1.0
    history, undecided = History(), 0
    for trial in sorted(study.get_trials(deepcopy=False), key=lambda trial: trial.number):
        if trial.number == now.number or trial.state == TrialState.WAITING:
            continue
        decided = _decided(trial)
        parameters = {**domain.external(decided.get("parameters", {})), **trial.params}
        query = domain.query(parameters, {})
        if query is not None:
            if _same(query, decided.get("query")):
                query = Query(query.x, query.fidelity, decided["meta"])
            history = History((*history, _record(len(history), query, domain, trial, sign)))
        elif trial.state == TrialState.RUNNING and trial.number < now.number:
            undecided += not domain.names <= parameters.keys()
    return Told(history, undecided)


def note(study: Study, trial: FrozenTrial, domain: Domain, query: Query) -> Query:
    """Keep with a trial what was decided for it, as other workers and later decisions need it."""
    query = plain(query)
    asked = [list(query.x), query.fidelity]
    text = json.dumps({"parameters": domain.internal(query), "query": asked, "meta": dict(query.meta)})
    for i in range(0, len(text), PIECE):
        study._storage.set_trial_system_attr(trial._trial_id, f"{KEY}:{i // PIECE}", text[i : i + PIECE])
    return query


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


def _same(query: Query, asked: Any) -> bool:
    """Whether this is what was decided, up to what a database keeps of a number."""
    if asked is None or len(asked[0]) != len(query.x) or asked[1] != query.fidelity:
        return False
    return all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-300) for a, b in zip(query.x, asked[0], strict=True))


def _record(id: int, query: Query, domain: Domain, trial: FrozenTrial, sign: float) -> Record:
    costs = domain.space.costs
    record = Record(id, query, costs[query.fidelity])
    if trial.state == TrialState.COMPLETE:
        return record.done(sign * float(trial.value or 0.0))
    if trial.state == TrialState.RUNNING:
        return record
    if trial.state == TrialState.PRUNED and trial.last_step in domain.levels[: query.fidelity]:
        below = domain.levels.index(trial.last_step)
        return Record(id, Query(query.x, below), costs[below]).done(sign * trial.intermediate_values[trial.last_step])
    return record.failed(trial.state.name.lower())
