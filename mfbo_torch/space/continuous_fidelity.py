"""A continuous fidelity: any number of an interval, as a fine grid of levels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, one_of

LEVELS = 101
"""Number of levels of an interval, a hundredth of it apart."""
MANY = 20
"""Number of values above which fidelities count as continuous: strategies that treat each on its own refuse them, and
pictures show stretches of them."""
KEYS = ("lower", "upper", "log", "integer")


def numbers(setting: str, given: Mapping[str, Any]) -> tuple[float | int, ...]:
    """The numbers of an interval, the target last: :data:`LEVELS` between ``lower`` and ``upper``, by a factor with
    ``log``, fewer where they are whole with ``integer``. A ``SettingError`` for another key, a missing bound, or bounds
    that do not increase, are not positive with ``log`` or not whole with ``integer``."""
    for key in given:
        one_of(setting, key, KEYS)
    for key in ("lower", "upper"):
        if key not in given:
            raise SettingError(setting, dict(given), f"given with {key}")
    lower, upper = (number(f"{setting}.{key}", given[key]) for key in ("lower", "upper"))
    log, whole = (one_of(f"{setting}.{key}", given.get(key, False), (True, False)) for key in ("log", "integer"))
    if lower >= upper:
        raise SettingError(f"{setting}.lower", given["lower"], f"below {setting}.upper = {given['upper']}")
    if log and lower <= 0:
        raise SettingError(f"{setting}.lower", given["lower"], "above 0 on a log scale")
    if whole and (lower != round(lower) or upper != round(upper)):
        raise SettingError(setting, dict(given), "whole numbers where integer is true")
    parts = [i / (LEVELS - 1) for i in range(LEVELS)]
    if log:
        inner = [lower * (upper / lower) ** part for part in parts[1:-1]]
    else:
        inner = [lower + (upper - lower) * part for part in parts[1:-1]]
    narrow = max(abs(lower), abs(upper)) / (upper - lower)
    rounded = (float(f"{value:.{6 + max(0, math.floor(math.log10(narrow)))}g}") for value in inner)
    found = [lower, *(value for value in rounded if lower < value < upper), upper]
    return tuple(dict.fromkeys(map(round, found) if whole else found))


def nearest(values: Sequence[Any], value: Any) -> int | None:
    """The place of the number next to one, which may come as text; ``None`` where it is none between the ends."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    if isinstance(value, bool) or not values[0] <= found <= values[-1]:
        return None
    return min(range(len(values)), key=lambda m: abs(values[m] - found))


def stretches(count: int) -> tuple[range, ...]:
    """The fidelities as pictures show them: each on its own, or above :data:`MANY` four stretches and the target."""
    if count <= MANY:
        return tuple(range(m, m + 1) for m in range(count))
    ends = [round(part * (count - 1) / 4) for part in range(5)]
    return (*(range(low, high) for low, high in pairwise(ends)), range(count - 1, count))


def power_costs(values: Sequence[float], lowest: float, highest: float) -> tuple[float, ...]:
    r"""Costs from ``lowest`` to ``highest`` as a power of the number, :math:`\lambda(z) = \lambda_0 (z / z_0)^a`,
    :math:`a = \log(\lambda_1 / \lambda_0) / \log(z_1 / z_0)`; linear in ``z`` where :math:`z_0 \le 0`."""
    first, last = values[0], values[-1]
    if first <= 0:
        inner = [lowest + (highest - lowest) * (z - first) / (last - first) for z in values[1:-1]]
    else:
        power = math.log(highest / lowest) / math.log(last / first)
        inner = [lowest * (z / first) ** power for z in values[1:-1]]
    return (lowest, *inner, highest)
