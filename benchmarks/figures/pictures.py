"""The pictures that only benchmarks draw: the method in one dimension, queries by value, plays per arm.

Each function returns a :class:`matplotlib.figure.Figure` that belongs to no window, as in :mod:`mfbo_torch.loop.plots`.

References:

.. [Kandasamy2016mfgpucb]
    K. Kandasamy, G. Dasarathy, J. Oliva, J. Schneider, B. Póczos. Gaussian Process Bandit
    Optimisation with Multi-fidelity Evaluations. NeurIPS 2016.

.. [Kandasamy2016mfucb]
    K. Kandasamy, G. Dasarathy, J. Schneider, B. Póczos. The Multi-fidelity Multi-armed Bandit.
    NeurIPS 2016.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from mfbo_torch.history import History
from mfbo_torch.loop.plots import DASHES, FAINT, GREEN, INK, canvas, fidelity_colors, note, stretch_name, tidy
from mfbo_torch.problems import MultiFidelityBandit
from mfbo_torch.problems.base import Problem


def illustration(
    x: ArrayLike,
    values: Sequence[ArrayLike],
    bounds: Sequence[ArrayLike],
    queries: Sequence[tuple[float, float, int]],
    next_query: tuple[float, int],
    width: ArrayLike,
    gamma: float,
    optimum: float,
) -> Figure:
    """One decision of MF-GP-UCB in one dimension [Kandasamy2016mfgpucb]_ (Figs. 2 and 6).

    Above, at ``n`` designs ``x``, the ``values`` of each fidelity, their upper ``bounds`` and the least of these, the
    acquisition; below the ``width`` of the first fidelity's band and the threshold ``gamma`` below which that fidelity
    is trusted. Queries are ``(x, value, fidelity)``; ``optimum`` is where the target is largest.
    """
    x = np.asarray(x, dtype=float)
    colors = fidelity_colors(len(values))
    lowest = np.min([np.asarray(bound, dtype=float) for bound in bounds], axis=0)
    figure = Figure(figsize=(8.0, 5.4), layout="constrained")  # a canvas draws no formulas
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.6, 1])
    for m, (value, bound, color) in enumerate(zip(values, bounds, colors, strict=True), 1):
        upper.plot(x, value, color=color, linewidth=1.8, label=rf"$f^{{({m})}}$")
        upper.plot(x, bound, color=color, linewidth=1.4, linestyle=DASHES[1], label=rf"$\varphi^{{({m})}}$")
    upper.plot(x, lowest, color=GREEN, linewidth=3.0, alpha=0.65, label=r"$\varphi$")
    for m, color in enumerate(colors):
        asked = [(at, value) for at, value, fidelity in queries if fidelity == m]
        if asked:
            upper.plot(*zip(*asked, strict=True), "x", color=color, ms=8, mew=2.2, zorder=4)
    for axes in (upper, lower):
        axes.axvline(optimum, color=FAINT, linewidth=1.0, linestyle=DASHES[2], zorder=0)
    side, shift = ("right", -4) if optimum > x.mean() else ("left", 4)
    note(upper, r"$x_\star$", (optimum, 0.0), ("data", "axes fraction"), (shift, 5), ha=side, fontsize=14)
    lower.plot(x, width, color=colors[0], linewidth=1.8)
    lower.axhline(gamma, color=INK, linewidth=1.2, linestyle=DASHES[1])
    note(lower, r"$\gamma^{(1)}$", (1.0, gamma), ("axes fraction", "data"), (5, 0), va="center", fontsize=12)
    lower.set_ylabel(r"$\beta_t^{1/2}\,\sigma^{(1)}_{t-1}$", fontsize=12)
    lower.set_ylim(0.0, 1.15 * max(float(np.max(np.asarray(width))), gamma))
    lower.set_xlabel("$x$")
    at, fidelity = next_query
    name = f"next query, at fidelity {fidelity + 1}"
    for axes, height in ((upper, np.interp(at, x, lowest)), (lower, np.interp(at, x, np.asarray(width)))):
        axes.plot([at], [height], "*", color="#C8102E", ms=17, mec="white", mew=0.8, zorder=6, label=name)
    handles, labels = upper.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=10)
    upper.set_xlim(float(x.min()), float(x.max()))
    for axes in (upper, lower):
        tidy(axes)
    return figure


def queries_by_value(history: History, problem: Problem, bins: int = 6) -> Figure:
    """How many queries each fidelity got, by ranges of the target's value at the queried design.

    As in [Kandasamy2016mfgpucb]_ (Fig. 3, right); the problem's target is evaluated at every design queried.
    """
    target = problem.space.target
    values = np.array([problem.evaluate(r.query.x, target) for r in history])
    fidelities = np.array([r.query.fidelity for r in history])
    low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1.0, bins + 1)
    colors, names = fidelity_colors(target + 1), [stretch_name(range(m, m + 1), problem) for m in range(target + 1)]
    figure = canvas(8.0, 4.0)
    axes = figure.subplots()
    width = 0.84 / (target + 1)
    for m, color in enumerate(colors):
        counts, _ = np.histogram(values[fidelities == m], edges)
        places = np.arange(bins) + (m - target / 2) * width
        drawn = axes.bar(places, counts, width * 0.94, color=color, label=names[m])
        axes.bar_label(drawn, [str(count) if count else "" for count in counts], fontsize=8, color=INK)
    axes.set_xticks(range(bins), [f"{a:.3g} to {b:.3g}" for a, b in pairwise(edges)])
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("value of the target at the queried design")
    axes.set_ylabel("queries")
    axes.set_title(f"{problem.name}: queries by value", loc="left", fontsize=13, fontweight="bold", color=INK)
    axes.legend(fontsize=9, frameon=False)
    tidy(axes)
    return figure


def plays_per_arm(panels: Mapping[str, ArrayLike], problem: MultiFidelityBandit) -> Figure:
    """Plays of each arm at each fidelity, ``K x M`` for each strategy, arms by their mean at the target.

    As in [Kandasamy2016mfucb]_ (Fig. 2).
    """
    order = np.argsort(problem.means[:, -1].numpy(), kind="stable")
    colors = fidelity_colors(problem.means.shape[1])
    names = [stretch_name(range(m, m + 1), problem) for m in range(len(colors))]
    figure = canvas(8.4, 3.4)
    for axes, (label, plays) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for m, column in enumerate(np.asarray(plays, dtype=float)[order].T):
            if column.any():
                style = {"color": colors[m], "s": 7, "linewidths": 0, "zorder": 2 + m}
                axes.scatter(np.arange(len(order))[column > 0], column[column > 0], label=names[m], **style)
        axes.set_yscale("log")
        axes.set_xlabel("arm, by its mean at the target")
        axes.set_ylabel("plays")
        axes.set_title(label, loc="left", fontsize=11, fontweight="bold", color=INK)
        axes.legend(fontsize=9, frameon=False, markerscale=2.5, handletextpad=0.2, loc="upper left")
        tidy(axes)
    return figure
