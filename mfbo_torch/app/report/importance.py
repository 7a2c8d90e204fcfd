"""How important each parameter is, by the model: Sobol indices of its mean [Sobol2001]_.

.. [Sobol2001]
    I. M. Sobol. Global Sensitivity Indices for Nonlinear Mathematical Models and Their Monte Carlo Estimates.
    Mathematics and Computers in Simulation 55, 2001.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import sobol_indices, uniform

from mfbo_torch.app.report.content import predict
from mfbo_torch.app.report.view import INK, ReportView, axis, figure, plain, short
from mfbo_torch.app.summary import Summary

MOST_DESIGNS, MOST_SHOWN, CONFIDENCE = 8192, 20, 0.9
"""Designs that the model predicts, parameters that are shown, and the confidence of the intervals."""


class Importance(NamedTuple):
    """Sobol indices of each parameter with the ends of their intervals, ``d x 3`` each: value, low, high.

    Attributes:
        first: The share of the mean's variance that a parameter explains alone.
        total: The share that is left where all others are known.
        unknown: The share of the variance that the model is unsure of, from 0 to 1.
    """

    first: np.ndarray
    total: np.ndarray
    unknown: float


class _Missing(Exception):
    """There is no model, or it could not be made."""


def importance(run: Summary) -> Importance | str:
    """The indices at the target, or at the highest fidelity the model speaks of; a text says why there are none.

    Designs are uniform in the unit cube: logarithms where a parameter is on a log scale, choices alike. The intervals
    are those of the sample of designs, by the bootstrap.
    """
    space, means, seen = run.problem.space, list[np.ndarray](), list[np.ndarray]()
    if space.dim < 2:
        return "There is one parameter."
    n = 2 ** max(5, int(math.log2(MOST_DESIGNS / (space.dim + 2))))

    def mean(U: np.ndarray) -> np.ndarray:
        shares = torch.from_numpy(np.ascontiguousarray(U.T))
        X = space.along(shares) if space.mixed else space.from_unit(shares)
        found = predict(run, run.history, X)
        if not isinstance(found, tuple):
            raise _Missing(found or f"{type(run.strategy).__name__} has no model of the objective.")
        known = [m for m in range(space.num_fidelities) if torch.isfinite(found[0][:, m]).all()]
        if not known:
            raise _Missing("The model says nothing of the target yet.")
        seen.append(found[1][:, known[-1]].square().numpy())
        means.append(found[0][:, known[-1]].numpy())
        return means[-1]

    try:
        found = sobol_indices(func=mean, n=n, dists=[uniform()] * space.dim, rng=np.random.default_rng(0))
        if not np.isfinite(found.total_order).all():
            return "The model's mean is the same everywhere."
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a parameter without effect: each sample says the same
            ends = found.bootstrap(confidence_level=CONFIDENCE, n_resamples=199)
    except _Missing as missing:
        return str(missing)
    parts = ((found.first_order, ends.first_order), (found.total_order, ends.total_order))
    first, total = (_between(value, each.confidence_interval) for value, each in parts)
    unsure, variance = float(np.mean(np.concatenate(seen))), float(np.var(np.concatenate(means)))
    return Importance(first, total, unsure / (unsure + variance))


def _between(value: np.ndarray, interval: Any) -> np.ndarray:
    """Indices with the ends of their intervals, which are themselves where nothing varies."""
    ends = [np.where(np.isfinite(end), end, value) for end in (interval.low, interval.high)]
    return np.stack([value, np.minimum(ends[0], value), np.maximum(ends[1], value)], -1).clip(0.0, 1.0)


def drawn(view: ReportView, found: Importance | str) -> tuple[list[dict[str, Any]], str]:
    """Bars of the total index, in each the part that the parameter explains alone, with their intervals."""
    if isinstance(found, str):
        return [], found
    order = found.total[:, 0].argsort()[::-1][:MOST_SHOWN][::-1]
    names = [plain(short(view.space.parameters[i].name, 30)) for i in order]
    rows, data = list(range(len(order))), []
    kinds = (
        (found.total, "with others (total)", "--faint"),
        (found.first, "alone (first order)", view.color(view.target)),
    )
    for (part, name, color), width in zip(kinds, (0.7, 0.4), strict=True):
        value, low, high = part[order].T
        bars = {"array": (high - value).clip(0).tolist(), "arrayminus": (value - low).clip(0).tolist()}
        error = {"type": "data", "symmetric": False, **bars, "color": INK, "thickness": 1, "width": 3}
        text = [f"{name}: {v:.0%} ({lo:.0%} to {hi:.0%})" for v, lo, hi in zip(value, low, high, strict=True)]
        look = {"marker": {"color": color}, "width": width, "error_x": error, "text": text, "textposition": "none"}
        bar = {"type": "bar", "orientation": "h", "x": value.tolist(), "y": rows, "name": name, "hoverinfo": "text"}
        data.append({**bar, **look})
    side = axis(tickvals=rows, ticktext=names, showgrid=False, fixedrange=True)
    share = axis("share of the variance of the model's mean", range=[0, 1.02], tickformat=".0%")
    margin = {"l": 8, "r": 16, "t": 40, "b": 48}
    layout: dict[str, Any] = {
        "barmode": "overlay",
        "height": 110 + 34 * len(order),
        "showlegend": True,
        "margin": margin,
    }
    note = f"Sobol indices of the model's mean, with {CONFIDENCE:.0%} intervals of the sample."
    note += f" The model itself is unsure of {found.unknown:.0%} of the variance."
    if len(order) < view.space.dim:
        note += f" The first {len(order)} of {view.space.dim} parameters."
    return [figure(data, **layout, xaxis=share, yaxis=side)], note
