"""The models that take turns, and the density that each gave to a value of the target."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple
from functools import lru_cache

import torch

from mfbo_torch.history import Record
from mfbo_torch.models.outcome_transform import Warp
from mfbo_torch.strategies.multi.hedge_weights import Prediction

LINKED, INTEGRATED, ALONE = MODELS = ("linked", "integrated", "alone")
"""The target follows from the fidelities below as estimated; as far as that is known; or not at all."""


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
