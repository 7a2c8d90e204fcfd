"""The model over the two parameters that matter most, the others as in the best design."""

from __future__ import annotations

import math
from typing import Any

import torch

from mfbo_torch.app.report.content import predict
from mfbo_torch.app.report.designs import decades
from mfbo_torch.app.report.importance import Importance
from mfbo_torch.app.report.view import INK, PAGE, ReportView, axis, figure, labels, short

STEPS = 33
"""Designs along each side."""


def contours(view: ReportView, important: Importance | str) -> tuple[list[dict[str, Any]], str]:
    """The mean and the deviation at the target over two parameters, or why there is none."""
    space, run, history = view.space, view.run, view.history
    best = next((r for m in reversed(range(space.num_fidelities)) if (r := history.best(m)) is not None), None)
    if best is None or space.dim < 2:
        return [], "There is no observation yet." if best is None else "There is one parameter."
    order = range(space.dim) if isinstance(important, str) else important.total[:, 0].argsort()[::-1].tolist()
    i, j = list(order)[:2]
    shares = torch.linspace(0.0, 1.0, STEPS, dtype=torch.double).unsqueeze(-1).expand(-1, space.dim)
    axes = space.along(shares) if space.mixed else space.from_unit(shares)
    across, up = axes[:, i].unique(), axes[:, j].unique()
    X = torch.tensor(best.query.x, dtype=torch.double).repeat(len(up) * len(across), 1)
    X[:, i], X[:, j] = across.repeat(len(up)), up.repeat_interleave(len(across))
    found = predict(run, history, X)
    if not isinstance(found, tuple):
        return [], found or f"{type(run.strategy).__name__} has no model of the objective."
    known = [m for m in range(space.num_fidelities) if torch.isfinite(found[0][:, m]).all()]
    if not known:
        return [], "The model says nothing of the target yet."
    mean, deviation = (part[:, known[-1]].reshape(len(up), len(across)) for part in found)
    data = {"x": across.tolist(), "y": up.tolist()}
    sides = {"xaxis": _side(view, i), "yaxis": _side(view, j)}
    drawn = []
    pictures = (
        ("Mean", view.problem.signed(1.0) * mean, view.color(view.target)),
        ("Standard deviation", deviation, INK),
    )
    for title, values, color in pictures:
        scale = [[0, PAGE], [1, color]]
        if title == "Mean" and not view.problem.maximize:
            scale = [[0, color], [1, PAGE]]
        z = [[float(f"{value:.5g}") for value in row] for row in values.tolist()]
        look = {"colorscale": scale, "contours": {"coloring": "heatmap"}, "ncontours": 12, "line": {"width": 0.5}}
        bar = {"thickness": 10, "outlinewidth": 0, "tickfont": {"color": INK}}
        plane = {"type": "contour", **data, "z": z, **look, "colorbar": bar, "hoverinfo": "x+y+z", "name": ""}
        at = view.at(view.target, view.done)[-200:]
        dots = {"color": INK, "size": 4, "opacity": 0.6}
        seen = view.dots(at, [r.query.x[i] for r in at], marker=dots)
        seen["y"] = [r.query.x[j] for r in at]
        ring = {"color": "rgba(0,0,0,0)", "size": 11, "line": {"color": INK, "width": 2}}
        here = {**view.dots([best], [best.query.x[i]], marker=ring), "y": [best.query.x[j]]}
        drawn.append(figure([plane, seen, here], title, **sides))
    name = view.names[view.place[known[-1]]]
    chosen = "" if isinstance(important, str) else ", the two that matter most"
    note = (
        f"The model at {name} over two parameters{chosen}; the others as in query {best.id} (ring). Dots: observations."
    )
    return drawn, note


def _side(view: ReportView, i: int) -> dict[str, Any]:
    parameter = view.space.parameters[i]
    powers = [10.0**k for k in decades(parameter)] if parameter.log else []
    ticks = {"type": "log", "tickvals": powers, "ticktext": [f"{power:.4g}" for power in powers]}
    look = ticks if parameter.log else labels(parameter) if parameter.choices else {"nticks": 5}
    ends = (parameter.lower, parameter.upper)
    if parameter.log:
        ends = (math.log10(parameter.lower), math.log10(parameter.upper))
    ranged = {} if parameter.choices else {"range": list(ends)}
    return axis(short(parameter.name, 36), showgrid=False, **look, **ranged)
