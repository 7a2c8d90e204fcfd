"""How results look: tables of plain text, with colours where a person reads them.

All that a command prints goes through :func:`say`, which shows the control characters of names and messages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TextIO

from mfbo_torch.utils.output_streams import printable

Style = Literal["bold", "faint", "green", "red"]
_CODES = {"bold": "1", "faint": "2", "green": "32", "red": "31"}


class Shown(str):
    """A text that is printable already, but for its lines and our own colours."""

    __slots__ = ()


def shown(text: object) -> Shown:
    """A text as it is printed, in one line."""
    return text if isinstance(text, Shown) else Shown(printable(text))


def say(*texts: object, stream: TextIO | None = None) -> None:
    """Print texts side by side."""
    print(*map(shown, texts), file=stream, flush=True)


def warn_of_formulas(path: Path, columns: Sequence[str]) -> None:
    """Say of which columns of a table a spreadsheet would run cells, if any."""
    if columns:
        what = f"a spreadsheet would run cells of {', '.join(columns)} as formulas; there, import {path} as text"
        say(styled("mfbo:", "red", sys.stderr), what, stream=sys.stderr)


def styled(text: str, style: Style, stream: TextIO | None = None) -> Shown:
    """Text in a style on a terminal; plain in a file, in a pipe, and with ``NO_COLOR`` or ``TERM=dumb``."""
    text = shown(text)
    stream = sys.stdout if stream is None else stream
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return text if plain or not text else Shown(f"\x1b[{_CODES[style]}m{text}\x1b[0m")


def pairs(rows: Sequence[tuple[str, str]], width: int = 13) -> Shown:
    """Names and what they are, one a line."""
    found = [(shown(name), shown(value)) for name, value in rows]
    width = max(width, *(len(name) for name, _ in found))
    return Shown("\n".join(f"{styled(f'{name:<{width}}', 'bold')} {value}" for name, value in found))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> Shown:
    """Columns under their names, as wide as what is in them."""
    found = [[shown(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *found, strict=True)]

    def line(cells: Sequence[str]) -> str:
        return (indent + "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))).rstrip()

    return Shown("\n".join([styled(line(head), "bold"), *map(line, found)]))
