"""The strip of the capital: which fidelity each part of it went to, in the order of spending."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from mfbo_torch.app.report.view import ReportView, axis, figure
from mfbo_torch.history import Status

PARTS = 240
"""Most parts of the strip; where queries alternate more often, they are drawn together in as many."""
IN_FLIGHT = -1


class Part(NamedTuple):
    """A part of the strip, in units of the capital: its place, its width, and the share of its height."""

    at: float
    width: float
    share: float


def parts(view: ReportView, total: float) -> dict[int, list[Part]]:
    """The parts of each stretch of fidelities, and of what is in flight; their areas are what was spent there."""
    paid = [r for r in view.history if r.cost > 0]
    places = [IN_FLIGHT if r.status == Status.PENDING else view.place[r.query.fidelity] for r in paid]
    costs, found = [r.cost for r in paid], dict[int, list[Part]]()
    if sum(1 for _ in groupby(places)) <= PARTS:
        for place, start, end in _runs(places, costs):
            found.setdefault(place, []).append(Part((start + end) / 2, end - start, 1.0))
        return found
    ends, at = np.linspace(0.0, total, PARTS + 1), np.cumsum([0.0, *costs])
    width = total / PARTS
    for place in {*places}:
        own = np.cumsum([0.0, *(cost if p == place else 0.0 for cost, p in zip(costs, places, strict=True))])
        shares = np.diff(np.interp(ends, at, own)) / width
        middles = (ends[:-1] + ends[1:]) / 2
        kept = zip(middles.tolist(), shares.tolist(), strict=True)
        found[place] = [Part(middle, width, share) for middle, share in kept if share > 1e-9]
    return found


def _runs(places: list[int], costs: list[float]) -> Iterator[tuple[int, float, float]]:
    end = 0.0
    for place, group in groupby(zip(places, costs, strict=True), key=lambda pair: pair[0]):
        start, end = end, end + sum(cost for _, cost in group)
        yield place, start, end


def strip(view: ReportView) -> tuple[list[dict[str, Any]], str]:
    """A bar whose length is the capital, with a colour for each fidelity; what is in flight is faint."""
    capital, spent = float(view.run.settings["capital"]), view.history.spent
    total = max(capital, spent) or 1.0
    found, data = parts(view, total), []
    groups = [(name, view.color(m), m) for m, name in enumerate(view.names)] + [("in flight", "--faint", IN_FLIGHT)]
    for name, color, place in groups:
        own = found.get(place, [Part(0.0, 0.0, 0.0)] if place == view.target else [])  # plotly wants one bar
        if own:
            at, width, share = (list(each) for each in zip(*own, strict=True))
            look = {"marker": {"color": color, "line": {"width": 0}}, "name": name, "hoverinfo": "name"}
            data.append({"type": "bar", "x": at, "width": width, "y": share, **look})
    layout: dict[str, Any] = {
        "barmode": "stack",
        "bargap": 0,
        "height": 120,
        "showlegend": True,
        "margin": {"l": 8, "r": 12, "t": 30, "b": 44},
        "xaxis": axis(f"capital{view.unit}", range=[0, total], showgrid=False),
        "yaxis": {"visible": False, "range": [0, 1], "fixedrange": True},
    }
    return [figure(data, **layout)], f"{spent:.6g} of {capital:.6g}{view.unit} spent."
