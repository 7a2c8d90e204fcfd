"""The pictures: a run's progress, and regret against capital; and what all pictures are drawn with.

Each function returns a :class:`matplotlib.figure.Figure` without a window; ``figure.savefig(path)`` saves it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter
from numpy.typing import ArrayLike

from mfbo_torch.history import History, Status
from mfbo_torch.metrics import best_values, capital_spent
from mfbo_torch.problems.base import Problem
from mfbo_torch.utils.standardize import extent, outliers

# Okabe and Ito's colours, which people with any colour vision tell apart.
BLUE, ORANGE, GREEN, RED, PINK, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
INK, FAINT = "#222222", "#8A8A8A"
CURVES = (RED, BLUE, GREEN, ORANGE, PINK, SKY, INK, FAINT)
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))


def fidelity_colors(count: int) -> list[str]:
    """Blues for the cheap fidelities, darker as they get better; red for the target."""
    cheap = [SKY] if count == 2 else ["#9AD0F5", "#4FA3DC", BLUE, "#00456E", INK]
    return [cheap[min(m, len(cheap) - 1)] for m in range(count - 1)] + [RED]


class Powers(LogFormatterSciNotation):
    """Labels of a logarithmic axis such as 10² and 2×10⁻³, which are no formulas."""

    RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

    def __call__(self, x: float, pos: int | None = None) -> str:
        text: str = super().__call__(x, pos).removeprefix(r"$\mathdefault{").removesuffix("}$")
        return re.sub(r"\^{(-?\d+)}", lambda found: found[1].translate(self.RAISED), text.replace(r"\times", "×"))


class Picture(Figure):
    """A figure that a notebook shows, whatever its backend is, and whose names hold no formulas."""

    def draw(self, renderer: RendererBase) -> None:
        """Draw it, dollars in names as they are."""
        for axis in [axis for axes in self.axes for axis in (axes.xaxis, axes.yaxis)]:
            if type(axis.get_major_formatter()) is LogFormatterSciNotation:
                axis.set_major_formatter(Powers())
            if type(axis.get_minor_formatter()) is LogFormatterSciNotation:
                axis.set_minor_formatter(Powers())
        for text in self.findobj(Text):
            text.set_parse_math(False)
        with rc_context({"text.parse_math": False}):  # texts that are made now
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        self.savefig(drawn, format="png")
        return drawn.getvalue()


def canvas(width: float, height: float) -> Figure:
    """A figure of a width and a height in inches."""
    return Picture(figsize=(width, height), dpi=150, layout="constrained")


def tidy(axes: Axes) -> None:
    """The look of all axes, set once they are drawn."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=9)
    axes.grid(axis="y", color="#E8E8E8", linewidth=0.8)
    axes.set_axisbelow(True)


def note(
    axes: Axes, text: str, at: tuple[float, float], units: tuple[str, str], shift: tuple[float, float], **style: Any
) -> None:
    """Text at a point, moved by a few printer's points."""
    place: dict[str, Any] = {"xycoords": units, "xytext": shift, "textcoords": "offset points"}
    axes.annotate(text, at, annotation_clip=False, **place, **{"color": INK, **style})


def stretch_name(stretch: range, problem: Problem) -> str:
    """The name of some fidelities; of a single one with its cost, unless costs are measured."""
    space = problem.space
    known = len(stretch) == 1 and not space.measured
    return space.stretch_name(stretch) + (f", cost {space.costs[stretch[0]]:g}" if known else "")


def progress(history: History, problem: Problem, strategy: str = "") -> Figure:
    """What a run found and where its capital went; pending queries are left out.

    The upper panel has the value of every query, in the problem's own sign, against the capital spent by then, and the
    best value at the target so far. The lower panel has the share of the capital that each fidelity took.
    """
    target, stretches = problem.space.target, problem.space.stretches
    colors = fidelity_colors(len(stretches))
    counts = history.queries_per_fidelity(target + 1)
    spent = capital_spent(history).numpy()
    total = float(spent[-1]) if len(spent) else 1.0
    figure = canvas(8.0, 5.2)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3.4, 0.4 + 0.3 * len(colors)])
    done = history.select(Status.DONE)
    values = [problem.value_of(r) or 0.0 for r in done]
    off = outliers(values)
    for m, stretch in enumerate(stretches):
        chosen = [k for k, r in enumerate(done) if r.query.fidelity in stretch and not off[k]]
        size, alpha = (46, 1.0) if target in stretch else (16, 0.75)
        style = {"s": size, "color": colors[m], "alpha": alpha, "edgecolors": "white", "linewidths": 0.5}
        count = sum(counts[stretch.start : stretch.stop])
        name = f"{stretch_name(stretch, problem)}: {count} {'query' if count == 1 else 'queries'}"
        x, y = spent[[done[k].id for k in chosen]], [values[k] for k in chosen]
        upper.scatter(x, y, label=name, zorder=3 + m, **style)

    def at_edge(ids: list[int], height: float, marker: str, name: str) -> None:
        if ids:
            style = {"transform": upper.get_xaxis_transform(), "clip_on": False, "linestyle": "none", "zorder": 9}
            label = f"{len(ids)} {name}"
            upper.plot(spent[ids], [height] * len(ids), color=INK, ms=5, marker=marker, label=label, **style)

    at_edge([r.id for r in history.select(Status.FAILED)], 0.0, "x", "failed")
    away = [(r.id, value < np.median(values)) for r, value, outlier in zip(done, values, off, strict=True) if outlier]
    at_edge([number for number, below in away if below], 0.0, "v", "off the scale")
    at_edge([number for number, below in away if not below], 1.0, "^", "off the scale")
    best = best_values(history, target).numpy()
    found = np.isfinite(best)
    title = f"no {'feasible ' if problem.space.limits else ''}value at the target yet"
    if found.any():
        line = np.array([problem.signed(value) for value in best[found]])
        until, level = np.append(spent[found], total * 1.02), np.append(line, line[-1])
        upper.step(until, level, where="post", color=INK, linewidth=2.0, zorder=2, label="best so far")
        title = f"best value {line[-1]:.5g}"
    if off.any():
        upper.set_ylim(*extent(values, [] if problem.optimum is None else [problem.optimum]))
    if problem.optimum is not None:
        upper.axhline(problem.optimum, color=GREEN, linewidth=1.2, linestyle=DASHES[1], zorder=1)
        corner = (1.0, problem.optimum), ("axes fraction", "data"), (-2, 3)
        note(upper, "optimum", *corner, ha="right", fontsize=9, color=GREEN)
    heading = f"{problem.name} with {strategy}, {title}" if strategy else f"{problem.name}, {title}"
    figure.suptitle(heading, x=0.012, ha="left", fontsize=13, fontweight="bold", color=INK)
    upper.set_ylabel("value of a query")
    place: dict[str, Any] = {
        "loc": "lower left",
        "bbox_to_anchor": (-0.01, 1.0),
        "ncols": 3 if len(stretches) < 5 else 2,
    }
    upper.legend(fontsize=9, frameon=False, columnspacing=1.4, handletextpad=0.4, handlelength=1.4, **place)
    _capital_shares(lower, history, problem, spent, colors)
    lower.set_xlabel("capital spent" + (" (seconds)" if problem.space.measured else ""))
    lower.set_xlim(0, total * 1.02)
    for axes in (upper, lower):
        tidy(axes)
    return figure


def _capital_shares(axes: Axes, history: History, problem: Problem, spent: np.ndarray, colors: Sequence[str]) -> None:
    """A bar for each query, as wide as its cost and in the row of its fidelity."""
    costs, count, names, stretches = np.diff(spent, prepend=0.0), len(colors), [], problem.space.stretches
    for m, (color, stretch) in enumerate(zip(colors, stretches, strict=True)):
        rows = [r.id for r in history if r.query.fidelity in stretch]
        bars = list(zip(spent[rows] - costs[rows], costs[rows], strict=True))
        axes.broken_barh(bars, (m - 0.36, 0.72), facecolors=color, edgecolors="white", linewidth=0.2)
        share = costs[rows].sum() / max(costs.sum(), 1e-300)
        percent = f"{share:.0%}" if share >= 0.01 or not rows else "<1%"
        names.append(f"{problem.space.stretch_name(stretch)}, {percent}")
    axes.set_yticks(range(count), names)
    axes.set_ylim(-0.6, count - 0.4)
    axes.set_title("where the capital went", loc="left", fontsize=10, color=INK)


def regret(
    panels: Mapping[str, Mapping[str, tuple[ArrayLike, ArrayLike]]],
    ylabels: Mapping[str, str] | None = None,
    linear: Collection[str] = (),
) -> Figure:
    """Mean and one standard error over the runs of each strategy, against the capital spent.

    ``panels`` has for each problem and strategy ``g`` amounts of capital and ``runs x g`` values there, NaN while not
    known; a mean is drawn where every run has one. The scale is logarithmic but for the problems in ``linear``.
    """
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    alone = len(panels) == 1
    figure = canvas(8.0, 5.0) if alone else canvas(4.2 * columns, 3.5 * rows + 0.5)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    labels = list(dict.fromkeys(label for curves in panels.values() for label in curves))
    styles = {label: (CURVES[i % len(CURVES)], DASHES[i % len(DASHES)]) for i, label in enumerate(labels)}
    for axes, (title, curves) in zip(grid, panels.items(), strict=False):
        log = title not in linear
        ends = [end for label, curve in curves.items() if (end := _curve(axes, label, curve, *styles[label], log))]
        if log:
            log_scale(axes)
        tidy(axes)
        axes.set_xlim(0)
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
        axes.set_xlabel("capital spent")
        axes.set_ylabel((ylabels or {}).get(title, "simple regret"))
        if alone:
            _label_ends(axes, ends, {label: color for label, (color, _) in styles.items()})
    if not alone:
        handles = {label: h for axes in grid for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        place = {"loc": "outside lower center", "ncols": min(len(handles), 4), "frameon": False, "fontsize": 10}
        figure.legend(list(handles.values()), list(handles), **place)
    return figure


def log_scale(axes: Axes) -> None:
    """A log scale with plain numbers, between the decades too where there are too few of them."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if high < 20 * low:
        axes.yaxis.set_minor_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
        axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}")
        axes.tick_params(axis="y", which="minor", labelsize=9, colors=INK)
    else:
        axes.yaxis.set_minor_formatter(NullFormatter())


def _curve(
    axes: Axes, label: str, curve: tuple[ArrayLike, ArrayLike], color: str, dash: Any, log: bool
) -> tuple[str, float, float] | None:
    """Draw one strategy; its label and the point where its curve ends."""
    capital, runs = np.asarray(curve[0], dtype=float), np.atleast_2d(np.asarray(curve[1], dtype=float))
    mean = runs.mean(0)
    error = runs.std(0, ddof=1) / math.sqrt(len(runs)) if len(runs) > 1 else np.zeros_like(mean)
    known = np.isfinite(mean) & ((mean > 0) if log else True)
    if not known.any():
        return None
    capital, mean, error = capital[known], mean[known], error[known]
    lower = np.maximum(mean - error, mean / 10) if log else mean - error
    axes.fill_between(capital, lower, mean + error, color=color, alpha=0.16, linewidth=0)
    axes.plot(capital, mean, color=color, linestyle=dash, linewidth=2.0, label=label)
    return label, float(capital[-1]), float(mean[-1])


def _label_ends(axes: Axes, ends: Sequence[tuple[str, float, float]], colors: Mapping[str, str]) -> None:
    """Write each label at the right end of its curve, moved apart where they would overlap."""
    gap, height = 0.055, -math.inf
    to_axes = axes.transData + axes.transAxes.inverted()
    for label, x, y in sorted(ends, key=lambda end: end[2]):
        height = max(to_axes.transform((x, y))[1], height + gap)
        style = {"color": colors[label], "fontsize": 10, "fontweight": "bold", "va": "center"}
        note(axes, label, (x, height), ("data", "axes fraction"), (6, 0), **style)
