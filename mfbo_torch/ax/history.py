"""An Ax experiment as a :class:`~mfbo_torch.history.History`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

from ax.core.base_trial import BaseTrial
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.optimization_config import OptimizationConfig

from mfbo_torch.ax.domain import Domain
from mfbo_torch.continuing import below
from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Query, Record

META = "mfbo_torch"
"""Under this key a query's metadata are in the candidate metadata of its arm, which Ax stores in JSON and SQL."""


class Goal(NamedTuple):
    """The metric to optimise, and the sign that makes larger better."""

    metric: str
    sign: float


class AxHistory(NamedTuple):
    """A history and where its records come from: the number of a trial and the name of an arm each."""

    history: History
    sources: list[tuple[int, str]]


def goal(config: OptimizationConfig | None) -> Goal:
    """What an experiment with this configuration optimises.

    Raises:
        SettingError: Nothing, several metrics, or one under outcome constraints.
    """
    if config is None:
        raise SettingError("objective", None, "configured: client.configure_optimization(objective=...)")
    if len(config.objective.metric_names) != 1:
        raise SettingError("objective", config.objective.expression, "one metric, such as 'accuracy' or '-loss'")
    if config.all_constraints:
        raise SettingError("outcome_constraints", list(map(str, config.all_constraints)), "none")
    return Goal(config.objective.metric_names[0], -1.0 if config.objective.minimize else 1.0)


def read(experiment: Experiment, domain: Domain, data: Data | None = None) -> AxHistory:
    """Everything an experiment asked so far, in the order of its trials, values to be maximised.

    Completed trials with a value of the objective are done; those without one, failed, abandoned and
    early stopped ones (and abandoned arms of others) have failed and keep their cost; a stale trial never ran and
    costs nothing, nor does one of :func:`~mfbo_torch.ax.attach_observations`; all others are pending. Arms outside the
    search space are left out.

    Ax's ``sem``, where it is known, is the standard error of a value. Both are what Ax's storage keeps of them, ten
    decimals, so that an experiment reads the same before and after it is stored.

    Args:
        experiment: An Ax experiment.
        domain: Of its search space.
        data: Observations; the experiment's own if not given.

    Raises:
        SettingError: The objective is not one metric.
    """
    metric, sign = goal(experiment.optimization_config)
    values = _observed(experiment.lookup_data() if data is None else data, metric)
    history, sources = History(), []
    for index, trial in sorted(experiment.trials.items()):
        meta = _metadata(trial)
        for arm in trial.arms:
            query = domain.query(arm.parameters, meta.get(arm.signature, {}))
            if query is None:
                continue
            observed = values.get((index, arm.name))
            record = _record(len(history), query, _cost(domain, query, history), trial, observed, sign)
            if not trial.status.is_abandoned and arm in trial.abandoned_arms:
                record = record.failed("abandoned")
            history = History((*history, record))
            sources.append((index, arm.name))
    return AxHistory(history, sources)


def _record(
    id: int, query: Query, cost: float, trial: BaseTrial, observed: tuple[float, float | None] | None, sign: float
) -> Record:
    status = trial.status
    record = Record(id, query, cost)
    if status.is_stale or record.given:
        record = replace(record, cost=0.0)
    if status.is_completed and observed is not None:
        value, error = observed
        return record.done(sign * value, error)
    if status.is_terminal:
        name = "completed without a value" if status.is_completed else status.name.lower().replace("_", " ")
        return record.failed(": ".join(filter(None, (name, trial.status_reason))))
    return record


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


def _observed(data: Data, metric: str) -> dict[tuple[int, str], tuple[float, float | None]]:
    """The last value of a metric of each arm of each trial and its standard error, by trial and name of the arm."""
    frame = data.df
    rows = frame[frame["metric_name"] == metric]
    means, errors = (json.loads(rows[name].astype(float).to_json(orient="values")) for name in ("mean", "sem"))
    keys = zip(rows["trial_index"].tolist(), rows["arm_name"].tolist(), strict=True)
    kept = (float("nan") if mean is None else float(mean) for mean in means)
    return dict(zip(keys, zip(kept, errors, strict=True), strict=True))
