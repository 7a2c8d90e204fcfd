"""The error a wrong setting raises: it names the setting, what was given and what is allowed."""

from __future__ import annotations

from typing import Any


class SettingError(ValueError):
    """A setting has a value that cannot work.

    The message is one line, ``setting = value: must be allowed``, so that the command
    line can print it as it stands.
    """

    def __init__(self, setting: str, value: Any, allowed: str) -> None:
        self.setting, self.value, self.allowed = setting, value, allowed
        super().__init__(f"{setting} = {value!r}: must be {allowed}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.setting, self.value, self.allowed)
