"""The front of several objectives."""

from __future__ import annotations

from typing import Any

from mfbo_torch.app.report.view import INK, ReportView, axis, figure, plain, scatter, short, thinned
from mfbo_torch.loop.front.solutions import solutions

MOST_DRAWN = 500
"""Observations that are drawn beside the front."""


def front(view: ReportView) -> tuple[list[dict[str, Any]], str]:
    """What was observed at the target in the plane of two objectives each, the front as a line; ``([], "")`` of one."""
    objectives = view.space.objectives
    if len(objectives) < 2:
        return [], ""
    found = solutions(view.history, view.problem, view.run.strategy)
    if not found:
        return [], "There is no observation at the target yet."
    at = thinned(view.at(view.target, view.done), lambda r: r.value or 0.0, MOST_DRAWN)
    drawn, first = [], objectives[0].name
    for other in (one.name for one in objectives[1:]):
        values = [[r.outcomes[name].value for r in at] for name in (first, other)]
        dots = {"color": view.color(view.target, soft=True), "size": 6}
        text = [view.about(r) for r in at]
        data = [scatter("markers", values[0], values[1], marker=dots, text=text, hoverinfo="text", name="observed")]
        ordered = sorted(found, key=lambda s: s.values[first])
        errors = [[s.deviations.get(name) or 0.0 for s in ordered] for name in (first, other)]
        bars = [{"type": "data", "array": each, "thickness": 1, "width": 0} for each in errors]
        words = [", ".join([f"query {s.id}", *s.labels]) for s in ordered]
        on = [[s.values[name] for s in ordered] for name in (first, other)]
        mode = "lines+markers" if len(objectives) == 2 else "markers"
        line: dict[str, Any] = {
            "line": {"color": INK, "width": 1, "dash": "dot"},
            "marker": {"color": view.color(view.target), "size": 9},
        }
        more: dict[str, Any] = {
            "error_x": bars[0],
            "error_y": bars[1],
            "text": [plain(word) for word in words],
            "hoverinfo": "x+y+text",
        }
        data.append(scatter(mode, on[0], on[1], name="front", **line, **more))
        data[-1]["textposition"] = "top center"
        drawn.append(figure(data, showlegend=True, xaxis=axis(short(first, 36)), yaxis=axis(short(other, 36))))
    knee = next((s for s in found if "knee" in s.labels), None)
    where = "" if knee is None else f" Query {knee.id} is its knee, the best compromise."
    return drawn, f"No other observation at the target is better in every objective than these {len(found)}.{where}"
