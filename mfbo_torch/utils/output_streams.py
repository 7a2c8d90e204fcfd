"""Standard output and error that may break without ending the process."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TextIO


class TolerantStream:
    """A text stream that drops its text once the stream behind it is broken, or where there is none."""

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


def say(text: str) -> None:
    """Write a line for the user to standard error, if somebody reads it."""
    stream = TolerantStream(sys.stderr)
    stream.write(f"{text}\n")
    stream.flush()


def tolerate_broken_output() -> None:
    """Let this process go on when its output is closed, or cannot encode a character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TolerantStream):
            continue
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, TolerantStream(stream))
