"""What the page is made of: every record, and slices of the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from mfbo_torch.app.summary import Summary
from mfbo_torch.loop.evaluation import describe
from mfbo_torch.space.parameter import Parameter, text

GRID = 81
"""Designs along each slice."""

NEAR, MOST_NEAR = 0.05, 200
"""How far from a slice, in the unit cube, observations are drawn beside it, and at most how many."""


def content(run: Summary) -> dict[str, Any]:
    """Every record, as the columns of the table in JSON values.

    Values are in the problem's own sign and exact but for times, which are in whole microseconds.

    Returns:
        ``{"columns": [{"title", "kind", "cells"}], "best": id}``; a column is of numbers (``"num"``) or texts
        (``"string"``), a cell ``None`` where there is nothing.
    """
    problem, history = run.problem, run.history
    space = problem.space
    best, unit = history.best(space.target), " (s)" if space.measured else ""
    columns: dict[str, list[Any]] = {"query": [r.id for r in history]}
    columns["fidelity"] = [space.fidelity_name(r.query.fidelity) for r in history]
    named = [space.named(r.query.x) for r in history]
    kinds = {}
    for i, p in enumerate(space.parameters):
        name = p.name if p.name not in columns else f"{p.name} "
        columns[name] = [_cell(p, each, r.query.x[i]) for r, each in zip(history, named, strict=True)]
        kinds[name] = "string" if p.choices else "num"
    columns["value"] = [problem.value_of(r) for r in history]
    if any(r.standard_error is not None for r in history):
        columns["standard error"] = [r.standard_error for r in history]
    if space.limits:
        columns["feasible"] = ["yes" if r.feasible else "no" for r in history]
    columns[f"cost{unit}"] = [r.cost for r in history]
    columns[f"capital spent{unit}"] = list(accumulate(r.cost for r in history))
    columns["status"] = [str(r.status) for r in history]
    columns["deciding (s)"] = [round(r.decision_seconds, 6) for r in history]
    columns["evaluating (s)"] = [round(r.evaluation_seconds, 6) for r in history]
    columns["reason"] = [r.reason or None for r in history]
    kinds.update(dict.fromkeys(("fidelity", "feasible", "status", "reason"), "string"))
    return {
        "columns": [
            {"title": name.rstrip(), "kind": kinds.get(name, "num"), "cells": cells} for name, cells in columns.items()
        ],
        "best": None if best is None else best.id,
    }


def _cell(parameter: Parameter, named: Mapping[str, Any], x: float) -> Any:
    """What the table has of a parameter: its label or number, nothing where it is not there."""
    if parameter.name not in named:
        return None
    return text(named[parameter.name]) if parameter.choices else round(x) if parameter.integer else x


def slices(run: Summary) -> dict[str, Any]:
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


def _lines(run: Summary, x: Tensor) -> list[Tensor]:
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


def _near(run: Summary, x: Tensor) -> list[list[int]]:
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


def _rounded(values: Tensor) -> list[float | None]:
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
