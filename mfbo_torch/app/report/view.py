"""What every picture of the page starts from: the records by fidelity, in the problem's own sign, and how they look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from mfbo_torch.app.summary import Summary
from mfbo_torch.history import Record, Status
from mfbo_torch.space.parameter import Parameter, format_value
from mfbo_torch.utils.standardize import extent, outliers

INK, QUIET, PAGE, LINE = "--ink", "--quiet", "--page", "--line"
"""Colours of the page's two themes, by the names of their CSS variables."""

LEGEND = {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"}
"""Above the axes, in a row."""

HOVER = {"bgcolor": "--raised", "bordercolor": "--edge", "font": {"color": INK}, "align": "left", "namelength": 60}
"""The text under the pointer."""

MOST_NAMED = 6
"""Parameters named where the pointer rests on a query."""


class ReportView:
    """A run as the pictures need it: fidelities, in stretches where there are more than twenty, and their records."""

    def __init__(self, run: Summary) -> None:
        problem, history = run.problem, run.history
        space = problem.space
        self.run, self.problem, self.history, self.space = run, problem, history, space
        self.names = [plain(space.stretch_name(part)) for part in space.stretches]
        self.place = {m: i for i, part in enumerate(space.stretches) for m in part}
        self.tops = [part[-1] for part in space.stretches]
        self.target = len(self.names) - 1
        self.spent = list(accumulate(r.cost for r in history))
        self.unit = " (s)" if space.measured else ""
        self.done, self.failed = history.done, history.select(Status.FAILED)

    def at(self, m: int, records: Sequence[Record]) -> list[Record]:
        """The records of one stretch of fidelities."""
        return [r for r in records if self.place[r.query.fidelity] == m]

    def value(self, record: Record) -> float:
        """The value of a record that is done, in the problem's own sign."""
        value = self.problem.value_of(record)
        assert value is not None
        return value

    def extent(self, records: Sequence[Record], also: Sequence[float] = ()) -> tuple[float, float] | None:
        """The ends of an axis for the values of some records, and for some more; ``None``, plotly's own, where no value
        is off the scale of the others."""
        values = [self.value(r) for r in records]
        return extent(values, also) if outliers(values).any() else None

    def color(self, m: int, soft: bool = False) -> str:
        """The colour of a stretch of fidelities."""
        return f"--f{m}-soft" if soft else f"--f{m}"

    def dots(self, records: Sequence[Record], x: Sequence[float], **look: Any) -> dict[str, Any]:
        """A dot for each record at its value, 0 where it has none, with its text under the pointer."""
        y = [self.value(r) if r.value is not None else 0.0 for r in records]
        text = [self.about(r) for r in records]
        return scatter("markers", x, y, hoverinfo="text", text=text, **look)

    def about(self, record: Record) -> str:
        """What a picture says of a query under the pointer."""
        named = self.space.named(record.query.x)
        words = [f"{plain(short(name))} {plain(short(format_value(value)))}" for name, value in named.items()]
        outcome = f"value {self.value(record):.6g}" if record.value is not None else record.reason or str(record.status)
        more = ["…"] if len(words) > MOST_NAMED else []
        head = f"query {record.id}, {self.names[self.place[record.query.fidelity]]}"
        return "<br>".join([head, plain(short(outcome, 80)), *words[:MOST_NAMED], *more])


def plain(text: str) -> str:
    """Text for plotly, which reads a few tags and entities in what it is given."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def short(text: str, most: int = 24) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def labels(parameter: Parameter) -> dict[str, Any]:
    """The ticks of a parameter with choices."""
    names = [plain(short(format_value(label), 12)) for label in parameter.choices or ()]
    return {"tickvals": list(range(len(names))), "ticktext": names}


def thinned(records: list[Record], key: Callable[[Record], float], most: int) -> list[Record]:
    """At most about ``most`` records in their order: those with the lowest and the highest key of each stretch."""
    if len(records) <= most:
        return records
    stretches = most // 2
    ends = [k * len(records) // stretches for k in range(stretches + 1)]
    parts = [records[start:end] for start, end in pairwise(ends)]
    kept = {r.id: r for part in parts for r in (min(part, key=key), max(part, key=key))}
    return sorted(kept.values(), key=lambda r: r.id)


def scatter(mode: str, x: Sequence[float], y: Sequence[float], **look: Any) -> dict[str, Any]:
    """Dots or lines through points."""
    return {"type": "scatter", "mode": mode, "x": list(x), "y": list(y), **look}


def axis(title: str = "", **extra: Any) -> dict[str, Any]:
    """An axis in the page's colours."""
    look = {"gridcolor": LINE, "linecolor": "--edge", "tickcolor": "--edge", "zeroline": False, "automargin": True}
    return {"title": {"text": plain(title), "standoff": 8, "font": {"color": QUIET, "size": 13}}, **look, **extra}


def figure(data: list[dict[str, Any]], title: str = "", **layout: Any) -> dict[str, Any]:
    """A picture with the look of all of them."""
    heading = {"title": {"text": title, "x": 0, "xref": "paper", "font": {"size": 14}}} if title else {}
    base = {
        "paper_bgcolor": PAGE,
        "plot_bgcolor": PAGE,
        "font": {"color": INK, "size": 13},
        "margin": {"l": 56, "r": 12, "t": 44 if title else 12, "b": 48},
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": HOVER,
        "legend": LEGEND,
        "uirevision": "kept",
    }
    return {"data": data, "layout": {**base, **heading, **layout}}
