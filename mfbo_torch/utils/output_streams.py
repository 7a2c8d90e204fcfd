"""Standard output and error of a process that goes on when nobody reads them any more."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TextIO


class Enduring:
    """A text stream that falls silent where the one behind it breaks.

    Args:
        stream: What is written to, until that fails; nothing is where it is ``None``.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._attempt("write", text)
        return len(text)

    def flush(self) -> None:
        self._attempt("flush")

    def __getattr__(self, name: str) -> Any:
        if self._stream is None and name == "isatty":
            return lambda: False
        return getattr(self._stream, name)

    def _attempt(self, method: str, *args: str) -> None:
        if self._stream is None:
            return
        try:
            getattr(self._stream, method)(*args)
        except (OSError, ValueError):  # a pipe nobody reads, a disk that is full, a stream that was closed
            with suppress(OSError, ValueError):  # what is buffered goes nowhere, at the end of the process too
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)


def endure() -> None:
    """Let this process write on whatever becomes of its output, in any encoding."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, Enduring):
            continue
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, Enduring(stream))
