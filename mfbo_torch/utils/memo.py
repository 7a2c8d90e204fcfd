"""The last result of a computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """The last result of a computation, kept while what it came from stays the same.

    Forgetting it costs time and changes no result.
    """

    def __init__(self) -> None:
        self._last: tuple[Any, T] | None = None

    def __call__(self, key: Any, make: Callable[[], T]) -> T:
        """What was made of ``key``, or is made of it now."""
        last = self._last  # of one moment: another thread may ask for something else meanwhile
        if last is None or last[0] != key:
            last = self._last = (key, make())
        return last[1]
