"""Runs in MLflow: one for an optimisation, and one below it for each evaluation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain, count
from typing import Any

from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID
from mlflow.utils.time import get_current_time_millis

from mfbo_torch.tracking.callback import Callback, End, Event


class MLflowLogger(Callback):
    """A run of MLflow for the optimisation, with ``best`` and ``spent`` after each evaluation. Below it is one for each
    evaluation, with its parameters, fidelity, value, outcomes, cost and seconds.

    Args:
        experiment: The experiment; it is made if it is not there.
        tracking_uri: Where MLflow keeps runs; where MLflow has them by default if not given.
        name: The name of the optimisation's run.
    """

    def __init__(self, experiment: str = "mfbo_torch", tracking_uri: str | None = None, name: str = "search") -> None:
        super().__init__()
        self.client = MlflowClient(tracking_uri)
        known = self.client.get_experiment_by_name(experiment)
        self.experiment_id = self.client.create_experiment(experiment) if known is None else known.experiment_id
        self.run_id: str = self.client.create_run(self.experiment_id, run_name=name).info.run_id

    def on_result(self, event: Event) -> None:
        tags = {MLFLOW_PARENT_RUN_ID: self.run_id}
        run = self.client.create_run(self.experiment_id, tags=tags, run_name=f"evaluation {event.number}").info.run_id
        parameters = {"fidelity": event.fidelity, **event.parameters}  # of one fidelity, a parameter may have its name
        own = {"value": event.value, "cost": event.cost, "seconds": event.seconds}
        outcomes = {f"outcome {name}" if name in own else name: value for name, value in event.outcomes.items()}
        reason = [RunTag("reason", event.reason)] if event.reason else []
        try:
            self._log(run, {**own, **outcomes}, 0, parameters, reason)
        finally:
            self.client.set_terminated(run, "FINISHED" if event.value is not None else "FAILED")
        self._log(self.run_id, {"best": event.best, "spent": event.spent}, event.number)

    def on_end(self, end: End) -> None:
        best = {f"best {name}": value for name, value in (end.parameters or {}).items()}
        try:
            self._log(self.run_id, {}, 0, best, [RunTag("stopped", end.stopped)] if end.stopped else [])
        finally:
            self.client.set_terminated(self.run_id, "FINISHED" if end.finished else "KILLED")

    def _log(
        self, run: str, metrics: Mapping[str, Any], step: int, parameters: Mapping[str, Any] = {}, tags: Any = ()
    ) -> None:
        now = get_current_time_millis()
        known = [Metric(name, value, now, step) for name, value in _named(metrics).items() if value is not None]
        given = [Param(name, str(value)) for name, value in _named(parameters).items()]
        self.client.log_batch(run, known, given, tags)


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by names as MLflow takes them: letters, digits and some signs; numbered where two would be the same."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        plain = re.sub(r"[^\w./: -]", "_", name)
        others = (f"{plain}_{i}" for i in count(2))
        found[next(each for each in chain([plain], others) if each not in found)] = value
    return found
