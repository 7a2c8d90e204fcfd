"""A function seen through averages, in one dimension: the posterior of ``f`` beside that of ``g``."""

import numpy as np
import torch
from matplotlib.figure import Figure

from mfbo_torch.history import History
from mfbo_torch.loop.plots import BLUE, INK, ORANGE, RED, tidy
from mfbo_torch.loop.runner import run
from mfbo_torch.models.indirect.unit_conditionals import reach
from mfbo_torch.problems import ShiftedPeak
from mfbo_torch.problems.indirect.base import IndirectProblem
from mfbo_torch.strategies import CMES
from mfbo_torch.strategies.common.fit_schedule import quiet as unwarned
from mfbo_torch.strategies.indirect.base import OverAverages

CAPITAL = 15.0


def posteriors(strategy: OverAverages, history: History, problem: IndirectProblem) -> Figure:
    """The posterior of ``f`` over inputs beside that of ``g`` over queries of the finest resolution, in one dimension.

    Each query so far is drawn over ``f`` as the mean and one deviation of what it averages over, p(x | a).
    """
    figure = Figure(figsize=(10.0, 4.4), layout="constrained")  # a canvas draws no formulas
    left, right = figure.subplots(1, 2)
    space, records = strategy.space, history.done
    order = space.inputs[:, 0].argsort()
    x = space.inputs[order, 0]
    U = torch.linspace(0, 1, 301, dtype=torch.double).unsqueeze(-1)
    a = space.from_unit(U)[:, 0]
    model, shift, scale = strategy.model(strategy.snapshot(history))
    level = torch.full((len(U), space.num_fidelities > 1), float(space.target), dtype=torch.double)
    with torch.no_grad(), unwarned():
        f, f_var = model.latent_mean_variance(strategy.inputs())
        g, g_var = model.mean_variance(torch.cat([U, level], -1))
        embedding = strategy.conditional().embed(strategy.queries(records))
    f, g = shift + scale * f, shift + scale * g
    f_dev, g_dev = scale * f_var.sqrt(), scale * g_var.sqrt()
    truths = problem.latent(space.inputs[order]), problem.averages(a.unsqueeze(-1), space.target)
    panels = ((left, x, f[order], f_dev[order], truths[0]), (right, a, g, g_dev, truths[1]))
    for axes, at, mean, deviation, truth in panels:
        axes.fill_between(at, mean - 2 * deviation, mean + 2 * deviation, color=BLUE, alpha=0.15, linewidth=0)
        axes.plot(at, mean, color=BLUE, linewidth=1.8, label="posterior mean, two deviations")
        axes.plot(at, truth, color=INK, linewidth=1.2, linestyle=(0, (5, 1.5)), label="truth")
        axes.set_ylabel("value")
        tidy(axes)
    values = np.array([r.value for r in records])
    lower, span = reach(space)
    left.errorbar(
        (lower + span * embedding.location)[:, 0],
        values,
        xerr=(span * embedding.width)[:, 0],
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
    left.set_title("what is believed of $f$", loc="left", fontsize=11, fontweight="bold", color=INK)
    right.set_title("what is seen of $g$", loc="left", fontsize=11, fontweight="bold", color=INK)
    return figure


def shifted_peak(share: float) -> Figure:
    """The posteriors after a run of CMES that has spent a share of its capital."""
    problem, capital = ShiftedPeak(), share * CAPITAL
    history = run(problem, CMES(), capital, progress=False)
    return posteriors(CMES().bind(problem.space, capital), history, problem)
