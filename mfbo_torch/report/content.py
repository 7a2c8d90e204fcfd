"""What the page draws: the space, the records by column, slices of the model."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mfbo_torch.evaluation import describe
from mfbo_torch.experiment import Experiment
from mfbo_torch.history import Status
from mfbo_torch.parameters import text

GRID = 81
"""Designs along each slice."""

NEAR, MOST_NEAR = 0.05, 200
"""How far from a slice, in the unit cube, observations are drawn beside it, and at most how many."""


def content(run: Experiment) -> dict[str, Any]:
    """Everything the page draws, as JSON values: the space, the records by column, the slices.

    Values are in the problem's own sign, and records exact but for times, which are in whole
    microseconds.
    """
    problem, history = run.problem, run.history
    space = problem.space
    best = history.best(space.target)
    place = {m: i for i, part in enumerate(space.stretches) for m in part}
    errors = [r.standard_error for r in history]
    return {
        "maximize": problem.maximize,
        "optimum": problem.optimum,
        "measured": space.measured,
        "best": None if best is None else best.id,
        "parameters": [
            {
                "name": p.name,
                "lower": p.lower,
                "upper": p.upper,
                "log": p.log,
                "integer": p.integer,
                **({"labels": [text(label) for label in p.choices]} if p.choices else {}),
            }
            for p in space.parameters
        ],
        "fidelities": [
            {"name": space.stretch_name(part), "cost": None if space.measured else space.costs[part[-1]]}
            for part in space.stretches
        ],
        "records": {
            "x": [
                [round(r.query.x[i]) if p.integer else r.query.x[i] for r in history]
                for i, p in enumerate(space.parameters)
            ],
            "fidelity": [place[r.query.fidelity] for r in history],
            "value": [problem.value_of(r) for r in history],
            "cost": [r.cost for r in history],
            "status": [str(r.status) for r in history],
            "deciding": [round(r.decision_seconds, 6) for r in history],
            "evaluating": [round(r.evaluation_seconds, 6) for r in history],
            "reason": {r.id: r.reason for r in history.select(Status.FAILED)},
            **({"absent": _absent(run)} if any(p.when for p in space.parameters) else {}),
            **({"error": errors} if any(error is not None for error in errors) else {}),
            **({"feasible": [r.feasible for r in history]} if space.limits else {}),
        },
        "slices": slices(run),
    }


def slices(run: Experiment) -> dict[str, Any]:
    """What the strategy's model says along each parameter through the best design.

    Returns:
        ``{"through": id, "fidelity": m, "panels": [...]}``, for each parameter the designs
        ``"x"``, ``"mean"`` and ``"deviation"`` of each fidelity, or the highest of each stretch (``None`` where the
        model says nothing of it) and the ids of observations near the line; or ``{"missing": why}``.
    """
    problem, strategy, history = run.problem, run.strategy, run.history
    space = problem.space
    found = [best for m in range(space.num_fidelities) if (best := history.best(m)) is not None]
    if not found:
        return {"missing": "There is no observation yet."}
    through = found[-1]
    x = torch.tensor(through.query.x, dtype=torch.double)
    lines = _lines(run, x)
    try:
        believed = strategy.predict(history, torch.cat(lines))
    except Exception as error:  # a device that is not here, a model that cannot be made
        return {"missing": f"The model could not be made here: {describe(error)}"}
    if believed is None:
        return {"missing": f"{type(strategy).__name__} has no model of the objective."}
    sizes, sign = [len(line) for line in lines], problem.signed(1.0)
    means, deviations = (sign * believed[0]).split(sizes), believed[1].split(sizes)
    panels = []
    for i, (line, mean, deviation, near) in enumerate(zip(lines, means, deviations, _near(run, x), strict=True)):
        tops = [part[-1] for part in space.stretches]
        levels = [(_rounded(mean[:, m]), _rounded(deviation[:, m])) for m in tops]
        known = [None if None in level[0] else {"mean": level[0], "deviation": level[1]} for level in levels]
        panels.append({"x": line[:, i].tolist(), "levels": known, "near": near})
    return {"through": through.id, "panels": panels}


def _lines(run: Experiment, x: Tensor) -> list[Tensor]:
    """For each parameter the designs on the line through ``x``, which is one of them."""
    space = run.problem.space
    shares = torch.linspace(0.0, 1.0, GRID, dtype=torch.double).unsqueeze(-1).expand(-1, space.dim)
    axes = space.along(shares) if space.mixed else space.from_unit(shares)
    lines = []
    for i in range(space.dim):
        places = torch.cat([axes[:, i], x[i : i + 1]]).unique()
        line = x.repeat(len(places), 1)
        line[:, i] = places
        lines.append(line)
    return lines


def _near(run: Experiment, x: Tensor) -> list[list[int]]:
    """For each parameter the ids of the observations nearest to the line through ``x``."""
    groups = torch.tensor(run.problem.space.groups or range(run.problem.space.dim))
    space, done = run.problem.space, run.history.done
    designs = torch.tensor([r.query.x for r in done], dtype=torch.double)
    gaps = (space.to_unit(designs) - space.to_unit(x)).abs()
    chosen = []
    for i in range(space.dim):
        others = gaps.clone()
        others[:, groups == i] = 0.0
        distance, order = others.amax(dim=-1).sort(stable=True)
        inside = order[distance <= NEAR][:MOST_NEAR]
        chosen.append([done[k].id for k in inside.tolist()])
    return chosen


def _absent(run: Experiment) -> list[list[int]]:
    """For each parameter the ids of the records where it is not there."""
    named = [(r.id, run.problem.space.named(r.query.x)) for r in run.history]
    return [[id for id, values in named if p.name not in values] for p in run.problem.space.parameters]


def _rounded(values: Tensor) -> list[float | None]:
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
