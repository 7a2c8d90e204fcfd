"""What comes of an evaluation: a value, the noise in it, and the outcomes measured beside it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import OBSERVATION, SEVERAL, number, observation

if TYPE_CHECKING:
    from mfbo_torch.space.outcome_constraints import Limit


LARGEST = 1e75
"""Largest size of a value: a sum of 1e5 fourth powers of such values is finite in double precision."""


def unusable(value: float) -> str | None:
    """Why a value is a failure: it is not finite, or larger in size than :data:`LARGEST`; ``None`` where it is not."""
    if not math.isfinite(value):
        return f"the value is not finite: {value}"
    if abs(value) > LARGEST:
        wanted = f"(at most {LARGEST:g} in size): rescale it or return its logarithm"
        return f"the value {value:g} is out of range {wanted}"
    return None


class Outcome(NamedTuple):
    """What was measured of an outcome.

    Args:
        value: The number, in its own unit.
        standard_error: The standard deviation of the noise in it; ``None`` where it is not known.
        met: Whether it keeps its limit.
    """

    value: float
    standard_error: float | None = None
    met: bool = True


@dataclass(frozen=True)
class Observation:
    """A value with the outcomes that were measured with it.

    Args:
        value: The objective's value.
        standard_error: The standard deviation of the noise in it; ``None`` where it is not known.
        outcomes: The others by name: numbers, or pairs of a number and its standard error.
    """

    value: Any
    standard_error: float | None = None
    outcomes: Mapping[str, Any] = field(default_factory=dict)


Observed = float | tuple[float, float] | Observation
"""What comes of an evaluation: a value, a value and its standard error, or these with further outcomes."""


def returned(given: Any, key: str, setting: str = "objective's value") -> Any:
    """What an objective has returned, a mapping as an :class:`Observation`.

    Args:
        given: A number, a pair of it and its standard error, an observation, or a mapping of names to such.
        key: That of the value to be optimised.
        setting: What the user calls it.

    Raises:
        SettingError: The mapping lacks the key, or there are several numbers without names.
    """
    if isinstance(given, list) or (isinstance(given, tuple) and len(given) > 2):
        raise SettingError(setting, given, f"{OBSERVATION}; {SEVERAL}")
    if not isinstance(given, Mapping):
        return given
    if key not in given:
        wanted = f"a mapping with {key!r}, the value to be optimised (another key: value = KEY)"
        raise SettingError(setting, dict(given), wanted)
    value, error = observation(f"{setting} {key}", given[key])
    return Observation(value, error, {name: found for name, found in given.items() if name != key})


def outcomes_of(given: Any, limits: Collection[Limit]) -> dict[str, Outcome]:
    """The outcomes of an observation that are limited, by name; none where nothing is.

    Raises:
        SettingError: One is missing, or no finite number.
    """
    measured = given.outcomes if isinstance(given, Observation) else {}
    if missing := [limit.name for limit in limits if limit.name not in measured]:
        names = f"; there are {', '.join(map(str, measured))}" if measured else ""
        raise SettingError("outcomes", missing[0], f"in what the objective returns: {{{missing[0]!r}: ...}}{names}")
    found = {}
    for limit in limits:
        value, error = observation(limit.name, measured[limit.name])
        found[limit.name] = Outcome(number(limit.name, value), error, limit.met(value))
    return found


def judged(measured: Mapping[str, Outcome], limits: Iterable[Limit]) -> dict[str, Outcome]:
    """Outcomes by the limits of now.

    Raises:
        KeyError: One was not measured.
    """
    return {limit.name: measured[limit.name]._replace(met=limit.met(measured[limit.name].value)) for limit in limits}
