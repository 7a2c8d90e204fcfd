"""Small HTML tables, in which notebooks show what is printed elsewhere."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence
from typing import Any

from mfbo_torch.utils.output_streams import printable


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with a caption; every text is escaped, ``None`` is empty and numbers have six digits."""
    names = "".join(f"<th>{_escaped(name)}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{_escaped(text(value))}</td>" for value in row) + "</tr>" for row in rows)
    title = f"<caption style='text-align:left'>{_escaped(caption)}</caption>"
    return f"<table>{title}<thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table>"


def fields(caption: str, things: Sequence[Any]) -> str:
    """A table of dataclasses of one kind, with a column for each field that is not what it is by default in all."""
    known = dataclasses.fields(things[0])
    names = [f.name for f in known if any(getattr(thing, f.name) != f.default for thing in things)]
    return table(caption, names, [[getattr(thing, name) for name in names] for thing in things])


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def text(value: object) -> str:
    """A value as it is read: numbers with six digits, nothing for ``None``."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
