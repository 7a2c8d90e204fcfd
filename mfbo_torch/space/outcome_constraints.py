"""Limits that outcomes of an evaluation must keep."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import SEVERAL, STANDARD_ERROR, VALUE, name_of, number

UNLIMITED = math.inf
"""The bound of an outcome that has none, as an objective."""
_LIMIT = re.compile(r"\s*(<=|>=)\s*(\S+)\s*")


class Limit(NamedTuple):
    """A bound that the outcome ``name`` has to keep: its largest value or, unless ``upper``, its smallest."""

    name: str
    bound: float
    upper: bool = True

    def met(self, value: float) -> bool:
        """Whether a value keeps the bound."""
        return value <= self.bound if self.upper else value >= self.bound

    def __str__(self) -> str:
        return f"{self.name} {'<=' if self.upper else '>='} {self.bound:g}"


def limits_of(given: Any, setting: str = "constraints") -> tuple[Limit, ...]:
    """Limits from ``{"latency": "<= 20"}``, or from what was made of it; a ``SettingError`` for a bound that is none,
    or two on one outcome."""
    if not isinstance(given, Mapping) and not (
        isinstance(given, Iterable) and all(isinstance(row, tuple | list) and len(row) == 3 for row in given)
    ):
        raise SettingError(setting, given, 'a mapping of outcomes to bounds, as in {"latency": "<= 20"}')
    return _checked(given.items() if isinstance(given, Mapping) else [(row[0], row) for row in given], setting)


def _checked(pairs: Iterable[tuple[Any, Any]], setting: str) -> tuple[Limit, ...]:
    found = tuple(_limit(name, bound, setting) for name, bound in pairs)
    if len({limit.name for limit in found}) < len(found):
        raise SettingError(setting, [limit.name for limit in found], "one bound on each outcome")
    return found


def _limit(name: Any, given: Any, setting: str) -> Limit:
    if not isinstance(name, str) or not name or name in (VALUE, STANDARD_ERROR):
        raise SettingError(setting, name, f"the name of an outcome, other than {VALUE!r} and {STANDARD_ERROR!r}")
    name_of(setting, name)
    if isinstance(given, tuple | list) and len(given) == 3 and isinstance(given[2], bool):
        return Limit(name, number(f"{setting}.{name}", given[1]), given[2])
    matched = _LIMIT.fullmatch(given) if isinstance(given, str) else None
    with suppress(ValueError):
        if matched and math.isfinite(bound := float(matched[2])):
            return Limit(name, bound, matched[1] == "<=")
    raise SettingError(f"{setting}.{name}", given, 'like "<= 20" or ">= 0.9"' + f"; {SEVERAL}" * isinstance(given, str))


def kinds_of(given: Any) -> tuple[tuple[str, ...], tuple[Limit, ...]]:
    """Inequalities of designs, as texts, and limits on outcomes, as mappings, from one setting that has both; a
    ``SettingError`` for anything else."""
    rows = [given] if isinstance(given, Mapping) else [] if given is None else given
    if not isinstance(rows, tuple | list) or not all(isinstance(row, str | Mapping) for row in rows):
        wanted = """bounds on outcomes, {"latency": "<= 20"}, or a list of inequalities, ["width + 2 depth <= 100"]"""
        raise SettingError("constraints", given, wanted)
    limits = [(name, bound) for row in rows if isinstance(row, Mapping) for name, bound in row.items()]
    return tuple(row for row in rows if isinstance(row, str)), _checked(limits, "constraints")
