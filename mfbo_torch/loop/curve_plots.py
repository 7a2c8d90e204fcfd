"""Learning curves: which are looked at, what is forecast of them, and their picture."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

from mfbo_torch.history import History, Status
from mfbo_torch.history.learning_curves import LearningCurve, learning_curves, steps
from mfbo_torch.loop.plots import CURVES, FAINT, canvas, log_scale, note, tidy
from mfbo_torch.problems.base import Problem
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.utils.global_state import GlobalState
from mfbo_torch.utils.output_streams import logger
from mfbo_torch.utils.standardize import extent
from mfbo_torch.utils.validation import describe

LOG = logger(__name__)
BEST = 5
"""Number of trainings that are coloured."""
GREY = "#C4C4C4"


class Band(NamedTuple):
    """What is forecast of a training: at each of some steps a mean, and one deviation below and above it."""

    steps: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class DrawnCurve(NamedTuple):
    """A curve in the objective's own sign, its place from 0 among all, and its forecast while it may go on."""

    curve: LearningCurve
    rank: int
    band: Band | None


def drawn_curves(history: History, problem: Problem, strategy: Strategy | None = None) -> list[DrawnCurve]:
    """The curves that have a value, the best first.

    Those at the last step, by their value; then those that may go on, by the mean forecast of it; then the others, by
    their last value. Without a model all that are not at the last step are compared by their last values.

    Args:
        history: The queries.
        problem: What was trained.
        strategy: A bound strategy with a model, such as :class:`~mfbo_torch.FreezeThaw`.
    """
    curves = [curve for curve in learning_curves(history, problem.space) if curve.points]
    last = steps(problem.space)[-1]
    paused = [c for c in curves if c.steps[-1] < last and c.status in (Status.DONE, Status.PENDING)]
    bands = _bands(history, problem, strategy, paused)

    def place(curve: LearningCurve) -> tuple[int, float]:
        if curve.steps[-1] >= last:
            return 0, -curve.values[-1]
        band = bands.get(curve.id)
        return (2, -curve.values[-1]) if band is None else (1, -problem.signed(band.mean[-1]))

    ordered = sorted(curves, key=place)
    return [DrawnCurve(c.signed(problem.maximize), rank, bands.get(c.id)) for rank, c in enumerate(ordered)]


def _bands(
    history: History, problem: Problem, strategy: Strategy | None, paused: list[LearningCurve]
) -> dict[int, Band]:
    """The forecast of each curve by its number, from its last step on."""
    if strategy is None or not paused:
        return {}
    try:
        with GlobalState().restored():
            predicted = strategy.predict(history, torch.tensor([c.x for c in paused], dtype=torch.double))
    except Exception as error:  # a device that is not here, data that no model can be made of
        LOG.warning("there is no forecast, as the model failed: %s", describe(error))
        return {}
    if predicted is None:
        return {}
    found, at = {}, steps(problem.space)
    for curve, mean, deviation in zip(paused, *(part.tolist() for part in predicted), strict=True):
        ahead = [m for m, step in enumerate(at) if step > curve.steps[-1] and np.isfinite(mean[m])]
        if ahead:
            middle = [curve.values[-1], *(mean[m] for m in ahead)]
            wide = [0.0, *(deviation[m] for m in ahead)]
            ends = [[v + sign * w for v, w in zip(middle, wide, strict=True)] for sign in (0, -1, 1)]
            middle, low, high = ([problem.signed(value) for value in part] for part in ends)
            low, high = (low, high) if problem.maximize else (high, low)
            found[curve.id] = Band((curve.steps[-1], *(at[m] for m in ahead)), tuple(middle), tuple(low), tuple(high))
    return found


def plot_learning_curves(history: History, problem: Problem, strategy: Strategy | None = None) -> Figure:
    """The learning curves of all trainings: the best ones coloured, the others grey, with bands of the forecast.

    Args:
        history: The queries.
        problem: What was trained.
        strategy: A bound strategy whose model forecasts the best of those that may go on; no bands without.
    """
    drawn = drawn_curves(history, problem, strategy)
    figure = canvas(8.0, 4.6)
    axes = figure.subplots()
    shown = [value for one in drawn for value in one.curve.values]
    logarithmic = bool(shown) and min(shown) > 0
    for one in reversed(drawn):
        best, last = one.rank < BEST, one.curve.steps[-1]
        color = CURVES[one.rank % len(CURVES)] if best else GREY
        style: dict[str, Any] = {"color": color, "linewidth": 1.8 if best else 0.8, "zorder": 3 if best else 2}
        label = f"training {one.curve.id}, {one.curve.values[-1]:.4g} at {last:g}" if best else None
        axes.plot(one.curve.steps, one.curve.values, label=label, **style)
        axes.plot(last, one.curve.values[-1], marker="o", ms=4 if best else 2, color=color, zorder=style["zorder"])
        if best and one.band is not None:
            low = [max(value, min(shown) / 10) for value in one.band.low] if logarithmic else one.band.low
            axes.fill_between(one.band.steps, low, one.band.high, color=color, alpha=0.14, linewidth=0)
            axes.plot(one.band.steps, one.band.mean, color=color, linewidth=1.0, linestyle=(0, (3, 2)))
    if shown:
        ahead = [value for one in drawn[:BEST] if one.band for value in one.band.mean if value > 0 or not logarithmic]
        seen = np.log(shown + ahead) if logarithmic else np.array(shown + ahead)
        ends = np.array(extent(seen.tolist()))
        if ends[1] > ends[0]:
            axes.set_ylim(*(np.exp(ends) if logarithmic else ends))
        if logarithmic:
            log_scale(axes)
        handles, labels = axes.get_legend_handles_labels()
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False, "fontsize": 9}
        axes.legend(handles[::-1], labels[::-1], **place)
    else:
        note(axes, "no values yet", (0.5, 0.5), ("axes fraction", "axes fraction"), (0, 0), ha="center", color=FAINT)
    tidy(axes)
    axes.set_xlabel("step")
    axes.set_ylabel("value")
    axes.set_xlim(left=0)
    title = f"{problem.name}, {len(drawn)} training{'' if len(drawn) == 1 else 's'}"
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    return figure
