"""What a piece of code prints, kept beside being printed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

LONGEST = 1_000_000
"""Largest number of characters that are kept of one output."""
_LOCK = threading.Lock()
_LOCAL = threading.local()


class Output:
    """The beginning and the end of a text that comes in pieces, at most ``limit`` characters of it."""

    def __init__(self, limit: int = LONGEST) -> None:
        self._half = limit // 2
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self._first, self._last, self._lost = "", "", 0

    def add(self, text: str) -> None:
        """One more piece."""
        room = self._half - len(self._first)
        self._first += text[:room]
        self._last += text[room:]
        if (surplus := len(self._last) - self._half) > self._half:  # now and then, not with every piece
            self._last, self._lost = self._last[surplus:], self._lost + surplus

    def __str__(self) -> str:
        surplus = max(len(self._last) - self._half, 0)
        lost = self._lost + surplus
        between = f"\n[{lost:,} characters are left out]\n" if lost else ""
        return f"{self._first}{between}{self._last[surplus:]}"


class _Tee:
    """A stream whose text the output of the present thread gets too."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.users = stream, 0

    def write(self, text: str) -> int:
        note(text)
        found: int = self.stream.write(text)
        return found

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def note(text: str) -> None:
    """Add to what is kept, without printing it."""
    output = getattr(_LOCAL, "output", None)
    if output is not None:
        output.add(text)


def taken() -> str:
    """What this thread has printed in :func:`captured` so far; from here on that begins anew."""
    output = getattr(_LOCAL, "output", None)
    if output is None:
        return ""
    text = str(output)
    output.clear()
    return text


def cut(text: str, limit: int) -> str:
    """The beginning and the end of a text."""
    output = Output(limit)
    output.add(text)
    return str(output)


@contextmanager
def captured() -> Iterator[Output]:
    """What this thread prints on standard output and error in the context."""
    former, _LOCAL.output = getattr(_LOCAL, "output", None), (output := Output())
    streams = [_teed(name) for name in ("stdout", "stderr")]
    try:
        yield output
    finally:
        _LOCAL.output = former
        for name, tee in zip(("stdout", "stderr"), streams, strict=True):
            _release(name, tee)


def _teed(name: str) -> _Tee | None:
    with _LOCK:
        stream = getattr(sys, name)
        if stream is None:
            return None
        tee = stream if isinstance(stream, _Tee) else _Tee(stream)
        tee.users += 1
        setattr(sys, name, tee)
        return tee


def _release(name: str, tee: _Tee | None) -> None:
    with _LOCK, suppress(AttributeError):
        if tee is None:
            return
        tee.users -= 1
        if not tee.users and getattr(sys, name) is tee:
            setattr(sys, name, tee.stream)
