"""The error of a wrong setting, which names the setting, its value and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

LONGEST = 300
"""Most characters of a value that a message shows; of a longer one it shows both ends."""


class SettingError(ValueError):
    """A setting has a value that cannot work; the message is one line, ``setting = value: must be allowed``."""

    def __init__(self, setting: str, value: Any, allowed: str) -> None:
        self.setting, self.value, self.allowed = setting, value, allowed
        super().__init__(f"{setting} = {_shown(value)}: must be {allowed}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.setting, self.value, self.allowed)


def _shown(value: Any) -> str:
    try:
        shown = " ".join(map(str.strip, repr(value).splitlines()))
    except Exception:  # the value's own code, or an int of more digits than Python writes
        return f"{type(value).__name__} that cannot be shown"
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 60]} ... {shown[-40:]}"


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """``"; did you mean NAME?"`` for the end of a message, where a known name is close to the one given."""
    by_letters = {name.lower(): name for name in known}
    close = get_close_matches(str(given).lower(), by_letters, 1)
    return f"; did you mean {by_letters[close[0]]}?" if close else ""


class EvaluationError(RuntimeError):
    """An evaluation that failed and can say why better than a traceback does: the reason in one line, and more lines as
    ``details``, such as the end of what a program has complained of."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.details)
