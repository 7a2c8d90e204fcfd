"""The strip of the capital: which fidelity each part of it went to, in the order of spending."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfbo_torch.app.report.view import ReportView, axis, figure
from mfbo_torch.history import Status

PARTS = 240
"""Parts of the strip, which queries are drawn together in."""


def strip(view: ReportView) -> tuple[list[dict[str, Any]], str]:
    """A bar whose length is the capital, with a colour for each fidelity; what is in flight is faint."""
    capital, spent = float(view.run.settings["capital"]), view.history.spent
    total = max(capital, spent) or 1.0
    paid = [r for r in view.history if r.cost > 0]
    ends, at = np.linspace(0.0, total, PARTS + 1), np.cumsum([0.0, *(r.cost for r in paid)])
    groups = [(name, view.color(m), m) for m, name in enumerate(view.names)] + [("in flight", "--faint", -1)]
    places = [-1 if r.status == Status.PENDING else view.place[r.query.fidelity] for r in paid]
    data = []
    for name, color, m in groups:
        own = np.cumsum([0.0, *(r.cost if place == m else 0.0 for r, place in zip(paid, places, strict=True))])
        share = np.diff(np.interp(ends, at, own)) / (total / PARTS)
        kept = share > 1e-9
        if not kept.any():
            if m != view.target:
                continue
            kept[0] = True  # plotly wants one bar
        x, y = (ends[:-1] + ends[1:])[kept] / 2, share[kept]
        text = [f"{name}: {part:.0%} of what was spent here" for part in y]
        look = {"marker": {"color": color, "line": {"width": 0}}, "width": total / PARTS, "text": text}
        data.append({"type": "bar", "x": x.tolist(), "y": y.tolist(), "name": name, **look, "textposition": "none"})
        data[-1]["hoverinfo"] = "text"
    across = {"range": [0, total], "showgrid": False}
    layout: dict[str, Any] = {
        "barmode": "stack",
        "bargap": 0,
        "height": 120,
        "showlegend": True,
        "margin": {"l": 8, "r": 12, "t": 30, "b": 44},
        "xaxis": axis(f"capital{view.unit}", **across),
        "yaxis": {"visible": False, "range": [0, 1], "fixedrange": True},
    }
    return [figure(data, **layout)], f"{spent:.6g} of {capital:.6g}{view.unit} spent."
