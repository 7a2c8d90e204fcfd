"""An Ax experiment as a :class:`~mfbo_torch.history.History`."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any, NamedTuple

from ax.core.base_trial import BaseTrial
from ax.core.data import Data
from ax.core.experiment import Experiment

from mfbo_torch.ax.domain import Domain
from mfbo_torch.ax.goal import Goal, goal
from mfbo_torch.history import History, Query, Record
from mfbo_torch.history.continuation import below
from mfbo_torch.history.observation import Outcome
from mfbo_torch.space.outcome_constraints import Limit

Seen = tuple[float, float | None]
"""A value and its standard error, where that is known."""
META = "mfbo_torch"
"""Under this key a query's metadata are in the candidate metadata of its arm, which Ax stores in JSON and SQL."""


class AxHistory(NamedTuple):
    """A history and where its records come from: the number of a trial and the name of an arm each."""

    history: History
    sources: list[tuple[int, str]]


def read(experiment: Experiment, domain: Domain, data: Data | None = None) -> AxHistory:
    """Everything an experiment asked so far, in the order of its trials, values to be maximised.

    Completed trials with a value of the objective and of every metric that has a limit are done; those without one,
    failed, abandoned and early stopped ones (and abandoned arms of others) have failed and keep their cost; a stale
    trial never ran and costs nothing, nor does one of :func:`~mfbo_torch.ax.attach_observations`; all others are
    pending. Arms outside the search space are left out.

    Ax's ``sem``, where it is known, is the standard error of a value. Both are what Ax's storage keeps of them, ten
    decimals, so that an experiment reads the same before and after it is stored.

    Args:
        experiment: An Ax experiment.
        domain: Of its search space.
        data: Observations; the experiment's own if not given.

    Raises:
        SettingError: The objective is not one metric, or see :func:`~mfbo_torch.ax.goal.limit`.
    """
    wanted, given = goal(experiment.optimization_config), experiment.lookup_data() if data is None else data
    values = {name: _observed(given, name) for name in (wanted.metric, *(limit.name for limit in wanted.limits))}
    history, sources = History(), []
    for index, trial in sorted(experiment.trials.items()):
        meta = _metadata(trial)
        for arm in trial.arms:
            query = domain.query(arm.parameters, meta.get(arm.signature, {}))
            if query is None:
                continue
            observed = {name: seen[index, arm.name] for name, seen in values.items() if (index, arm.name) in seen}
            record = _record(Record(len(history), query, _cost(domain, query, history)), trial, observed, wanted)
            if not trial.status.is_abandoned and arm in trial.abandoned_arms:
                record = record.failed("abandoned")
            history = History((*history, record))
            sources.append((index, arm.name))
    return AxHistory(history, sources)


def _record(record: Record, trial: BaseTrial, observed: dict[str, Seen], goal: Goal) -> Record:
    """A pending record as its trial stands."""
    status = trial.status
    if status.is_stale or record.given:
        record = replace(record, cost=0.0)
    missing = [name for name in (goal.metric, *(limit.name for limit in goal.limits)) if name not in observed]
    if status.is_completed and not missing:
        value, error = observed[goal.metric]
        outcomes = {limit.name: _outcome(limit, observed[limit.name]) for limit in goal.limits}
        if unknown := [name for name, outcome in outcomes.items() if not math.isfinite(outcome.value)]:
            return record.failed(f"{unknown[0]} is not finite: {outcomes[unknown[0]].value}")
        return record.done(goal.sign * value, error, outcomes=outcomes)
    if status.is_terminal:
        of = "" if missing[:1] in ([], [goal.metric]) else f" of {missing[0]}"
        name = f"completed without a value{of}" if status.is_completed else status.name.lower().replace("_", " ")
        return record.failed(": ".join(filter(None, (name, trial.status_reason))))
    return record


def _outcome(limit: Limit, seen: Seen) -> Outcome:
    return Outcome(*seen, limit.met(seen[0]))


def _cost(domain: Domain, query: Query, history: History) -> float:
    """What a query costs; what is missing, where it goes on from an earlier trial."""
    base = below(history, query.x, query.fidelity) if domain.space.continues else None
    return domain.space.costs[query.fidelity] - (0.0 if base is None else base.paid)


def _metadata(trial: BaseTrial) -> dict[str, dict[str, Any]]:
    """The metadata of the queries of a trial, by the signatures of their arms."""
    found = {}
    for run in trial.generator_runs:
        for signature, metadata in (run.candidate_metadata_by_arm_signature or {}).items():
            found[signature] = (metadata or {}).get(META) or {}
    return found


def _observed(data: Data, metric: str) -> dict[tuple[int, str], Seen]:
    """The last value of a metric of each arm of each trial and its standard error, by trial and name of the arm."""
    frame = data.df
    rows = frame[frame["metric_name"] == metric]
    means, errors = (json.loads(rows[name].astype(float).to_json(orient="values")) for name in ("mean", "sem"))
    keys = zip(rows["trial_index"].tolist(), rows["arm_name"].tolist(), strict=True)
    kept = (float("nan") if mean is None else float(mean) for mean in means)
    return dict(zip(keys, zip(kept, errors, strict=True), strict=True))
