"""What an evaluation measures beside its value, and the limits that it must keep."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mfbo_torch.checks import OBSERVATION, number, observation
from mfbo_torch.errors import SettingError

VALUE = "value"
"""The usual key of the objective's value among the numbers that an evaluation returns."""
SEVERAL = "for several objectives take Ax or BoTorch"
_LIMIT = re.compile(r"\s*(<=|>=)\s*(\S+)\s*")


class Limit(NamedTuple):
    """A bound that an outcome has to keep.

    Args:
        name: That of the outcome.
        bound: The largest value that is allowed, or the smallest one.
        upper: Whether it is the largest.
    """

    name: str
    bound: float
    upper: bool = True

    def met(self, value: float) -> bool:
        """Whether a value keeps the bound."""
        return value <= self.bound if self.upper else value >= self.bound

    def __str__(self) -> str:
        return f"{self.name} {'<=' if self.upper else '>='} {self.bound:g}"


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


def limits_of(given: Any, setting: str = "constraints") -> tuple[Limit, ...]:
    """Limits from ``{"latency": "<= 20"}``, or from what was made of it.

    Raises:
        SettingError: A bound that is not one, or two on one outcome.
    """
    return _checked(given.items() if isinstance(given, Mapping) else [(row[0], row) for row in given], setting)


def _checked(pairs: Iterable[tuple[Any, Any]], setting: str) -> tuple[Limit, ...]:
    found = tuple(_limit(name, bound, setting) for name, bound in pairs)
    if len({limit.name for limit in found}) < len(found):
        raise SettingError(setting, [limit.name for limit in found], "one bound on each outcome")
    return found


def _limit(name: Any, given: Any, setting: str) -> Limit:
    if not isinstance(name, str) or not name or name == VALUE:
        raise SettingError(setting, name, f"the name of an outcome, other than {VALUE!r}")
    if isinstance(given, tuple | list) and len(given) == 3 and isinstance(given[2], bool):
        return Limit(name, number(f"{setting}.{name}", given[1]), given[2])
    matched = _LIMIT.fullmatch(given) if isinstance(given, str) else None
    try:
        bound = math.nan if matched is None else float(matched[2])
    except ValueError:
        bound = math.nan
    if matched is None or not math.isfinite(bound):
        raise SettingError(f"{setting}.{name}", given, f'like "<= 20" or ">= 0.9"; {SEVERAL}')
    return Limit(name, bound, matched[1] == "<=")


def kinds_of(given: Any) -> tuple[tuple[str, ...], tuple[Limit, ...]]:
    """Inequalities of designs, as texts, and limits on outcomes, as mappings, from one setting that has both.

    Raises:
        SettingError: There is something else.
    """
    rows = [given] if isinstance(given, Mapping) else [] if given is None else given
    if not isinstance(rows, tuple | list) or not all(isinstance(row, str | Mapping) for row in rows):
        wanted = """bounds on outcomes, {"latency": "<= 20"}, or a list of inequalities, ["width + 2 depth <= 100"]"""
        raise SettingError("constraints", given, wanted)
    limits = [(name, bound) for row in rows if isinstance(row, Mapping) for name, bound in row.items()]
    return tuple(row for row in rows if isinstance(row, str)), _checked(limits, "constraints")


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
