"""How well the model predicted what it had not seen yet: the run's own observations, a quarter at a time."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist
from typing import Any, NamedTuple

import torch

from mfbo_torch.app.report.content import predict
from mfbo_torch.app.report.view import INK, QUIET, ReportView, axis, figure, scatter
from mfbo_torch.app.summary import Summary
from mfbo_torch.history import History, Record

LEAST = 8
"""The number of observations without which nothing is predicted."""

LEVELS = tuple(round(0.05 * k, 2) for k in range(1, 20))
"""Probabilities of the intervals whose coverage is drawn."""


class PredictedRecord(NamedTuple):
    """An observation, and what the model said of it before it was made."""

    record: Record
    mean: float
    """In the problem's own sign."""
    deviation: float
    """Of the observation, its standard error included where it is known."""


def predictions(run: Summary) -> list[PredictedRecord] | str:
    r"""What the strategy's model, made of each quarter of the observations, said of those of the next quarter.

    A value counts as inside where :math:`|y - \mu| \leq 2 \sqrt{\sigma^2 + e^2}`, with ``e`` the value's own
    standard error. Noise that only the model knows of is not in ``σ``: with it fewer values lie inside than it says.
    A text says why there is no prediction.
    """
    done = [r for r in run.history.done if not r.given]
    if len(done) < LEAST:
        return f"There are fewer than {LEAST} observations."
    ends = [math.ceil(k * len(done) / 4) for k in range(1, 5)]
    found = []
    for start, end in pairwise(ends):
        coming = done[start:end]
        X = torch.tensor([r.query.x for r in coming], dtype=torch.double)
        predicted = predict(run, History(run.history.records[: done[start].id]), X)
        if isinstance(predicted, str):
            return predicted
        if predicted is None:
            continue
        for record, mean, deviation in zip(coming, *predicted, strict=True):
            m = record.query.fidelity
            if torch.isfinite(mean[m]) and torch.isfinite(deviation[m]):
                spread = math.hypot(float(deviation[m]), record.standard_error or 0.0)
                found.append(PredictedRecord(record, run.problem.signed(float(mean[m])), spread))
    return found or f"{type(run.strategy).__name__} has no model of what came next."


def inside(found: list[PredictedRecord], view: ReportView, width: float) -> float:
    """The share of values within ``width`` standard deviations of the predicted mean."""
    near = [abs(view.value(r) - mean) <= width * deviation for r, mean, deviation in found]
    return sum(near) / len(near)


def figures(view: ReportView, found: list[PredictedRecord], most: int = 400) -> list[dict[str, Any]]:
    """Predicted against observed values, and the share of values inside intervals against what it should be."""
    step = max(1, math.ceil(len(found) / most))
    drawn = found[::step]
    ends = [bound for r, mean, _ in drawn for bound in (view.value(r), mean)]
    data = [_diagonal([min(ends), max(ends)])]
    for m, name in enumerate(view.names):
        part = [each for each in drawn if view.place[each.record.query.fidelity] == m]
        bars = {"type": "data", "array": [2 * deviation for _, _, deviation in part], "thickness": 1, "width": 0}
        text = [f"{view.about(r)}<br>predicted {mean:.6g} ± {2 * dev:.3g}" for r, mean, dev in part]
        look = {"marker": {"color": view.color(m), "size": 6}, "error_y": {**bars, "color": view.color(m, soft=True)}}
        x, y = [view.value(r) for r, _, _ in part], [mean for _, mean, _ in part]
        data.append(scatter("markers", x, y, name=name, text=text, hoverinfo="text", **look))
    scale = view.extent([r for r, _, _ in drawn])
    both = {"range": scale} if scale else {}
    left = figure(data, "Predicted and observed", xaxis=axis("observed", **both), yaxis=axis("predicted", **both))
    shares = [inside(found, view, NormalDist().inv_cdf(0.5 + level / 2)) for level in LEVELS]
    line = {"color": INK, "width": 2}
    curve = scatter("lines+markers", LEVELS, shares, line=line, marker={"size": 5}, hoverinfo="x+y")
    data = [_diagonal([0, 1]), curve]
    share = {"range": [0, 1.02], "tickformat": ".0%", "dtick": 0.25}
    return [left, figure(data, "Values inside intervals", xaxis=axis("wanted", **share), yaxis=axis("found", **share))]


def _diagonal(ends: list[float]) -> dict[str, Any]:
    """Where predictions would be if they were right."""
    line = {"color": QUIET, "width": 1, "dash": "dot"}
    return scatter("lines", ends, ends, line=line, hoverinfo="skip")


def drawn(view: ReportView) -> tuple[list[dict[str, Any]], str]:
    """The pictures of the section and its sentence: the share of values inside, or why there is none."""
    found = predictions(view.run)
    if isinstance(found, str):
        return [], found
    return figures(view, found), (
        f"The model of each quarter of the run predicts the next one: {inside(found, view, 2.0):.0%} of {len(found):,} "
        "values lie within two standard deviations; 95% would if it were right about itself."
    )
