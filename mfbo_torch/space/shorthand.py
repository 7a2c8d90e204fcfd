"""Short forms of parameters: bounds, choices, or settings by name."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

from mfbo_torch.space.parameter import Parameter
from mfbo_torch.utils.errors import SettingError, did_you_mean

KEYS = ("lower", "upper", "log", "integer", "choices", "ordered", "when")
_FLAGS = ("log", "integer", "ordered")


def parameters_of(given: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Parameters by name: ``(lower, upper)`` a number, ``["a", "b", "c"]`` choices, ``{"lower": 1e-5, "upper": 0.1,
    "log": True}`` settings of :class:`~mfbo_torch.Parameter`. Choices that are numbers are ordered."""
    return tuple(parameter_of(name, form) for name, form in given.items())


def parameter_of(name: str, form: Any) -> Parameter:
    """One of :func:`parameters_of`; a ``SettingError`` for another form, and for a list of two numbers, which may be
    bounds or choices."""
    if isinstance(form, Mapping):
        return from_settings(name, form)
    if isinstance(form, tuple) and len(form) == 2 and all(map(_is_number, form)):
        return Parameter(name, *form)
    if isinstance(form, list):
        numbers = all(map(_is_number, form))
        if not (numbers and len(form) == 2):
            return Parameter(name, choices=tuple(form), ordered=numbers and len(form) > 2)
        low, high = form
        raise SettingError(
            name,
            form,
            f"bounds, ({low!r}, {high!r}) or {{'lower': {low!r}, 'upper': {high!r}}}, or {{'choices': {form!r}}}: "
            "a list may mean both",
        )
    raise SettingError(
        name, form, "bounds, as (0.0, 1.0); choices, as ['a', 'b']; or {'lower': 1, 'upper': 9, 'log': True}"
    )


def from_settings(name: str, settings: Any, setting: str = "") -> Parameter:
    """A parameter from ``{lower, upper, log, integer}`` or ``{choices, ordered}``, each with ``when``; ``setting`` is
    what a message calls it, its name if not given."""
    setting = setting or name
    if not isinstance(settings, Mapping):
        raise SettingError(setting, settings, "a mapping with lower and upper, or with choices")
    for key, value in settings.items():
        if key not in KEYS:
            raise SettingError(setting, key, f"one of {', '.join(KEYS)}{did_you_mean(key, KEYS)}")
        if key in _FLAGS and not isinstance(value, bool):
            raise SettingError(f"{setting}.{key}", value, "true or false")
    for key in () if "choices" in settings else ("lower", "upper"):
        if key not in settings:
            raise SettingError(setting, dict(settings), f"given with {key}, or with choices")
    return Parameter(name, **settings)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
