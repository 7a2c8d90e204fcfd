"""One input of an objective: a number between bounds, or one of some choices; always there, or under a condition."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

from mfbo_torch.utils.errors import SettingError, did_you_mean
from mfbo_torch.utils.validation import name_of, number, written

Label = float | int | str | bool | None
"""The name of a choice, or the value of a parameter that is a number."""
When = tuple[tuple[str, tuple[Label, ...]], ...]
MOST_WHOLE = 2**53
"""Size up to which each whole number is one in double precision."""
MOST_NAMED = 50
"""Number of choices that a message names."""
LEAST_LOG = 1e-300
"""Smallest number whose logarithm is searched."""


@dataclass(frozen=True)
class Parameter:
    """One input of the objective, in the user's own units.

    ``Parameter(name, lower, upper)`` is a number, ``Parameter(name, choices=[...])`` one of some labels; a boolean is
    ``choices=[True, False]``. A design has the place of a label among the choices, counted from 0, where a number has
    its value; people see labels only.

    Args:
        name: Its name.
        lower: Smallest value.
        upper: Largest value.
        log: Whether to search its logarithm.
        integer: Whether only whole numbers are allowed.
        choices: At least two labels, in place of the bounds: texts, numbers, true, false or null. Without order at most
            1,000 in all parameters of a space.
        ordered: Whether neighbours among the choices are alike, as sizes are and names are not.
        when: ``{other: value}`` or ``{other: [values]}``: it is there only while each of these other parameters, which
            have choices or whole numbers, has one of the values. Kept as pairs.

    Raises:
        SettingError: A name that is blank or has more than one line. ``lower`` is not below ``upper``, a bound or their
            distance is not finite, a whole number is beyond 2^53, or a logarithm is asked for with ``lower <= 0``; less
            than two choices, two that look alike, or bounds beside them.
    """

    name: str
    lower: float = math.nan
    upper: float = math.nan
    log: bool = False
    integer: bool = False
    choices: tuple[Label, ...] = ()
    ordered: bool = False
    when: When = ()

    def __post_init__(self) -> None:
        name_of("name", self.name)
        if not all(type(flag).__name__.startswith("bool") for flag in (self.log, self.integer, self.ordered)):
            flags = {"log": self.log, "integer": self.integer, "ordered": self.ordered}
            raise SettingError(self.name, flags, "given true or false for each of these")
        object.__setattr__(self, "when", self._conditions(self.when))
        given = self.choices
        if given is None or (isinstance(given, tuple | list) and not len(given) and not self._no_bounds):
            object.__setattr__(self, "choices", ())
            self._check_bounds()
        else:
            object.__setattr__(self, "choices", self._labels(given))
            self._check_choices()

    @property
    def _no_bounds(self) -> bool:
        return all(isinstance(bound, float) and math.isnan(bound) for bound in (self.lower, self.upper))

    def _check_bounds(self) -> None:
        for bound in ("lower", "upper"):
            value = getattr(self, bound)
            number(f"{self.name}.{bound}", value)
            object.__setattr__(self, bound, plain(value))
        if self.lower >= self.upper:
            raise SettingError(f"{self.name}.lower", self.lower, f"below {self.name}.upper = {self.upper!r}")
        if self.log and self.lower <= 0:
            raise SettingError(f"{self.name}.lower", self.lower, "above 0 on a log scale")
        if self.integer and (self.lower != round(self.lower) or self.upper != round(self.upper)):
            raise SettingError(f"{self.name}.bounds", (self.lower, self.upper), "whole numbers where integer is true")
        if self.integer and max(-self.lower, self.upper) > MOST_WHOLE:
            wanted = "between -2^53 and 2^53 where integer is true: designs are kept in double precision"
            raise SettingError(f"{self.name}.bounds", (self.lower, self.upper), wanted)
        if self.log and self.lower < LEAST_LOG:
            raise SettingError(f"{self.name}.lower", self.lower, f"at least {LEAST_LOG:g} on a log scale")
        ends = [math.log(bound) if self.log else float(bound) for bound in (self.lower, self.upper)]
        if not 0 < ends[1] - ends[0] < math.inf:
            wanted = "a finite distance apart, and not the same number in double precision"
            raise SettingError(f"{self.name}.bounds", (self.lower, self.upper), wanted)
        if self.ordered:
            raise SettingError(f"{self.name}.ordered", True, "left out: numbers are ordered, it is for choices")

    def _labels(self, given: Any) -> tuple[Label, ...]:
        """The choices, checked."""
        wanted = "a list of at least two of texts, numbers, true, false or null"
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            raise SettingError(f"{self.name}.choices", given, wanted)
        found: list[Label] = []
        seen: dict[Any, Label] = {}
        for label in map(plain, given):
            finite = isinstance(label, int | float) and -math.inf < label < math.inf
            if not (label is None or finite or (isinstance(label, str) and label.strip())):
                raise SettingError(f"{self.name}.choices", label, wanted)
            for key in (label, ("text", text(label))):
                if key in seen:
                    raise SettingError(f"{self.name}.choices", label, f"there once; it is the same as {seen[key]!r}")
            seen[label] = seen["text", text(label)] = label
            found.append(label)
        if len(found) == 1:
            raise SettingError(f"{self.name}.choices", found, "at least two; what never changes is no parameter")
        if not found:
            raise SettingError(f"{self.name}.choices", found, "at least two, or give lower and upper")
        return tuple(found)

    def _check_choices(self) -> None:
        last = len(self.choices) - 1
        kept = (self.lower, self.upper, bool(self.integer)) == (0, last, True)  # as it is stored
        if not (self._no_bounds or kept):
            raise SettingError(f"{self.name}.lower", self.lower, "left out, like upper, where there are choices")
        for flag in ("log",) if kept else ("log", "integer"):
            if getattr(self, flag):
                raise SettingError(f"{self.name}.{flag}", True, "left out where there are choices")
        for name, value in (("lower", 0), ("upper", last), ("integer", True)):
            object.__setattr__(self, name, value)

    def _conditions(self, given: Any) -> When:
        """The conditions as pairs of a name and values."""
        if given is None:
            return ()
        wanted = "a mapping of another parameter to its value, or to a list of values"
        try:
            pairs = list(given.items()) if isinstance(given, Mapping) else [(other, values) for other, values in given]
        except (TypeError, ValueError):
            raise SettingError(f"{self.name}.when", given, wanted) from None
        found = []
        for other, values in pairs:
            several = tuple(map(plain, values if isinstance(values, list | tuple) else [values]))
            if not isinstance(other, str) or not several:
                raise SettingError(f"{self.name}.when", given, wanted)
            found.append((other, several))
        return tuple(found)

    @property
    def extent(self) -> str:
        """The allowed values, in words."""
        if self.choices:
            return f"one of {_listed(list(map(text, self.choices)))}"
        return f"between {self.lower:g} and {self.upper:g}"

    @property
    def columns(self) -> int:
        """Number of columns in the unit cube: one, or one for each of three or more choices without order."""
        return 1 if self.ordered or len(self.choices) < 3 else len(self.choices)

    def encode(self, value: Any, setting: str | None = None) -> float:
        """The number that stands for a label, or for a number between the bounds, in a design. ``setting`` is what the
        user calls it, the parameter's name if not given, in the ``SettingError`` for what is not allowed."""
        setting, value = setting or self.name, plain(value)
        if self.choices:
            return float(self._index(value, setting))
        wanted = self.extent + (", whole" if self.integer else "")
        found = number(setting, value, wanted=wanted)
        if not self.lower <= found <= self.upper or (self.integer and found != round(found)):
            raise SettingError(setting, value, wanted)
        return found

    def _index(self, value: Any, setting: str) -> int:
        for i, label in enumerate(self.choices):  # 16 is 16.0, and True no 1
            if label == value and isinstance(label, bool) == isinstance(value, bool):
                return i
        raise SettingError(setting, value, one_among(value, self.choices))

    def encode_text(self, given: str, setting: str | None = None) -> float:
        """As :meth:`encode`, of a value as it stands in a table."""
        if self.choices:
            same = [i for i, label in enumerate(self.choices) if text(label).lower() == given.strip().lower()]
            exact = [i for i in same if text(self.choices[i]) == given.strip()]
            if len(exact or same) == 1:
                return float((exact or same)[0])
            with suppress(ValueError):
                wanted = written(given)
                same = [i for i, label in enumerate(self.choices) if label == wanted and not isinstance(label, bool)]
            return float(same[0]) if len(same) == 1 else self.encode(given, setting)
        value: float | str = given
        with suppress(ValueError):
            value = written(given)
        return self.encode(value, setting)

    def decode(self, place: float) -> Label:
        """The value that a number of a design stands for."""
        if self.choices:
            return self.choices[round(place)]
        return round(place) if self.integer else float(place)


def one_among(value: Any, options: Sequence[Any]) -> str:
    """The end of a message about a value that is not among some options, with the one that was probably meant."""
    names = [text(option) for option in options]
    return f"one of {_listed(names)}{did_you_mean(text(value), names)}"


def _listed(names: list[str]) -> str:
    """The names, or the first of very many."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def text(label: Any) -> str:
    """A label as it stands in tables and pictures: as YAML has it where it is no text."""
    return json.dumps(label) if label is None or isinstance(label, bool) else str(label)


def plain(value: Any) -> Any:
    """A number of NumPy's, or a fraction, as one of Python's own."""
    if isinstance(value, Fraction):
        return float(value)
    return value.item() if hasattr(value, "item") else value


def format_value(value: Label) -> str:
    """A value with as many digits as people read."""
    numeric = isinstance(value, Real) and not isinstance(value, bool)
    return f"{value:.6g}" if numeric else text(value)
