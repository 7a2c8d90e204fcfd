"""Learning curves: the best trainings coloured, with the band of their forecast, the others grey."""

from __future__ import annotations

from typing import Any

from mfbo_torch.app.report.view import ReportView, axis, figure, scatter
from mfbo_torch.loop.curve_plots import BEST, drawn_curves
from mfbo_torch.loop.plots import CURVES

MOST_CURVES = 150
"""Curves that are drawn, the best ones."""


def curves(view: ReportView) -> tuple[list[dict[str, Any]], str]:
    """The curves of a run's trainings; nothing where an evaluation has no steps."""
    space = view.space
    if not (space.continues or any(r.curve for r in view.history)):
        return [], ""
    found = drawn_curves(view.history, view.problem, view.run.strategy)
    drawn, data = found[:MOST_CURVES], []
    grey_x: list[float | None] = []
    grey_y: list[float | None] = []
    for one in reversed(drawn[BEST:]):
        grey_x += [*one.curve.steps, None]
        grey_y += [*one.curve.values, None]
    line: dict[str, Any] = {"color": "--faint", "width": 1}
    data.append({**scatter("lines", [], [], line=line, name="others", hoverinfo="skip"), "x": grey_x, "y": grey_y})
    for one in reversed(drawn[:BEST]):
        color, name = CURVES[one.rank % len(CURVES)], f"training {one.curve.id}"
        band, group = one.band, {"legendgroup": name}
        if band is not None:
            x, y = [*band.steps, *reversed(band.steps)], [*band.high, *reversed(band.low)]
            fill = {"fill": "toself", "fillcolor": f"{color}24", "line": {"width": 0}, "showlegend": False}
            data.append(scatter("lines", x, y, hoverinfo="skip", **fill, **group))
            dashed = {"color": color, "width": 1.5, "dash": "dash"}
            data.append(scatter("lines", band.steps, band.mean, line=dashed, showlegend=False, name=name, **group))
        marks = {"line": {"color": color, "width": 2}, "marker": {"size": 4, "color": color}}
        data.append(scatter("lines+markers", one.curve.steps, one.curve.values, name=name, **marks, **group))
    shown = [y for one in drawn for y in one.curve.values]
    scale = {"type": "log"} if shown and min(shown) > 0 and max(shown) > 50 * min(shown) else {}
    named = space.fidelities.name if space.fidelities is not None else "step"
    layout: dict[str, Any] = {"showlegend": True, "margin": {"l": 56, "r": 12, "t": 40, "b": 48}}
    note = (
        f"The best {BEST} are coloured, the others grey. Dashed, with a band of one standard deviation: the forecast."
    )
    if len(found) > len(drawn):
        note += f" The best {len(drawn):,} of {len(found):,} are drawn."
    return [figure(data, **layout, xaxis=axis(named, rangemode="tozero"), yaxis=axis("value", **scale))], note
