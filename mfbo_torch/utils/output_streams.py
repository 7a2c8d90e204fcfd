"""What people read: without control characters, on standard output and error that may break, and in logs."""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
from contextlib import suppress
from typing import Any, TextIO

# C0, DEL and C1, line separators, what turns the direction of text, and halves of characters.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object, keep: str = "") -> str:
    """A text whose control characters, but for those to ``keep``, are seen and do nothing: a newline as ``\\n``, an
    escape as ``\\x1b``."""

    def seen(found: re.Match[str]) -> str:
        return found[0] if found[0] in keep else found[0].encode("unicode_escape").decode()

    return _CONTROL.sub(seen, str(text))


def logger(name: str) -> logging.Logger:
    """The logger of a module, each of whose messages is :func:`printable`."""
    found = logging.getLogger(name)
    found.addFilter(_print)
    return found


def _print(record: logging.LogRecord) -> bool:
    """Make the message of a record printable, whoever handles it."""
    record.msg, record.args = printable(record.getMessage()), ()
    return True


class TolerantStream:
    """A text stream that drops its text once the stream behind it is broken, or where there is none."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.lost = ""
        """Why text was lost that somebody may still read: a disk is full."""

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
        except (OSError, ValueError) as error:  # a pipe nobody reads, a disk that is full, a stream that was closed
            if isinstance(error, OSError) and error.errno not in (errno.EPIPE, errno.EBADF):
                self.lost = error.strerror or str(error)
            with suppress(OSError, ValueError):  # what is buffered goes nowhere, at the end of the process too
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)


def say(text: str) -> None:
    """Write a line for the user to standard error, if somebody reads it."""
    stream = TolerantStream(sys.stderr)
    stream.write(printable(f"{text}\n", keep="\n"))
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
