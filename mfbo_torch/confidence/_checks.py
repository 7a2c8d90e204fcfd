"""What the arguments of the schedules must be."""

from __future__ import annotations

import math

from mfbo_torch.errors import SettingError


def check_round(t: int, delta: float = 0.5) -> None:
    check_count("t", t)
    if not 0 < delta < 1:
        raise SettingError("delta", delta, "between 0 and 1")


def check_count(name: str, value: int, least: int = 1) -> None:
    if not least <= value < math.inf:
        raise SettingError(name, value, f"a whole number from {least} on")


def check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise SettingError(name, value, "above 0")


def check_from_zero(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise SettingError(name, value, "a number from 0 on")
