"""The pictures of designs: a line for each query across its parameters, and the model along each of them."""

from __future__ import annotations

import math
from typing import Any

from scipy.stats import rankdata

from mfbo_torch.app.report.view import INK, LEGEND, LINE, PAGE, QUIET, ReportView, axis, figure, labels, plain, short
from mfbo_torch.history import Record
from mfbo_torch.space.parameter import Parameter

MOST_AXES, MOST_LINES, MOST_PANELS = 16, 400, 24


def parallel(view: ReportView) -> tuple[list[dict[str, Any]], str]:
    """A line for each query with a value, across the parameters that go with it most; a menu chooses the fidelity."""
    groups = [(f"at {name}", view.at(m, view.done)) for m, name in enumerate(view.names)][::-1]
    groups = [(name, records) for name, records in groups if records]
    if not groups:
        return [], "There is no observation yet."
    if len(groups) > 1:
        groups.append(("at all fidelities", view.done))
    chosen = most_correlated(view, groups[0][1])
    data, buttons = [], []
    for k, (name, records) in enumerate(groups):
        whole = k == len(view.names) or records is view.done
        data.append({**_lines(view, records, chosen, whole), "visible": k == 0})
        button = {"label": name, "method": "restyle", "args": [{"visible": [j == k for j in range(len(groups))]}]}
        buttons.append(button)
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.32, "yanchor": "top", "direction": "down"}
    look = {"bgcolor": PAGE, "bordercolor": "--edge", "font": {"color": INK, "size": 13}, "showactive": False}
    layout: dict[str, Any] = {
        "updatemenus": [{**menu, **look}] if len(groups) > 1 else [],
        "margin": {"l": 64, "r": 56, "t": 110, "b": 20},
    }
    notes = ["The better the value, the stronger the colour." if len(groups) == 1 else ""]
    if len(groups) > 1:
        notes = ["The better the value, the stronger the colour; at all fidelities the colour is the fidelity's."]
    if view.extent(view.done) is not None:
        notes.append("Values off the scale are at its ends.")
    if len(chosen) < view.space.dim:
        notes.append(f"{len(chosen)} of {view.space.dim} parameters, those whose ranks go with the value's most.")
    if any(len(records) > MOST_LINES for _, records in groups):
        notes.append(
            f"Of more than {MOST_LINES:,} queries the best {MOST_LINES // 2:,} are drawn, and as many of the others."
        )
    return [figure(data, **layout, height=430)], " ".join(notes)


def most_correlated(view: ReportView, records: list[Record]) -> list[int]:
    """The parameters to draw, in their order: all, or those with the largest rank correlation with the value."""
    dim = view.space.dim
    if dim <= MOST_AXES:
        return list(range(dim))
    ranks = rankdata([[*r.query.x, view.value(r)] for r in records], axis=0)
    ranks = ranks - ranks.mean(axis=0)
    size = (ranks**2).sum(axis=0) ** 0.5
    together = abs(ranks[:, :-1].T @ ranks[:, -1]) / (size[:-1] * size[-1]).clip(1e-12)
    return sorted(sorted(range(dim), key=lambda i: -together[i])[:MOST_AXES])


def _lines(view: ReportView, records: list[Record], chosen: list[int], whole: bool) -> dict[str, Any]:
    better = sorted(records, key=lambda r: r.value or 0.0)
    if len(better) > MOST_LINES:
        rest, best = better[: -MOST_LINES // 2], better[-MOST_LINES // 2 :]
        better = rest[:: math.ceil(2 * len(rest) / MOST_LINES)] + best
    dimensions = [_dimension(view.space.parameters[i], [r.query.x[i] for r in better]) for i in chosen]
    values, places = [view.value(r) for r in better], [view.place[r.query.fidelity] for r in better]
    if whole:
        ticks = {"tickvals": list(range(len(view.names))), "ticktext": [short(name, 14) for name in view.names]}
        dimensions.append({"label": "fidelity", "range": [0, view.target], "values": places, **ticks})
    low, high = view.extent(records) or (-math.inf, math.inf)
    values = [min(max(value, low), high) for value in values]
    dimensions.append({"label": "value", "values": [_digits(value) for value in values]})
    count = len(view.names)
    line: dict[str, Any] = {"color": [view.problem.signed(value) for value in values]}
    m = places[-1] if places else 0
    line["colorscale"] = [[0, "--faint"], [1, view.color(m)]]
    if whole:
        steps = [[(m + end) / count, view.color(m)] for m in range(count) for end in (0, 1)]
        line = {"color": places, "colorscale": steps, "cmin": -0.5, "cmax": count - 0.5}
    fonts = {"labelfont": {"color": INK, "size": 13}, "tickfont": {"color": QUIET, "size": 11}}
    fonts |= {"rangefont": {"color": PAGE, "size": 1}}
    faint = {"line": {"color": LINE, "opacity": 0.4}}
    return {"type": "parcoords", "dimensions": dimensions, "line": line, "unselected": faint, **fonts}


def _dimension(parameter: Parameter, values: list[float]) -> dict[str, Any]:
    numbers = [_digits(math.log10(value) if parameter.log else value) for value in values]
    return {"label": plain(short(parameter.name, 14)), "values": numbers, **_ticks(parameter)}


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def decades(parameter: Parameter) -> list[float]:
    """Exponents of ten for a logarithmic axis: both ends and some whole numbers between them."""
    low, high = math.log10(parameter.lower), math.log10(parameter.upper)
    step = max(1, math.ceil((high - low) / 6))
    between = range(math.ceil(low + 0.25), math.ceil(high - 0.2), step)
    return [low, *between, high]


def slices(view: ReportView, found: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The model along each parameter, the others as in the best query, with a note; ``found`` is what it says."""
    if "missing" in found:
        return [], found["missing"]
    through, panels = view.history.records[found["through"]], found["panels"]
    order = list(range(len(panels)))
    if len(panels) > MOST_PANELS:
        order = sorted(sorted(order, key=lambda i: -_range(panels[i]))[:MOST_PANELS])
    lows, highs = [view.value(through)], [view.value(through)]
    for level in (level for i in order for level in panels[i]["levels"] if level):
        lows.append(min(mean - 2 * (dev or 0) for mean, dev in zip(*level.values(), strict=True)))
        highs.append(max(mean + 2 * (dev or 0) for mean, dev in zip(*level.values(), strict=True)))
    slack = 0.04 * (max(highs) - min(lows) or 1)
    low, high = view.extent(view.done) or (-math.inf, math.inf)
    extent = [max(min(lows) - slack, low), min(max(highs) + slack, high)]
    where = view.names[view.place[through.query.fidelity]]
    silent = [name for name, level in zip(view.names, panels[0]["levels"], strict=True) if not level]
    note = (
        f"Mean and two standard deviations along each parameter, the others as in query {through.id}, the best at "
        f"{'the target' if where == 'target' else where} (ring). Dots: observations within 5% of the line in every "
        "other parameter."
    )
    if silent:
        note += f" The model says nothing of {', '.join(silent)}."
    if len(order) < len(panels):
        note += f" {len(order)} of {len(panels)} parameters, those along which the mean at the target varies most."
    return [_panel(view, i, panels[i], through, extent, legend=i == order[0]) for i in order], note


def _range(panel: dict[str, Any]) -> float:
    level = panel["levels"][-1] or next((level for level in panel["levels"] if level), None)
    return max(level["mean"]) - min(level["mean"]) if level else 0.0


def _panel(
    view: ReportView, i: int, panel: dict[str, Any], through: Record, extent: list[float], legend: bool
) -> dict[str, Any]:
    parameter, data = view.space.parameters[i], []
    for m, level in enumerate(panel["levels"]):
        if not level:
            continue
        color, top, key = view.color(m), m == view.target, {"legendgroup": str(m), "showlegend": False}
        text = [f"{view.names[m]}: {a:.6g} ± {2 * (b or 0):.3g}" for a, b in zip(*level.values(), strict=True)]
        near = [r for r in view.at(m, view.done) if r.id in set(panel["near"])]
        seen = {"type": "scatter", "x": panel["x"], "hoverinfo": "x+text"}
        if parameter.choices:
            bars = {"type": "data", "array": [2 * (dev or 0) for dev in level["deviation"]], "color": color}
            dash = {"color": color, "symbol": "line-ew-open", "size": 16 if top else 12}
            means = {"mode": "markers", "error_y": {**bars, "thickness": 1}, "marker": dash}
        else:
            for sign in (-1, 1):
                edge = [mean + sign * 2 * (dev or 0) for mean, dev in zip(*level.values(), strict=True)]
                fill = {"fill": "tonexty", "fillcolor": view.color(m, soft=True)} if sign == 1 else {}
                line = {"color": view.color(m, soft=True), "width": 0.75}
                data.append({**seen, **key, **fill, "mode": "lines", "y": edge, "line": line, "hoverinfo": "skip"})
            means = {"mode": "lines", "line": {"color": color, "width": 2.5 if top else 1.75}}
        data.append(
            {**seen, **key, **means, "y": level["mean"], "text": text, "name": view.names[m], "showlegend": legend}
        )
        dots = {"color": color, "size": 5, "line": {"color": PAGE, "width": 0.5}}
        data.append(view.dots(near, [r.query.x[i] for r in near], marker=dots, **key))
    ring = {"color": "rgba(0,0,0,0)", "size": 11, "line": {"color": INK, "width": 2}}
    data.append(view.dots([through], [through.query.x[i]], marker=ring, showlegend=False))
    several = sum(level is not None for level in panel["levels"]) > 1
    layout: dict[str, Any] = {
        "margin": {"l": 52, "r": 10, "t": 34 if several else 8, "b": 44},
        "showlegend": several and legend,
        "legend": {**LEGEND, "font": {"size": 11}, "itemwidth": 30, "x": -0.15},
    }
    ticks = _ticks(parameter)
    if parameter.choices:
        ticks["range"] = [-0.5, len(parameter.choices) - 0.5]
    elif parameter.log:
        ticks |= {"type": "log", "tickvals": [10.0**k for k in ticks["tickvals"]]}
    elif "tickvals" not in ticks:
        ticks["nticks"] = 5
    title = short(parameter.name, 36)
    return figure(
        data, **layout, xaxis=axis(title, showgrid=False, **ticks), yaxis=axis("value", range=extent, nticks=6)
    )


def _ticks(parameter: Parameter) -> dict[str, Any]:
    """The range and the ticks of a parameter; those of a logarithmic one are exponents of ten."""
    lower, upper = parameter.lower, parameter.upper
    if parameter.choices:
        return {**labels(parameter), "range": [0, len(parameter.choices) - 1]}
    if parameter.log:
        powers = decades(parameter)
        return {"tickvals": powers, "ticktext": [f"{10**k:.4g}" for k in powers], "range": [powers[0], powers[-1]]}
    few = parameter.integer and upper - lower <= 10
    return {"range": [lower, upper], **({"tickvals": list(range(int(lower), int(upper) + 1))} if few else {})}
