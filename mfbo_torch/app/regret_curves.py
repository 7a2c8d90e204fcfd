"""Regret against capital: the curve of a run, and the table and the picture of several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from mfbo_torch.app.tabular_io import csv_text
from mfbo_torch.history import History
from mfbo_torch.loop import plots
from mfbo_torch.metrics import best_values, capital_spent, instant_regret, paid_for, query_costs, regret_at
from mfbo_torch.metrics.front import front, hypervolumes, objective_values, reference_point
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.indirect.base import IndirectProblem
from mfbo_torch.space import Space
from mfbo_torch.utils.files import write_text

POINTS = 201
"""Amounts of capital, from none to all, at which regret is computed."""
REGRETS = {"simple": "simple regret", "cumulative": "cumulative regret / capital"}
"""The regret of each metric; with ``"cumulative"`` it is ``R(Λ) / Λ``."""


class Curve(NamedTuple):
    """How one run went: regret, and the best value at the target in the problem's own sign, at amounts of capital.

    There are :data:`POINTS` of each, NaN where they are not known.
    """

    capital: np.ndarray
    simple: np.ndarray
    cumulative: np.ndarray
    best: np.ndarray


Curves = Mapping[tuple[str, str], Mapping[int, Curve]]
"""Curves by problem and strategy and then by seed."""


def optimum_of(problem: Problem) -> float | None:
    """The best value there is: of the function itself, where queries are averages of it; of one objective."""
    if problem.space.objectives:
        return None
    return problem.latent_optimum if isinstance(problem, IndirectProblem) else problem.optimum


def curve(
    history: History,
    problem: Problem,
    capital: float,
    recommended: Tensor | None = None,
    reference: Tensor | None = None,
) -> Curve:
    """Regret of a history at :data:`POINTS` evenly spaced amounts of capital.

    Simple regret is that of :func:`mfbo_torch.metrics.simple_regret` after the last query that the amount pays for,
    cumulative regret is :func:`mfbo_torch.metrics.cumulative_regret` of the amount. Where a query earns something else
    than its value (the arm of a bandit its mean), both count what was earned, and unused capital earns nothing. Where
    queries are averages, simple regret and best value are those of the ``n`` inputs recommended after each record. Of
    several objectives the best value is the hypervolume above the ``reference`` point.
    """
    target, largest = problem.space.target, problem.maximize or reference is not None
    known = optimum_of(problem), problem.worst
    optimum, worst = (np.nan if value is None else problem.signed(value) for value in known)
    earned = problem.pseudo_rewards(history)
    amounts = np.linspace(0.0, capital, POINTS)
    if earned is None:
        values, instant, idle = best_values(history, target), instant_regret(history, target, optimum, worst), worst
    else:
        at_target = torch.tensor([r.query.fidelity == target for r in history], dtype=torch.bool)
        values = torch.where(at_target, earned, -torch.inf).cummax(0).values
        instant, idle = optimum - earned, 0.0
    if isinstance(problem, IndirectProblem):
        values = torch.full((len(history),), torch.nan, dtype=torch.double) if recommended is None else recommended
    if reference is not None:
        values = hypervolumes(history, problem.space, reference)
    within = paid_for(capital_spent(history), torch.from_numpy(amounts))
    best = np.concatenate([[-np.inf], values.numpy()])[within]
    simple = optimum - np.fmax(best, worst)
    simple[np.isinf(simple)] = np.nan
    cumulative = regret_at(torch.from_numpy(amounts), query_costs(history), instant, optimum - idle).total
    own_sign = np.where(np.isinf(best), np.nan, best if largest else -best)
    return Curve(amounts, simple, cumulative.numpy(), own_sign)


def shared_reference(histories: Iterable[History], space: Space) -> Tensor | None:
    """From where the hypervolume of several runs is counted: found from all of them together; ``None`` of one objective
    and where nothing feasible was observed at the target."""
    if not space.objectives:
        return None
    fronts = [objective_values(front(history, space), space.objectives) for history in histories]
    Y = torch.cat(fronts) if fronts else torch.zeros(0, len(space.objectives))
    return reference_point(space, Y) if len(Y) else None


def write_table(path: Path, curves: Curves) -> None:
    """The curves of every run as one CSV table."""
    columns = ("capital", "simple_regret", "cumulative_regret", "best_value")
    table = [["problem", "strategy", "seed", *columns]]
    for (problem, strategy), runs in curves.items():
        for seed, run in runs.items():
            for row in zip(*run, strict=True):
                table.append([problem, strategy, str(seed), *("" if np.isnan(x) else repr(float(x)) for x in row)])
    write_text(path, csv_text(table))


def measure(problem: Problem, metric: str) -> str:
    """What is drawn of a problem's runs: the regret that the metric names, the best value without an optimum, or the
    hypervolume of several objectives."""
    if problem.space.objectives:
        return "hypervolume"
    return "best value" if optimum_of(problem) is None else REGRETS[metric]


def _drawn(run: Curve, problem: Problem, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The amounts of capital and the values of :func:`measure` there."""
    if optimum_of(problem) is None:
        return run.capital, run.best
    if metric == "simple":
        return run.capital, run.simple
    return run.capital[1:], run.cumulative[1:] / run.capital[1:]


def draw(problems: Mapping[str, Problem], curves: Curves, metric: str) -> Figure:
    """A panel for each problem: what :func:`measure` says of each strategy, mean and standard error over its runs."""
    panels: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for (name, strategy), runs in curves.items():
        found = [_drawn(run, problems[name], metric) for run in runs.values()]
        panels.setdefault(name, {})[strategy] = (found[0][0], np.array([values for _, values in found]))
    labels = {name: measure(problems[name], metric) for name in panels}
    return plots.regret(panels, labels, [name for name in panels if optimum_of(problems[name]) is None])


def final(run: Curve, problem: Problem, metric: str) -> float:
    """What a run ends with, as it is drawn."""
    return float(_drawn(run, problem, metric)[1][-1])
