"""How results look: tables of plain text, with colours where a person reads them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Literal, TextIO

Style = Literal["bold", "faint", "green", "red"]
_CODES = {"bold": "1", "faint": "2", "green": "32", "red": "31"}


def styled(text: str, style: Style, stream: TextIO | None = None) -> str:
    """Text in a style on a terminal; plain in a file, in a pipe, and with ``NO_COLOR`` or ``TERM=dumb``."""
    stream = sys.stdout if stream is None else stream
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return text if plain or not text else f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def pairs(rows: Sequence[tuple[str, str]], width: int = 13) -> str:
    """Names and what they are, one a line."""
    width = max(width, *(len(name) for name, _ in rows))
    return "\n".join(f"{styled(f'{name:<{width}}', 'bold')} {value}" for name, value in rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Columns under their names, as wide as what is in them."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        return (indent + "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))).rstrip()

    return "\n".join([styled(line(head), "bold"), *map(line, rows)])
