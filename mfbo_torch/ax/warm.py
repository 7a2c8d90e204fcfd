"""Earlier observations as completed trials that cost nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ax.api.client import Client
from ax.core.arm import Arm

from mfbo_torch.ax.best import node_of
from mfbo_torch.ax.codec import AxCodec
from mfbo_torch.ax.goal import goal
from mfbo_torch.ax.history import META
from mfbo_torch.history import GIVEN
from mfbo_torch.history.observation import parse_finite
from mfbo_torch.utils.errors import SettingError, did_you_mean

Seen = float | tuple[float, float]
Row = tuple[dict[str, Any], dict[str, Seen]]


def attach_observations(client: Client, observations: Iterable[Mapping[str, Any]]) -> list[int]:
    """Attach completed trials of observations that were made elsewhere; strategies learn from them, free of charge.

    Args:
        client: Of :func:`~mfbo_torch.ax.multi_fidelity_client`, or another one with a strategy node.
        observations: Each ``{parameter: value, ..., metric: value}``, the metric a number or a pair of it and its
            standard error, and so every metric that has a limit; without a fidelity, at the target.

    Returns the indices of the trials.

    Raises:
        SettingError: Something in an observation is missing, unknown or out of range. Nothing is attached then.
    """
    experiment = client._experiment
    _, codec = node_of(client._generation_strategy).bound(experiment)
    metrics = goal(experiment.optimization_config).metrics
    rows = [_row(given, f"observations[{number}]", codec, metrics) for number, given in enumerate(observations)]
    indices = []
    for parameters, seen in rows:
        trial = experiment.new_trial().add_arm(Arm(parameters), candidate_metadata={META: dict(GIVEN)})
        trial.mark_running(no_runner_required=True)
        client._save_or_update_trial_in_db_if_possible(experiment=experiment, trial=trial)
        client.complete_trial(trial.index, seen)
        indices.append(trial.index)
    return indices


def _row(given: Mapping[str, Any], place: str, codec: AxCodec, metrics: Sequence[str]) -> Row:
    """The parameters of a trial and the observation of each metric."""
    observed = " and ".join(map(repr, metrics))
    if not isinstance(given, Mapping):
        raise SettingError(place, given, f"a mapping of parameters and {observed} to their values")
    parameters = {**codec.fixed, codec.fidelity: codec.levels[-1], **given}
    names = codec.search_space.parameters
    seen: dict[str, Seen] = {}
    for metric in metrics:
        if metric not in parameters:
            raise SettingError(place, dict(given), f"given with {metric!r}")
        found = parse_finite(parameters.pop(metric), setting=f"{place}.{metric}")
        seen[metric] = found.value if found.standard_error is None else (found.value, found.standard_error)
    if unknown := [name for name in parameters if name not in names]:
        wanted = f"a parameter or {observed}{did_you_mean(unknown[0], [*names, *metrics])}"
        raise SettingError(place, unknown[0], wanted)
    if missing := [p.name for p in codec.space.parameters if p.name not in parameters and not p.when]:
        raise SettingError(place, dict(given), f"given with {', '.join(missing)}")
    if codec.encode(parameters) is None:
        raise SettingError(place, parameters, "in the search space")
    return parameters, seen
