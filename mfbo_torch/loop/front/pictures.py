"""The picture of a run with several objectives: its front, and the hypervolume over the capital."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mfbo_torch.history import History, Record, Status
from mfbo_torch.loop.front.solutions import KNEE, Solution
from mfbo_torch.loop.plots import BLUE, FAINT, INK, RED, canvas, note, tidy
from mfbo_torch.metrics import capital_spent
from mfbo_torch.metrics.front import EXACT, hypervolumes, objective_values, reference_point
from mfbo_torch.problems.base import Problem

MOST_LINES = 200
"""Number of dominated designs, at most, in parallel coordinates: the latest ones."""


def plot_front(history: History, problem: Problem, front: Sequence[Solution], strategy: str = "") -> Figure:
    """The values at the target in the objectives' own signs, and the hypervolume over the capital spent.

    Two objectives are the axes of the first panel, the front a step line with one standard deviation; more are parallel
    coordinates, each axis from its worst to its best value, the best above.
    """
    space = problem.space
    figure = canvas(10.0, 4.4)
    left, right = figure.subplots(1, 2, width_ratios=[1.35, 1.0])
    records = history.select(Status.DONE, space.target)
    (_pair if len(space.objectives) == 2 else _parallel)(left, records, problem, front)
    spent = capital_spent(history).numpy()
    if front:
        own = objective_values([history.records[one.id] for one in front], space.objectives)
        found = hypervolumes(history, space, reference_point(space, own)).numpy()
        right.step(spent, found, where="post", color=INK, linewidth=2.0)
    right.set_xlabel("capital spent" + (" (seconds)" if space.measured else ""))
    right.set_ylabel("hypervolume" + (", estimated" if len(space.objectives) > EXACT else ""))
    right.set_ylim(bottom=0)
    for axes in (left, right):
        tidy(axes)
    size = f"{len(front)} designs on the front" if front else "no front yet"
    heading = f"{problem.name} with {strategy}, {size}" if strategy else f"{problem.name}, {size}"
    figure.suptitle(heading, x=0.012, ha="left", fontsize=13, fontweight="bold", color=INK)
    return figure


def _pair(axes: Axes, records: Sequence[Record], problem: Problem, front: Sequence[Solution]) -> None:
    """Two objectives against each other."""
    first, second = problem.space.objectives
    others = {record.id for record in records} - {one.id for one in front}
    for feasible, marker in ((True, "o"), (False, "x")):
        shown = [r for r in records if r.id in others and r.feasible == feasible]
        x, y = ([r.outcomes[one.name].value for r in shown] for one in (first, second))
        if shown:
            label = f"{len(shown)} {'dominated' if feasible else 'not feasible'}"
            axes.scatter(x, y, s=16, color=FAINT, marker=marker, linewidths=0.8, label=label)
    x, y = ([one.values[name] for one in front] for name in (first.name, second.name))
    if front:
        order = np.argsort(x)
        where: Literal["pre", "post"] = "pre" if first.maximize else "post"  # what was reached, not what may be
        axes.step(np.array(x)[order], np.array(y)[order], where=where, color=BLUE, linewidth=1.2)
        errors = ([one.deviations.get(name) or 0.0 for one in front] for name in (first.name, second.name))
        xerr, yerr = (None if not any(error) else error for error in errors)
        style: dict[str, Any] = {"color": BLUE, "ecolor": BLUE, "elinewidth": 0.8, "markersize": 5}
        axes.errorbar(x, y, yerr, xerr, fmt="o", label=f"{len(front)} on the front", **style)
    aside, above = (1 if one.maximize else -1 for one in (first, second))  # the better side, where no design is
    place = {"ha": "left" if first.maximize else "right", "va": "bottom" if second.maximize else "top"}
    for one in front:
        if one.labels:
            at = one.values[first.name], one.values[second.name]
            color = RED if KNEE in one.labels else INK
            shift = 6 * aside, 4 * above
            note(axes, ", ".join(one.labels), at, ("data", "data"), shift, fontsize=9, color=color, **place)
    axes.margins(0.2, 0.1)
    axes.set_xlabel(f"{first.name} ({'larger' if first.maximize else 'smaller'} is better)")
    axes.set_ylabel(f"{second.name} ({'larger' if second.maximize else 'smaller'} is better)")
    if records:
        axes.legend(fontsize=9, frameon=False)


def _parallel(axes: Axes, records: Sequence[Record], problem: Problem, front: Sequence[Solution]) -> None:
    """A line for each design; each objective has an axis of its own."""
    objectives, ids = problem.space.objectives, {one.id for one in front}
    Y = objective_values(records, objectives).numpy()
    low, high = (Y.min(0), Y.max(0)) if len(Y) else (np.zeros(len(objectives)), np.ones(len(objectives)))
    shares = (Y - low) / np.where(high > low, high - low, 1.0)
    places = range(len(objectives))
    knee = next((one.id for one in front if KNEE in one.labels), None)
    faint = [(record, share) for record, share in zip(records, shares, strict=True) if record.id not in ids]
    for _, share in faint[-MOST_LINES:]:
        axes.plot(places, share, color="#D9D9D9", linewidth=0.7, zorder=1)
    for record, share in zip(records, shares, strict=True):
        if record.id in ids:
            best = record.id == knee
            label = KNEE if best else None
            axes.plot(places, share, color=RED if best else BLUE, linewidth=2.2 if best else 1.0, label=label, zorder=3)
    names = [
        f"{one.name}\n{one.signed(worst):.3g} to {one.signed(best):.3g}"
        for one, worst, best in zip(objectives, low.tolist(), high.tolist(), strict=True)
    ]
    axes.set_xticks(places, names)
    axes.set_yticks([0.0, 1.0], ["worst", "best"])
    if knee is not None:
        axes.legend(fontsize=9, frameon=False)
