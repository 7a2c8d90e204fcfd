"""The pictures of what was asked and what came of it, as plotly reads them.

Each function gives the pictures of one section, mappings with ``"data"`` and ``"layout"``. A colour that begins with
``--`` is one of the page's, which differ by theme.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from mfbo_torch.app.report.view import INK, PAGE, QUIET, View, axis, figure, thinned
from mfbo_torch.history import Record

MOST_DRAWN, MOST_CROSSES = 800, 300
"""Dots and crosses drawn of each fidelity."""

Figures = list[dict[str, Any]]


def progress(view: View) -> tuple[Figures, str]:
    """Every value against the capital spent by then and the best one at the target, with a note."""
    records, notes, best = [], [], view.problem.optimum
    for m in range(len(view.names)):
        done = thinned(view.at(m, view.done), view.value, MOST_DRAWN)
        crosses = thinned(view.at(m, view.failed), lambda r: r.id, MOST_CROSSES)
        records.append((done, crosses))
    drawn, all_of = sum(len(d) + len(c) for d, c in records), len(view.done) + len(view.failed)
    if best is not None:
        notes.append("Dotted: the optimum.")
    if view.failed:
        notes.append("Crosses: queries that failed.")
    if drawn < all_of:
        notes.append(f"{drawn:,} of {all_of:,} are drawn: of each stretch the lowest and the highest.")
    scale = view.extent(view.done, [] if best is None else [best])
    if scale is not None:
        count = sum(not scale[0] <= view.value(r) <= scale[1] for r in view.done)
        notes.append(f"{count:,} of the values are off the scale: a double click shows them.")
    data = [_best_so_far(view)]
    for m, (done, crosses) in enumerate(records):
        top, color = m == view.target, view.color(m)
        look = {
            "color": color,
            "size": 9 if top else 6,
            "opacity": 1 if top else 0.75,
            "line": {"color": PAGE, "width": 1 if top else 0.5},
        }
        common = {"type": "scatter", "mode": "markers", "hoverinfo": "text", "legendgroup": str(m)}
        place: dict[str, Any] = {"x": [view.spent[r.id] for r in done], "y": [view.value(r) for r in done]}
        text = [view.about(r) for r in done]
        data.append({**common, **place, "text": text, "name": view.names[m], "marker": look})
        if crosses:
            place = {"x": [view.spent[r.id] for r in crosses], "y": [0] * len(crosses), "yaxis": "y2"}
            mark = {"color": color, "size": 8, "symbol": "x-thin", "line": {"color": color, "width": 1.5}}
            text = [view.about(r) for r in crosses]
            data.append(
                {**common, **place, "text": text, "marker": mark, "cliponaxis": False, "showlegend": False, "name": ""}
            )
    shapes = []
    if best is not None:
        line = {"color": QUIET, "width": 1, "dash": "dot"}
        shapes.append({"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": best, "y1": best, "line": line})
    end = view.spent[-1] if view.spent else 1
    along: dict[str, Any] = {"range": [0, 1.02 * end], "anchor": "y2" if view.failed else "y", "showgrid": False}
    layout: dict[str, Any] = {
        "shapes": shapes,
        "showlegend": len(view.names) > 1,
        "margin": {"l": 56, "r": 12, "t": 40, "b": 48},
        "xaxis": axis(f"capital spent{view.unit}", **along),
        "yaxis": axis("value", domain=[0.07 if view.failed else 0, 1], **({"range": scale} if scale else {})),
        "yaxis2": {"domain": [0, 0.05], "range": [-1, 1], "visible": False, "fixedrange": True},
    }
    return [figure(data, **layout)], " ".join(notes)


def _best_so_far(view: View) -> dict[str, Any]:
    """The best value at the target as a line of steps."""
    x: list[float] = []
    y: list[float] = []
    for record in view.at(view.target, [r for r in view.done if r.feasible]):
        value = view.value(record)
        if not y or (value > y[-1] if view.problem.maximize else value < y[-1]):
            x.append(view.spent[record.id])
            y.append(value)
    if x:
        x.append(view.spent[-1])
        y.append(y[-1])
    line = {"shape": "hv", "color": INK, "width": 2}
    return {"type": "scatter", "mode": "lines", "name": "best", "x": x, "y": y, "line": line, "hoverinfo": "y"}


def fidelities(view: View, explained: list[float] | None) -> Figures:
    """How often each fidelity was asked, what it took, what an evaluation costs and what it explains."""
    every, colors = list(range(len(view.names))), [view.color(m) for m in range(len(view.names))]
    asked = [view.at(m, view.history.records) for m in every]
    broken = [len(view.at(m, view.failed)) for m in every]
    pattern = {"shape": "/", "fgcolor": colors, "bgcolor": PAGE, "size": 6, "solidity": 0.3}
    hatched = {"color": colors, "pattern": pattern, "line": {"color": colors, "width": 1}}
    whole = [len(part) - bad for part, bad in zip(asked, broken, strict=True)]
    totals = [f"{len(part):,}" for part in asked]
    first = _bars(view, whole, ["" if bad else n for bad, n in zip(broken, totals, strict=True)])
    second = _bars(view, broken, [n if bad else "" for bad, n in zip(broken, totals, strict=True)], marker=hatched)
    spent = [sum(r.cost for r in part) for part in asked]
    shares = [f"{cost:.4g} ({cost / (sum(spent) or 1):.0%})" for cost in spent]
    found = [
        _across(view, "Queries", [first, second]),
        _across(view, f"Capital spent{view.unit}", [_bars(view, spent, shares)]),
    ]
    if explained is not None and len(every) > 1:
        told = [explained[m] for m in view.tops]
        bars = _bars(view, told, [f"{share:.0%}" for share in told])
        found.append(_across(view, "Share of the target's variance that it explains", [bars], range=[0, 1.15]))
    costs = [[r.cost - r.sunk for r in view.at(m, view.done)] for m in every]
    if any(len({*some}) > 1 for some in costs):
        boxes = [_box(view, m, some) for m, some in enumerate(costs)]
        positive = [c for part in costs for c in part if c > 0]
        scale = {"type": "log", "dtick": 1} if max(positive) > 50 * min(positive) else {}
        found.append(_across(view, f"Cost of an evaluation{view.unit}", boxes, **scale))
    else:
        each = [some[0] if some else float(view.space.costs[top]) for some, top in zip(costs, view.tops, strict=True)]
        bars = _bars(view, each, [f"{cost:.4g}" for cost in each])
        found.append(_across(view, f"Cost of an evaluation{view.unit}", [bars]))
    return found


def _bars(view: View, x: list[Any], text: list[str], **extra: Any) -> dict[str, Any]:
    look = {"marker": {"color": [view.color(m) for m in range(len(x))]}, "width": 0.62, **extra}
    show = {"text": text, "textposition": "outside", "cliponaxis": False, "hoverinfo": "none", "textangle": 0}
    return {"type": "bar", "orientation": "h", "y": view.names, "x": x, **show, **look}


def _box(view: View, m: int, costs: list[float]) -> dict[str, Any]:
    """What evaluations of one fidelity have cost: quartiles, and each one that lies outside."""
    look = {"marker": {"color": view.color(m), "size": 4}, "line": {"width": 1.5}, "name": view.names[m]}
    return {"type": "box", "orientation": "h", "x": costs, "y": [view.names[m]] * len(costs), **look, "hoverinfo": "x"}


def _across(view: View, title: str, data: Figures, **x: Any) -> dict[str, Any]:
    """Bars or boxes with a fidelity a row."""
    rows = axis(fixedrange=True, showgrid=False, ticks="", ticklabelstandoff=6, type="category")
    rows |= {"categoryorder": "array", "categoryarray": view.names}
    layout = {"barmode": "stack", "margin": {"l": 8, "r": 96, "t": 44, "b": 36}, "height": 110 + 36 * len(view.names)}
    columns = {"rangemode": "tozero", "nticks": 5, "fixedrange": True, **x}
    return figure(data, title, **layout, xaxis=axis(**columns), yaxis=rows)


def times(view: View) -> Figures:
    """Seconds that each decision and each evaluation took."""
    found = []
    for title, seconds in (
        ("Deciding (s)", [(r, r.decision_seconds) for r in view.history if r.decided]),
        ("Evaluating (s)", [(r, r.evaluation_seconds) for r in view.done if not r.given]),
    ):
        data = []
        known = [(r, took) for r, took in seconds if took > 0]
        for m in range(len(view.names)):
            part = [(r, took) for r, took in known if view.place[r.query.fidelity] == m]
            longest = dict(part_of(part, MOST_DRAWN))
            mark = {"color": view.color(m), "size": 5, "opacity": 0.8}
            place = {"x": [*longest], "y": [*longest.values()], "marker": mark, "name": view.names[m]}
            data.append({"type": "scatter", "mode": "markers", "hoverinfo": "x+y+name", **place})
        every = [took for _, took in known]
        scale = {"type": "log", "dtick": 1} if every and max(every) > 100 * min(every) else {"rangemode": "tozero"}
        xaxis, yaxis = axis("query", showgrid=False), axis("seconds", **scale)
        found.append(figure(data, title, xaxis=xaxis, yaxis=yaxis))
    return found


def part_of(seconds: list[tuple[Record, float]], most: int) -> list[tuple[int, float]]:
    """The ids and seconds of at most so many records: of each stretch the one that took longest."""
    if len(seconds) <= most:
        return [(r.id, took) for r, took in seconds]
    ends = [k * len(seconds) // most for k in range(most + 1)]
    longest = [max(seconds[start:end], key=lambda pair: pair[1]) for start, end in pairwise(ends)]
    return [(r.id, took) for r, took in longest]
