"""The result of an evaluation: a value, its standard error and the outcomes measured beside it. What users hand in is
parsed once: by :func:`parse_returned` where an objective returns, by :func:`parse` where a value is told, by
:func:`parse_finite` where values come from elsewhere. Behind these doors every :class:`Observation` is taken as it
is."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Complex, Real
from typing import TYPE_CHECKING, Any, NamedTuple

from mfbo_torch.utils.errors import SettingError, did_you_mean
from mfbo_torch.utils.validation import SEVERAL, STANDARD_ERROR, VALUE, number, single

if TYPE_CHECKING:
    from mfbo_torch.space.objectives import Objective
    from mfbo_torch.space.outcome_constraints import Limit

FORMS = "a number, or a pair (value, standard error)"
"""What an observation may be, in messages."""
RETURNED = """a number, or {"value": ..., "standard_error": ...} where its noise is known"""
"""What an objective may return, in messages."""
MISNAMED = ("stderr", "std_err", "std_error", "standarderror", "standard error", "sem")
"""What other libraries call a standard error; an outcome of such a name would be a mistake that nobody sees."""
LARGEST = 1e75
"""Largest size of a value: a sum of 1e5 fourth powers of such values is finite in double precision."""


def unusable(value: float) -> str | None:
    """Why models cannot use a value, which makes its evaluation a failure; ``None`` where they can."""
    if not math.isfinite(value):
        return f"the value is not finite: {abs(value)}"
    if (size := abs(value)) > LARGEST:
        return f"the value {size:g} is out of range (at most {LARGEST:g} in size): rescale it or return its logarithm"
    return None


def within_reach(value: float) -> float:
    """The nearest value that models can use to a finite one."""
    return max(-LARGEST, min(value, LARGEST))


class Outcome(NamedTuple):
    """The measurement of an outcome in its own unit, its standard error (``None`` where it is not known), and whether
    it keeps its limit."""

    value: float
    standard_error: float | None = None
    met: bool = True


@dataclass(frozen=True)
class Observation:
    """A value with the outcomes that were measured with it.

    Args:
        value: The objective's value, a number of any kind; kept as a float. Anything else is a ``SettingError``.
        standard_error: The standard deviation of the noise in it, from 0 on; ``None`` where it is not known.
        outcomes: The others by name: numbers, or pairs of a number and its standard error.
    """

    value: float
    standard_error: float | None = None
    outcomes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        value, error = _pair("value", (self.value, self.standard_error))
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "standard_error", error)

    def to_maximize(self, maximize: bool) -> Observation:
        """This observation with the sign that makes larger values better; outcomes keep theirs."""
        return self if maximize else replace(self, value=-self.value)

    @property
    def plain(self) -> Observed:
        """The simplest form with the same content: a number, a pair of it and its standard error, or this."""
        if self.outcomes:
            return self
        return self.value if self.standard_error is None else (self.value, self.standard_error)

    def judged(self, limits: Collection[Limit]) -> Observation:
        """This observation with the outcomes that have limits, each an :class:`Outcome`, and no others; a
        ``SettingError`` where one is missing or no finite number."""
        if missing := [limit.name for limit in limits if limit.name not in self.outcomes]:
            names = f"; there are {', '.join(map(str, self.outcomes))}" if self.outcomes else ""
            raise SettingError("outcomes", missing[0], f"in what the objective returns: {{{missing[0]!r}: ...}}{names}")
        found = {}
        for limit in limits:
            value, error = _pair(limit.name, self.outcomes[limit.name])
            found[limit.name] = Outcome(number(limit.name, value), error, limit.met(value))
        return replace(self, outcomes=found) if found or self.outcomes else self

    def unusable(self, objectives: Iterable[Objective]) -> str | None:
        """Why models cannot use the value, or that of one of several objectives; ``None`` where they can."""
        if (reason := unusable(self.value)) is not None:
            return reason
        for one in objectives:
            if (reason := unusable(_pair(one.name, self.outcomes.get(one.name, 0.0))[0])) is not None:
                return reason.replace("the value", one.name, 1)
        return None

    def __str__(self) -> str:
        error = "" if self.standard_error is None else f" +- {self.standard_error!r}"
        numbers = {name: found.value if isinstance(found, Outcome) else found for name, found in self.outcomes.items()}
        return "".join([f"{self.value!r}{error}", *(f", {name} {value!r}" for name, value in numbers.items())])


Returned = float | Mapping[str, Any] | Observation
"""Forms in which an objective returns an observation: a value; a mapping with ``"value"`` and, where they are known,
its ``"standard_error"`` and the outcomes; or an :class:`Observation`."""
Observed = Returned | tuple[float, float]
"""Forms in which an observation is told: those, or a value and its standard error."""


def parse(
    given: Any, key: str = VALUE, setting: str = "value", forms: str = FORMS, objectives: Sequence[Objective] = ()
) -> Observation:
    """An observation from what a user tells: a number, a pair of it and its standard error, an observation, or a
    mapping of names to such, where ``key`` is that of the value to be optimised, and ``standard_error`` its standard
    error. Anything else is a ``SettingError`` about ``setting``, what the user calls it, that names the ``forms``. Of
    several ``objectives`` :func:`parse_several`."""
    if objectives:
        return parse_several(given, objectives, setting)
    if isinstance(given, Observation):
        return given
    if isinstance(given, list) or (isinstance(given, tuple) and len(given) > 2):
        raise SettingError(setting, given, f"{forms}; {SEVERAL}")
    if not isinstance(given, Mapping):
        return Observation(*_pair(setting, given, forms))
    if key not in given:
        wanted = f"a mapping with {key!r}, the value to be optimised{did_you_mean(key, map(str, given))}; {SEVERAL}"
        raise SettingError(setting, dict(given), wanted)
    if any(str(name).lower() in MISNAMED for name in given if name != key):
        raise SettingError(setting, dict(given), f"a mapping in which the standard error is named {STANDARD_ERROR!r}")
    others = {name: found for name, found in given.items() if name not in (key, STANDARD_ERROR)}
    value, error = _pair(f"{setting} {key}", given[key], forms)
    if given.get(STANDARD_ERROR) is not None and key != STANDARD_ERROR:
        if error is not None:
            raise SettingError(STANDARD_ERROR, given[STANDARD_ERROR], f"given once, and not in {key!r} too")
        error = number(STANDARD_ERROR, given[STANDARD_ERROR], 0)
    return Observation(value, error, others)


def parse_returned(
    given: Any, key: str = VALUE, setting: str = "value", objectives: Sequence[Objective] = ()
) -> Observation:
    """:func:`parse` of what an objective returns. A tuple is a ``SettingError``: it does not say whether its second
    number is a standard error or another objective."""
    if isinstance(given, tuple | list) and not objectives:
        size = f"{type(given).__name__} of {len(given)}"
        raise SettingError(setting, size, f"{RETURNED}: a {type(given).__name__} does not say what it holds; {SEVERAL}")
    return parse(given, key, setting, RETURNED, objectives)


def parse_several(given: Any, objectives: Sequence[Objective], setting: str = "value") -> Observation:
    """An observation of several objectives from a mapping of their names to numbers, or to pairs of a number and its
    standard error: the value is that of the first one, in its own sign, and all are outcomes. Anything else is a
    ``SettingError``, but for an observation, which is taken as it is."""
    if isinstance(given, Observation):
        return given
    names = [one.name for one in objectives]
    if not isinstance(given, Mapping):
        wanted = ", ".join(one.name for one in objectives if one.known is None)
        raise SettingError(setting, given, f"a mapping of {wanted} to numbers")
    if missing := [name for name in names if name not in given]:
        raise SettingError(
            setting,
            dict(given),
            f"a mapping with {missing[0]!r}, one of the objectives{did_you_mean(missing[0], map(str, given))}",
        )
    return Observation(*_pair(f"{setting} {names[0]}", given[names[0]]), dict(given))


def parse_finite(given: Any, limits: Collection[Limit] = (), setting: str = "value") -> Observation:
    """An observation that cannot be made again: :func:`parse` and judge it by limits. A ``SettingError`` also for a
    value that models cannot use, or an outcome that is missing or not finite."""
    found = parse(given, setting=setting)
    if reason := unusable(found.value):
        wanted = f"in range: {reason}" if math.isfinite(found.value) else "a finite number"
        raise SettingError(setting, found.value, wanted)
    return found.judged(limits)


def judged(measured: Mapping[str, Outcome], limits: Iterable[Limit]) -> dict[str, Outcome]:
    """Outcomes of a stored record by the limits of now; a ``KeyError`` where one was not measured."""
    return {limit.name: measured[limit.name]._replace(met=limit.met(measured[limit.name].value)) for limit in limits}


def _pair(setting: str, given: Any, forms: str = FORMS) -> tuple[float, float | None]:
    """A number of any kind, but no text and none with an imaginary part, or a tuple of one and its standard error, as
    both; ``None`` for an error that is not known."""
    value, error = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if type(value) is not float:
        try:
            value = single(value)
            text = isinstance(value, (str, bytes, bytearray, memoryview))  # float("0.5") would read a text
            if text or (isinstance(value, Complex) and not isinstance(value, Real)):  # NumPy drops imaginary parts
                raise TypeError
            value = float(value)
        except (TypeError, ValueError, RuntimeError, OverflowError) as reason:
            raise SettingError(setting, given, forms) from reason
    if error is not None and number("standard_error", error, 0) > LARGEST:
        raise SettingError("standard_error", error, f"at most {LARGEST:g}")
    # SQLite keeps no sign of zero
    return value + 0.0, None if error is None else number("standard_error", error, 0) + 0.0
