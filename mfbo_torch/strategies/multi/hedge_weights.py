r"""Several models that take turns at the target, by their record of predicting it.

Each model predicts every value of the target before it comes; the predictions ride on the query. A model's score is
the logarithm of the density it gave to what came, against the best of them and at least minus :data:`WORST`, and fades
by :data:`FADE` a query; its share of the capital is proportional to the exponential of that, but at least
:data:`LEAST`. The next query is that of the model which has spent least in comparison with its share.

The initial design may count as spent by the model of the target alone, with equal shares: a method without cheap
fidelities would begin with one, and from two or three values it decides no better than by chance.

A share of at least ``a`` for each of ``k`` models means that of a capital ``c`` each model has spent at least ``a c``
less ``k`` queries of the target: what a model alone would have reached with as much, the run has seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from functools import lru_cache, partial
from typing import Any

import torch

from mfbo_torch.history import Record, Status
from mfbo_torch.history.incremental import Fold
from mfbo_torch.models.outcome_transform import Warp

LINKED, INTEGRATED, ALONE = MODELS = ("linked", "integrated", "alone")
"""The target follows from the fidelities below as estimated; as far as that is known; or not at all."""
FADE = 0.7
"""Share of a score that is left after one more value of the target."""
LEAST = 0.12
"""The smallest share of a model."""
WORST = 3.0
"""Nats that a model loses by one value at most: one miss should not silence it for good."""
Prediction = Sequence[float]
"""Mean and deviation of a value of the target, noise included."""
LogDensities = Callable[[Record, Any], Mapping[str, float]]
"""From a record of the target and what the models predicted of its value to the log density that each gave it."""


def shares(records: Iterable[Record], models: Sequence[str], log_densities: LogDensities) -> dict[str, float]:
    """Which part of the capital spent next is each model's; they sum to 1.

    Args:
        records: Everything queried so far.
        models: Their names.
        log_densities: Judges what they predicted of a record.
    """
    scores = dict.fromkeys(models, 0.0)
    for record in records:
        predictions = record.query.meta.get("predicted")
        if predictions is None or record.status != Status.DONE:
            continue
        logs = log_densities(record, predictions)
        best = max(logs.values())
        scores = {name: FADE * score + max(logs[name] - best, -WORST) for name, score in scores.items()}
    best = max(scores.values())
    odds = {name: math.exp(score - best) for name, score in scores.items()}
    free = (1.0 - LEAST * len(models)) / sum(odds.values())
    return {name: LEAST + free * odd for name, odd in odds.items()}


def dues(models: Iterable[str]) -> Fold[dict[str, float]]:
    """What each model has still to spend after a history, by the shares of the time less what it has spent; the initial
    design counts as spent by :data:`ALONE`."""
    return Fold(partial(_nothing, tuple(models)), _due_after)


def _nothing(models: Sequence[str]) -> dict[str, float]:
    return dict.fromkeys(models, 0.0)


def _due_after(due: dict[str, float], record: Record) -> dict[str, float]:
    noted = record.query.meta
    first = noted.get("stage") == "initial"
    then, own = (dict.fromkeys(due, 1 / len(due)), ALONE) if first else (noted.get("shares"), noted.get("model"))
    return due if then is None else {n: due[n] + record.cost * (then[n] - (n == own)) for n in due}


def most_due(due: Mapping[str, float], now: Mapping[str, float]) -> str:
    """The model that has most to spend, that with the largest share by ``now`` where several have."""
    return max(due, key=lambda name: (round(due[name], 9), now[name]))


def noted_densities(warp: Warp, record: Record, predictions: Mapping[str, Prediction]) -> dict[str, float]:
    """:func:`log_densities` of a record by the maps of its time, or by ``warp`` and none where they were not noted."""
    noted, value = record.query.meta, record.value
    assert value is not None
    return log_densities(value, predictions, Warp(*noted.get("warp", astuple(warp))), Warp(*noted.get("common", ())))


def log_densities(value: float, predictions: Mapping[str, Prediction], warp: Warp, common: Warp) -> dict[str, float]:
    """The logarithm of the density that each model gave to a value of the target, to be maximised.

    Args:
        value: The value.
        predictions: What the models predicted of it.
        warp: The map of the values that the averaged chain saw.
        common: That of the others.
    """
    maps = {name: warp if name == INTEGRATED else common for name in predictions}
    return {name: _log_density(value, *predicted, maps[name]) for name, predicted in predictions.items()}


@lru_cache(maxsize=4096)
def _log_density(value: float, mean: float, deviation: float, transform: Warp) -> float:
    y = torch.tensor(value, dtype=torch.double)
    z = (transform(y).item() - mean) / deviation
    return transform.log_slope(y).item() - 0.5 * z * z - math.log(deviation)
