"""Checks of arguments; each raises a :class:`~mfbo_torch.utils.errors.SettingError` that names the argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from itertools import pairwise, starmap
from numbers import Integral, Real
from typing import Any, TypeVar

from mfbo_torch.utils.errors import SettingError

T = TypeVar("T")
VALUE = "value"
"""The usual key of the objective's value among the numbers that an evaluation returns."""
STANDARD_ERROR = "standard_error"
"""The key of its standard error there."""
SEVERAL = "several objectives are named by objectives, and returned as a mapping"
MOST_SEEDS = 1_000_000
LONGEST = 4000
"""Length of the reason of a failure, in characters, at which it is cut."""


def whole(setting: str, value: Any, least: int = 1, most: int | None = None, *, wanted: str = "") -> int:
    """A whole number from ``least`` on, up to ``most``: an ``int`` or NumPy's, no ``bool``, no ``2.0``, no ``"2"``.
    ``wanted`` is what the message asks for, where that is more than the bounds."""
    if type(value) is int and least <= value and (most is None or value <= most):
        return value  # as nearly always
    if _is_whole(value) and least <= value and (most is None or value <= most):
        return int(value)
    bounds = f"{least} on" if most is None else f"{least} to {most}"
    raise SettingError(setting, value, wanted or f"a whole number from {bounds}")


def written(text: str) -> float:
    """The number that a text is; a ``ValueError`` also for Python's own ways to write one, which are nobody else's."""
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    return float(text)


def check_epochs(setting: str, steps: Iterable[float], last: Any) -> None:
    """A ``SettingError`` for a step that is no epoch of a training, counted from 1, up to the ``last``."""
    for step in steps:
        if step != round(step) or not 1 <= step <= last:
            raise SettingError(setting, step, f"an epoch of the query, 1 to {last}")


def number(
    setting: str,
    value: Any,
    least: float = -math.inf,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    wanted: str = "",
) -> float:
    """A finite number, at least ``least``, above ``above``, below ``below``: a ``float`` or ``int``, NumPy's, or a
    tensor with a single element; no ``bool``, no string. ``wanted`` as in :func:`whole`."""
    if type(value) is float and math.isfinite(value) and value >= least and above < value < below:
        return value  # as nearly always; what follows takes ten times as long
    given = single(value)
    if isinstance(given, Real):
        with suppress(OverflowError):  # an int may be larger than any float
            found = float(given)
            if math.isfinite(found) and found >= least and above < found < below:
                return found
    raise SettingError(setting, value, wanted or _bounds(least, above, below))


def seeds(setting: str, given: int | Iterable[int]) -> list[int]:
    """Whole numbers from 0 on, or how many of them, counted from 0."""
    found = (
        [*given] if isinstance(given, Iterable) else [*range(given)] if _is_whole(given) and given <= MOST_SEEDS else []
    )
    if found and all(_is_whole(seed) and seed >= 0 for seed in found):
        return [int(seed) for seed in found]
    raise SettingError(setting, given, f"whole numbers from 0 on, or how many of them, from 1 to {MOST_SEEDS:,}")


def one_of(setting: str, value: T, options: Collection[T]) -> T:
    """One of a few values, compared by type too, as ``True`` is no 1."""
    if any(value == option and type(value) is type(option) for option in options):
        return value
    raise SettingError(setting, value, " or ".join(map(repr, options)))


def several(
    setting: str,
    values: Any,
    check: Callable[[str, Any], T],
    wanted: str,
    *,
    size: int | None = None,
    order: Callable[[T, T], bool] | None = None,
) -> tuple[T, ...]:
    """At least one value (``size`` of them if given) that ``check``, such as :func:`number`, passes, and each of which
    stands in ``order``, such as :func:`operator.lt`, to the next. Where one is wrong the message shows them all."""
    given = values
    try:
        given = values if isinstance(values, str) else list(values)
        found = tuple(check(setting, value) for value in given)
    except (TypeError, SettingError):
        found = ()
    if not found or size not in (None, len(found)) or (order and not all(starmap(order, pairwise(found)))):
        raise SettingError(setting, given, wanted)
    return found


def name_of(setting: str, given: Any) -> str:
    """A name that fits one line of a table, a journal and a message: a text that is not blank, without NUL and line
    breaks, and that can be written as UTF-8."""
    if isinstance(given, str) and given.strip() and "\0" not in given and given.splitlines() == [given]:
        with suppress(UnicodeEncodeError):
            given.encode()
            return given
    raise SettingError(setting, given, "a name of one line: a text that is not blank, without NUL and line breaks")


def reason(given: Any) -> str:
    """Why something failed, as a text that can be stored and shown: at most :data:`LONGEST` characters of it."""
    found = given if isinstance(given, str) else str(given)
    cut = found if len(found) <= LONGEST else f"{found[: LONGEST - 4]} ..."
    return cut.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def describe(error: BaseException) -> str:
    """An exception in one line, ``ExceptionType: message``."""
    try:
        message = " ".join(str(error)[:LONGEST].split())
    except BaseException as worse:  # what it says is the objective's own code
        message = f"what it says cannot be read, {type(worse).__name__}"
    return reason(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def single(value: Any) -> Any:
    """The only element of an array or a tensor; ``None`` where it is masked, or true or false, which is no number."""
    if getattr(value, "shape", None) is not None and math.prod(value.shape) == 1:
        value = None if getattr(value, "mask", False) else value.item()
    return None if isinstance(value, bool) else value


def are_numbers(row: Any) -> bool:
    """Whether that is a row of finite numbers."""
    try:
        return all(map(math.isfinite, row))
    except TypeError:
        return False


def _is_whole(value: Any) -> bool:
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def _bounds(least: float, above: float, below: float) -> str:
    if below < math.inf:
        lower = least if above == -math.inf else above
        return f"between {lower:g} and {below:g}"
    if above > -math.inf:
        return f"a number above {above:g}"
    return f"a number from {least:g} on" if least > -math.inf else "a finite number"
