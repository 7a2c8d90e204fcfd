"""The pictures of queries and their values: for each section mappings with ``"data"`` and ``"layout"`` for plotly."""

from __future__ import annotations

from typing import Any

from mfbo_torch.app.report.view import INK, PAGE, QUIET, ReportView, axis, figure, scatter, thinned

MOST_DRAWN, MOST_CROSSES = 200, 40
"""Dots and crosses drawn of each fidelity."""

Figures = list[dict[str, Any]]


def progress(view: ReportView) -> tuple[Figures, str]:
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
    data = [best_so_far(view)]
    for m, (done, crosses) in enumerate(records):
        top, color = m == view.target, view.color(m)
        group, line = {"legendgroup": str(m)}, {"color": PAGE, "width": 1 if top else 0.5}
        look = {"color": color, "size": 9 if top else 6, "opacity": 1 if top else 0.75, "line": line}
        data.append(view.dots(done, [view.spent[r.id] for r in done], name=view.names[m], marker=look, **group))
        if crosses:
            mark = {"color": color, "size": 8, "symbol": "x-thin", "line": {"color": color, "width": 1.5}}
            where = {"yaxis": "y2", "cliponaxis": False, "showlegend": False, "name": ""}
            data.append(view.dots(crosses, [view.spent[r.id] for r in crosses], marker=mark, **group, **where))
    shapes = []
    if best is not None:
        line = {"color": QUIET, "width": 1, "dash": "dot"}
        shapes.append({"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": best, "y1": best, "line": line})
    end = view.spent[-1] if view.spent else 1
    along: dict[str, Any] = {"range": [0, 1.02 * end], "anchor": "y2" if view.failed else "y", "showgrid": False}
    layout: dict[str, Any] = {
        "shapes": shapes,
        "showlegend": len(view.names) > 1,
        "margin": {"l": 56, "r": 12, "t": 76, "b": 48},
        "xaxis": axis(f"capital spent{view.unit}", **along),
        "yaxis": axis("value", domain=[0.07 if view.failed else 0, 1], **({"range": scale} if scale else {})),
        "yaxis2": {"domain": [0, 0.05], "range": [-1, 1], "visible": False, "fixedrange": True},
    }
    buttons = [{"label": "linear", "method": "relayout", "args": [{"xaxis.type": "linear", "yaxis.type": "linear"}]}]
    buttons.append(
        {"label": "log capital", "method": "relayout", "args": [{"xaxis.type": "log", "xaxis.autorange": True}]}
    )
    if view.done and min(map(view.value, view.done)) > 0:
        to = {"yaxis.type": "log", "yaxis.autorange": True}
        buttons.append({"label": "log value", "method": "relayout", "args": [to]})
    if view.done:
        layout["updatemenus"] = [menu(buttons)]
    return [figure(data, **layout)], " ".join(notes)


def menu(buttons: Figures) -> dict[str, Any]:
    """Buttons in a row above the legend, in the page's colours."""
    look = {"bgcolor": PAGE, "bordercolor": "--edge", "font": {"color": INK, "size": 12}, "showactive": False}
    place = {"x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "pad": {"b": 30}, "type": "buttons"}
    return {"buttons": buttons, "direction": "right", **look, **place}


def best_so_far(view: ReportView) -> dict[str, Any]:
    """The best value at the target as a line of steps."""
    steps: list[tuple[float, float]] = []
    for record in view.at(view.target, [r for r in view.done if r.feasible]):
        value = view.value(record)
        if not steps or view.problem.signed(value) > view.problem.signed(steps[-1][1]):
            steps.append((view.spent[record.id], value))
    steps += [(view.spent[-1], steps[-1][1])] if steps else []
    line = {"shape": "hv", "color": INK, "width": 2}
    return scatter("lines", [x for x, _ in steps], [y for _, y in steps], name="best", line=line, hoverinfo="y")


def fidelities(view: ReportView) -> Figures:
    """For each fidelity the number of its queries, the capital they took, the cost of one and what it explains."""
    every, colors = list(range(len(view.names))), [view.color(m) for m in range(len(view.names))]
    queried = [view.at(m, view.history.records) for m in every]
    broken = [len(view.at(m, view.failed)) for m in every]
    pattern = {"shape": "/", "fgcolor": colors, "bgcolor": PAGE, "size": 6, "solidity": 0.3}
    hatched = {"color": colors, "pattern": pattern, "line": {"color": colors, "width": 1}}
    whole = [len(part) - bad for part, bad in zip(queried, broken, strict=True)]
    totals = [f"{len(part):,}" for part in queried]
    first = _bars(view, whole, ["" if bad else n for bad, n in zip(broken, totals, strict=True)])
    second = _bars(view, broken, [n if bad else "" for bad, n in zip(broken, totals, strict=True)], marker=hatched)
    spent = [sum(r.cost for r in part) for part in queried]
    shares = [f"{cost:.4g} ({cost / (sum(spent) or 1):.0%})" for cost in spent]
    found = [
        _across(view, "Queries", [first, second]),
        _across(view, f"Capital spent{view.unit}", [_bars(view, spent, shares)]),
    ]
    if view.run.explained is not None and len(every) > 1:
        explained = [view.run.explained[m] for m in view.tops]
        bars = _bars(view, explained, [f"{share:.0%}" for share in explained])
        found.append(_across(view, "Share of the target's variance that it explains", [bars], range=[0, 1.15]))
    costs = [[r.cost - r.sunk for r in view.at(m, view.done)] for m in every]
    if any(len({*some}) > 1 for some in costs):
        boxes = []
        for m, name in enumerate(view.names):
            look = {"marker": {"color": view.color(m), "size": 4}, "line": {"width": 1.5}, "name": name}
            rows = [name] * len(costs[m])
            boxes.append({"type": "box", "orientation": "h", "x": costs[m], "y": rows, **look, "hoverinfo": "x"})
        positive = [c for part in costs for c in part if c > 0]
        scale = {"type": "log", "dtick": 1} if max(positive) > 50 * min(positive) else {}
        found.append(_across(view, f"Cost of an evaluation{view.unit}", boxes, **scale))
    else:
        each = [some[0] if some else float(view.space.costs[top]) for some, top in zip(costs, view.tops, strict=True)]
        bars = _bars(view, each, [f"{cost:.4g}" for cost in each])
        found.append(_across(view, f"Cost of an evaluation{view.unit}", [bars]))
    return found


def _bars(view: ReportView, x: list[Any], text: list[str], **extra: Any) -> dict[str, Any]:
    look = {"marker": {"color": [view.color(m) for m in range(len(x))]}, "width": 0.62, **extra}
    show = {"text": text, "textposition": "outside", "cliponaxis": False, "hoverinfo": "none", "textangle": 0}
    return {"type": "bar", "orientation": "h", "y": view.names, "x": x, **show, **look}


def _across(view: ReportView, title: str, data: Figures, **x: Any) -> dict[str, Any]:
    """Bars or boxes with a fidelity a row."""
    rows = axis(fixedrange=True, showgrid=False, ticks="", ticklabelstandoff=6, type="category")
    rows |= {"categoryorder": "array", "categoryarray": view.names}
    layout = {"barmode": "stack", "margin": {"l": 8, "r": 96, "t": 44, "b": 36}, "height": 110 + 36 * len(view.names)}
    columns = {"rangemode": "tozero", "nticks": 5, "fixedrange": True, **x}
    return figure(data, title, **layout, xaxis=axis(**columns), yaxis=rows)


def times(view: ReportView) -> Figures:
    """Seconds that each decision and each evaluation took."""
    decided = {r.id: r.decision_seconds for r in view.history if r.decided and r.decision_seconds > 0}
    done = {r.id: r.evaluation_seconds for r in view.done if not r.given and r.evaluation_seconds > 0}
    return [_times(view, "Deciding (s)", decided), _times(view, "Evaluating (s)", done)]


def _times(view: ReportView, title: str, took: dict[int, float]) -> dict[str, Any]:
    """A dot for each query, by its number."""
    data = []
    records = [view.history.records[i] for i in took]
    slowest = thinned(records, lambda r: took[r.id], len(view.names) * MOST_DRAWN)
    for m, name in enumerate(view.names):
        drawn = [r.id for r in view.at(m, slowest)]
        mark = {"color": view.color(m), "size": 5, "opacity": 0.8}
        y = [took[number] for number in drawn]
        data.append(scatter("markers", drawn, y, name=name, marker=mark, hoverinfo="x+y+name"))
    ends = min(took.values(), default=0), max(took.values(), default=0)
    scale = {"type": "log", "dtick": 1} if ends[1] > 100 * ends[0] else {"rangemode": "tozero"}
    return figure(data, title, xaxis=axis("query", showgrid=False), yaxis=axis("seconds", **scale))
