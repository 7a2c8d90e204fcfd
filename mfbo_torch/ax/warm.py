"""Observations of before, as completed trials that cost nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ax.api.client import Client
from ax.core.arm import Arm

from mfbo_torch.ax.best import node_of
from mfbo_torch.ax.domain import Domain
from mfbo_torch.ax.goal import goal
from mfbo_torch.ax.history import META
from mfbo_torch.history import GIVEN
from mfbo_torch.history.observation import parse_finite
from mfbo_torch.utils.errors import SettingError, meant

Seen = float | tuple[float, float]
Row = tuple[dict[str, Any], dict[str, Seen]]


def attach_observations(client: Client, observations: Iterable[Mapping[str, Any]]) -> list[int]:
    """Attach completed trials of observations that were made elsewhere; strategies learn from them, free of charge.

    Args:
        client: Of :func:`~mfbo_torch.ax.multi_fidelity_client`, or another one with a strategy node.
        observations: Each ``{parameter: value, ..., metric: value}``, the metric a number or a pair of it and its
            standard error, and so every metric that has a limit; without a fidelity, at the target.

    Returns:
        The indices of the trials.

    Raises:
        SettingError: Something in an observation is missing, unknown or out of range. Nothing is attached then.
    """
    experiment = client._experiment
    _, domain = node_of(client._generation_strategy).bound(experiment)
    wanted = goal(experiment.optimization_config)
    metrics = [wanted.metric, *(limit.name for limit in wanted.limits)]
    rows = [_row(given, number, domain, metrics) for number, given in enumerate(observations)]
    indices = []
    for parameters, seen in rows:
        trial = experiment.new_trial().add_arm(Arm(parameters), candidate_metadata={META: dict(GIVEN)})
        trial.mark_running(no_runner_required=True)
        client._save_or_update_trial_in_db_if_possible(experiment=experiment, trial=trial)
        client.complete_trial(trial.index, seen)
        indices.append(trial.index)
    return indices


def _row(given: Mapping[str, Any], number: int, domain: Domain, metrics: Sequence[str]) -> Row:
    """The parameters of a trial and what was observed of each metric."""
    place, told = f"observations[{number}]", " and ".join(map(repr, metrics))
    if not isinstance(given, Mapping):
        raise SettingError(place, given, f"a mapping of parameters and {told} to their values")
    target = domain.fidelity.target_value
    parameters = {**domain.fixed, domain.fidelity.name: target, **given}
    names = domain.search_space.parameters
    seen: dict[str, Seen] = {}
    for metric in metrics:
        if metric not in parameters:
            raise SettingError(place, dict(given), f"given with {metric!r}")
        found = parse_finite(parameters.pop(metric), setting=f"{place}.{metric}")
        seen[metric] = found.value if found.standard_error is None else (found.value, found.standard_error)
    if unknown := [name for name in parameters if name not in names]:
        raise SettingError(place, unknown[0], f"a parameter or {told}{meant(unknown[0], [*names, *metrics])}")
    if missing := [name for name in names if name not in parameters]:
        raise SettingError(place, dict(given), f"given with {', '.join(missing)}")
    if domain.query(parameters, {}) is None:
        raise SettingError(place, parameters, "in the search space")
    return parameters, seen
