"""Pictures of indirect queries: what is believed of ``f`` beside what is seen of ``g``, and the tree over the box.

Each function returns a :class:`matplotlib.figure.Figure` that belongs to no window, as in :mod:`mfbo_torch.loop.plots`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, Rectangle
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from mfbo_torch.history import History, Record
from mfbo_torch.loop.plots import BLUE, FAINT, GREEN, INK, ORANGE, RED, canvas, tidy
from mfbo_torch.models import EmpiricalConditional
from mfbo_torch.models.indirect.conditionals.weighted import Weights
from mfbo_torch.models.indirect.conditionals.windows import UniformWindows, Windows
from mfbo_torch.models.indirect.unit_conditionals import reach
from mfbo_torch.problems.indirect.base import IndirectProblem
from mfbo_torch.space.cells import Node
from mfbo_torch.strategies.common.fit_schedule import quiet
from mfbo_torch.strategies.indirect.base import OverAverages
from mfbo_torch.strategies.indirect.cmets import CMETS
from mfbo_torch.utils.errors import SettingError

COLORMAP = "viridis"


def posteriors(strategy: OverAverages, history: History, problem: IndirectProblem | None = None) -> Figure:
    r"""The posterior of ``f`` over inputs beside that of ``g`` over queries, in one or two dimensions.

    Each query so far is drawn over ``f`` as what it averages over: the mean and one deviation (half of a
    side, for uniform windows) of :math:`p(x \mid a)`, as the conditional has it. ``g`` is that of the finest
    resolution.

    Args:
        strategy: Bound to its space.
        history: What was asked; at least one query with its value.
        problem: What it was asked of, to draw ``f`` and ``g`` themselves.

    Raises:
        SettingError: Nothing has a value yet, or inputs or queries of more than two dimensions.
    """
    space = strategy.space
    d = space.inputs.shape[-1]
    if not history.done:
        raise SettingError("history", "no value", "a history with values")
    if d > 2 or space.dim != d:
        raise SettingError("space", f"{space.dim} parameters, inputs of width {d}", "one of each, or two")
    figure = canvas(10.0, 4.4)
    left, right = figure.subplots(1, 2)
    if d == 1:
        _line(left, right, strategy, history, problem)
    else:
        _maps(figure, left, right, strategy, history, problem)
    left.set_title("what is believed of $f$", loc="left", fontsize=11, fontweight="bold", color=INK)
    right.set_title("what is seen of $g$", loc="left", fontsize=11, fontweight="bold", color=INK)
    return figure


def windows(strategy: OverAverages, records: list[Record]) -> tuple[Tensor, Tensor]:
    r"""Means and covariances of :math:`p(x \mid a)` for the queries of some records: ``n x d``, ``n x d x d``.

    Weights that samples teach may be negative. There the covariance is that of the samples' residuals from their
    own conditional means, weighted by how near their queries are.
    """
    lower, span = reach(strategy.space)
    conditional, A = strategy.conditional(), strategy.latent.queries(strategy.space, records)
    with torch.no_grad(), quiet():
        embedding = conditional.embed(A)
        if isinstance(conditional, EmpiricalConditional):
            residuals = conditional.points - conditional.weights(conditional.queries) @ conditional.points
            own, near = conditional.weights(A), conditional.rows(A)
    if isinstance(conditional, EmpiricalConditional):
        centre = own @ conditional.points
        near = near / near.sum(-1, keepdim=True)
        covariance = torch.einsum("nj,ja,jb->nab", near, residuals, residuals)
    elif isinstance(embedding, Windows):
        centre, covariance = embedding.location, torch.diag_embed(embedding.width.square())
    elif isinstance(embedding, Weights):
        centre = embedding.weights @ embedding.points
        rest = embedding.points - centre.unsqueeze(-2)
        covariance = torch.einsum("nj,nja,njb->nab", embedding.weights, rest, rest)
    else:
        raise SettingError("feedback", type(embedding).__name__, "samples, a window or a policy")
    return lower + span * centre.cpu(), span.unsqueeze(-1) * covariance.cpu() * span


def _beliefs(strategy: OverAverages, history: History, A: Tensor) -> tuple[Tensor, ...]:
    """Mean and deviation of ``f`` at the inputs and of ``g`` at queries of the unit cube, in the values' units."""
    model, shift, scale = strategy.model(strategy.snapshot(history))
    if strategy.space.num_fidelities > 1:
        A = torch.cat([A, torch.full((len(A), 1), float(strategy.level), dtype=torch.double)], -1)
    with torch.no_grad():
        f, f_var = model.latent_mean_variance(strategy.inputs())
        g, g_var = model.mean_variance(A.to(strategy.inputs()))
    parts = (shift + scale * f, scale * f_var.sqrt(), shift + scale * g, scale * g_var.sqrt())
    return tuple(part.cpu() for part in parts)


def _line(left: Axes, right: Axes, strategy: OverAverages, history: History, problem: IndirectProblem | None) -> None:
    space, records = strategy.space, history.done
    order = space.inputs[:, 0].argsort()
    x = space.inputs[order, 0]
    U = torch.linspace(0, 1, 301, dtype=torch.double).unsqueeze(-1)
    a = space.from_unit(U)[:, 0]
    f, f_dev, g, g_dev = _beliefs(strategy, history, U)
    truths = (
        (None, None)
        if problem is None
        else (problem.latent(space.inputs[order]), problem.averages(a.unsqueeze(-1), space.target))
    )
    panels = ((left, x, f[order], f_dev[order], truths[0]), (right, a, g, g_dev, truths[1]))
    for axes, at, mean, deviation, truth in panels:
        axes.fill_between(at, mean - 2 * deviation, mean + 2 * deviation, color=BLUE, alpha=0.15, linewidth=0)
        axes.plot(at, mean, color=BLUE, linewidth=1.8, label="posterior mean, two deviations")
        if truth is not None:
            axes.plot(at, truth, color=INK, linewidth=1.2, linestyle=(0, (5, 1.5)), label="truth")
        axes.set_ylabel("value")
        tidy(axes)
    values = np.array([r.value for r in records])
    centre, covariance = windows(strategy, records)
    deviation = covariance[:, 0, 0].sqrt()
    left.errorbar(
        centre[:, 0],
        values,
        xerr=deviation,
        fmt="o",
        ms=3.5,
        color=ORANGE,
        elinewidth=1.3,
        alpha=0.85,
        label="queries: what they average over",
    )
    right.plot([r.query.x[0] for r in records], values, "o", ms=4, color=ORANGE, label="queries")
    best = x[f[order].argmax()].item()
    left.axvline(best, color=RED, linewidth=1.2, linestyle=(0, (1.2, 1.2)), label="recommended")
    left.set_xlabel("input $x$")
    right.set_xlabel(f"query {space.parameters[0].name}")
    for axes in (left, right):
        axes.legend(fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.05), ncols=2)


def _maps(
    figure: Figure, left: Axes, right: Axes, strategy: OverAverages, history: History, problem: IndirectProblem | None
) -> None:
    space, records = strategy.space, history.done
    side = torch.linspace(0, 1, 61, dtype=torch.double)
    A = torch.cartesian_prod(side, side) if space.choices is None else space.to_unit(space.choices)
    f, _, g, _ = _beliefs(strategy, history, A)
    scale = Normalize(min(f.min().item(), g.min().item()), max(f.max().item(), g.max().item()))
    X, Q = space.inputs.numpy(), space.from_unit(A).numpy()
    for axes, at, mean in ((left, X, f), (right, Q, g)):
        image = axes.tricontourf(at[:, 0], at[:, 1], mean.numpy(), levels=24, cmap=COLORMAP, norm=scale)
        axes.set_xlim(at[:, 0].min(), at[:, 0].max())
        axes.set_ylim(at[:, 1].min(), at[:, 1].max())
        axes.tick_params(colors=INK, labelsize=9)
    if problem is not None:
        truths = (problem.latent(space.inputs), problem.averages(space.from_unit(A), space.target))
        for axes, at, truth in ((left, X, truths[0]), (right, Q, truths[1])):
            levels = np.quantile(truth.numpy(), [0.5, 0.75, 0.9, 0.97])
            axes.tricontour(
                at[:, 0],
                at[:, 1],
                truth.numpy(),
                levels=np.unique(levels),
                colors="white",
                linewidths=0.7,
                linestyles="solid",
                alpha=0.8,
            )
    centre, covariance = windows(strategy, records)
    square = isinstance(
        strategy.conditional().embed(strategy.latent.queries(strategy.space, records[:1])), UniformWindows
    )
    for middle, own in zip(centre, covariance, strict=True):
        left.add_patch(_outline(middle, own, square))
    asked = np.array([r.query.x for r in records])
    right.plot(
        asked[:, 0], asked[:, 1], "o", ms=4.5, color="white", mec=INK, mew=0.8, linestyle="none", label="queries"
    )
    left.plot(
        [],
        [],
        "s" if square else "o",
        ms=8,
        mfc="none",
        mec=ORANGE,
        mew=1.2,
        linestyle="none",
        label="queries: " + ("footprint" if square else "mean and one deviation of $x$ given $a$"),
    )
    best = X[f.argmax()]
    left.plot(*best, "*", ms=15, color=RED, mec="white", mew=0.8, linestyle="none", label="recommended", clip_on=False)
    left.set_xlabel("$x_1$")
    left.set_ylabel("$x_2$")
    right.set_xlabel(space.parameters[0].name)
    right.set_ylabel(space.parameters[1].name)
    for axes in (left, right):
        axes.legend(fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0.0, -0.3), ncols=2)
    name = "posterior mean" + ("" if problem is None else "; white: contours of the truth")
    figure.colorbar(image, ax=[left, right], label=name, pad=0.01)


def _outline(centre: Tensor, covariance: Tensor, square: bool) -> Any:
    """One deviation around a mean, or a footprint."""
    style: dict[str, Any] = {"fill": False, "edgecolor": ORANGE, "linewidth": 1.1, "alpha": 0.9}
    if square:
        half = covariance.diagonal().sqrt()
        corner = (centre - half).tolist()
        return Rectangle((corner[0], corner[1]), 2 * half[0].item(), 2 * half[1].item(), **style)
    variances, axes = torch.linalg.eigh(covariance)
    width, height = (2 * variances.clamp_min(0).sqrt()).tolist()
    angle = math.degrees(math.atan2(axes[1, 0].item(), axes[0, 0].item()))
    return Ellipse((centre[0].item(), centre[1].item()), width, height, angle=angle, **style)


def tree(strategy: CMETS, history: History) -> Figure:
    """The tree of CMETS over a box of two parameters.

    The cells that were asked are shaded, the darker the higher the node, with a point in the middle; the thin lines
    are the leaves, which may be asked next. Beside it is how many nodes of each height were asked, and their cost.

    Args:
        strategy: Bound to its space.
        history: What was asked.

    Raises:
        SettingError: A box of another dimension.
    """
    space = strategy.space
    if space.dim != 2:
        raise SettingError("space", f"{space.dim} parameters", "two")
    figure = canvas(9.0, 5.0)
    box, counts = figure.subplots(1, 2, width_ratios=[2.2, 1])
    asked = [Node(r.query.fidelity, tuple(r.query.meta["node"])) for r in history if "node" in r.query.meta]
    shades = _shades(space.num_fidelities)
    for node in sorted(asked):
        box.add_patch(_cell(strategy, node, facecolor=shades[node.height], edgecolor="white", linewidth=0.6))
    for node in sorted(strategy.tree(history).leaves):
        box.add_patch(_cell(strategy, node, fill=False, edgecolor=INK, linewidth=0.4, alpha=0.6))
    for node in sorted(asked):
        x, y = space.from_unit(torch.tensor(strategy.cut.centre(node), dtype=torch.double)).tolist()
        box.plot(x, y, "o", ms=3.5, color=ORANGE, mec="white", mew=0.5)
    box.set_xlim(*space.bounds[:, 0].tolist())
    box.set_ylim(*space.bounds[:, 1].tolist())
    box.set_xlabel(space.parameters[0].name)
    box.set_ylabel(space.parameters[1].name)
    box.set_title(f"{len(asked)} nodes asked", loc="left", fontsize=11, fontweight="bold", color=INK)
    heights = [sum(node.height == m for node in asked) for m in range(space.num_fidelities)]
    bars = counts.barh(range(len(heights)), heights, color=shades, edgecolor=FAINT, linewidth=0.6)
    counts.bar_label(bars, [f"{n}" for n in heights], fontsize=9, color=INK, padding=3)
    counts.set_yticks(range(len(heights)), [f"height {m}, cost {cost:.3g}" for m, cost in enumerate(space.costs)])
    counts.set_title("nodes asked", loc="left", fontsize=11, fontweight="bold", color=INK)
    counts.xaxis.set_major_locator(MaxNLocator(integer=True))
    counts.set_xlim(0, 1.15 * max([*heights, 1]))
    tidy(counts)
    counts.grid(visible=False)
    return figure


def _shades(count: int) -> list[tuple[float, ...]]:
    """Greens, darker from height to height."""
    ink = np.array([int(GREEN[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return [tuple(1 - (1 - ink * (1 - 0.45 * share)) * (0.15 + 0.85 * share)) for share in np.linspace(0, 1, count)]


def _cell(strategy: CMETS, node: Node, **style: Any) -> Rectangle:
    size = 1 / torch.tensor(strategy.cut.counts(node.height), dtype=torch.double)
    lower = torch.tensor(node.index) * size
    low, high = strategy.space.from_unit(lower).tolist(), strategy.space.from_unit(lower + size).tolist()
    return Rectangle((low[0], low[1]), high[0] - low[0], high[1] - low[1], **style)
