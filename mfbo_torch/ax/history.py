"""An Ax experiment as a :class:`~mfbo_torch.history.History`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ax.core.base_trial import BaseTrial
from ax.core.data import Data
from ax.core.experiment import Experiment

from mfbo_torch.ax.codec import AxCodec
from mfbo_torch.ax.goal import Goal, goal
from mfbo_torch.history import History, Query, Record
from mfbo_torch.history.continuation import lower_training
from mfbo_torch.history.observation import Outcome
from mfbo_torch.space.outcome_constraints import Limit

Seen = dict[str, tuple[float, float | None]]
"""A value and its standard error, where that is known, of each metric."""
META = "mfbo_torch"
"""The key of a query's metadata in the candidate metadata of its arm, which Ax stores in JSON and SQL."""


class AxHistory(NamedTuple):
    """A history, and the index of the trial and the name of the arm of each of its records."""

    history: History
    sources: list[tuple[int, str]]


def read(experiment: Experiment, codec: AxCodec, data: Data | None = None) -> AxHistory:
    """The history of an experiment in the order of its trials, values to be maximised.

    Completed trials with a value of each objective and of every metric that has a limit are done; those without one,
    failed, abandoned and early stopped ones (and abandoned arms of others) have failed and keep their cost; a stale
    trial never ran and costs nothing, nor does one of :func:`~mfbo_torch.ax.attach_observations`; all others are
    pending. Arms outside the search space are left out.

    Ax's ``sem``, where it is known, is the standard error of a value. Both are rounded to ten decimals as in Ax's
    storage, so that an experiment reads the same before and after it is stored. ``data`` are the experiment's own
    observations if not given.
    """
    wanted = goal(experiment.optimization_config)
    observed = _observed(experiment.lookup_data() if data is None else data)
    records, sources = list[Record](), list[tuple[int, str]]()
    for index, trial in sorted(experiment.trials.items()):
        meta = _metadata(trial)
        for arm in trial.arms:
            found = codec.encode(arm.parameters)
            if found is None:
                continue
            query = Query(*found, meta.get(arm.signature, {}))
            base = lower_training(records, query.x, query.fidelity) if codec.space.continues else None
            cost = codec.space.costs[query.fidelity] - (0.0 if base is None else base.paid)
            record = Record(len(records), query, cost)
            seen = observed.get((index, arm.name), {})
            record = _record(record, trial, seen, wanted, codec.space.outcomes)
            if not trial.status.is_abandoned and arm in trial.abandoned_arms:
                record = record.failed("abandoned")
            records.append(record)
            sources.append((index, arm.name))
    return AxHistory(History(records), sources)


def _record(record: Record, trial: BaseTrial, seen: Seen, goal: Goal, limits: Sequence[Limit]) -> Record:
    """A pending record as its trial stands."""
    status = trial.status
    if status.is_stale or record.given:
        record = replace(record, cost=0.0)
    if not status.is_terminal:
        return record
    missing = [name for name in goal.metrics if name not in seen]
    if status.is_completed and not missing:
        outcomes = {limit.name: Outcome(*seen[limit.name], limit.met(seen[limit.name][0])) for limit in limits}
        if unknown := [name for name, outcome in outcomes.items() if not math.isfinite(outcome.value)]:
            return record.failed(f"{unknown[0]} is not finite: {outcomes[unknown[0]].value}")
        value, error = seen[goal.metric]
        return record.done(goal.sign * value, error, outcomes=outcomes)
    of = "" if missing[:1] in ([], [goal.metric]) else f" of {missing[0]}"
    name = f"completed without a value{of}" if status.is_completed else status.name.lower().replace("_", " ")
    return record.failed(": ".join(filter(None, (name, trial.status_reason))))


def _metadata(trial: BaseTrial) -> dict[str, dict[str, Any]]:
    """The metadata of the queries of a trial, by the signatures of their arms."""
    runs = [run.candidate_metadata_by_arm_signature or {} for run in trial.generator_runs]
    return {signature: (metadata or {}).get(META) or {} for run in runs for signature, metadata in run.items()}


def _observed(data: Data) -> dict[tuple[int, str], Seen]:
    """The last values of each arm of each trial, by the index of the trial and the name of the arm."""
    frame, found = data.df, dict[tuple[int, str], Seen]()
    means, errors = (json.loads(frame[name].astype(float).to_json(orient="values")) for name in ("mean", "sem"))
    keys = (frame[name].tolist() for name in ("trial_index", "arm_name", "metric_name"))
    for index, arm, metric, mean, error in zip(*keys, means, errors, strict=True):
        found.setdefault((index, arm), {})[metric] = (math.nan if mean is None else float(mean), error)
    return found
