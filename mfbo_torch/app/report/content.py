"""What the page is made of: every record, and the model's predictions along each parameter."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mfbo_torch.app import notes, tabular_io
from mfbo_torch.app.summary import Summary
from mfbo_torch.history import History
from mfbo_torch.strategies.explanation import Explanation
from mfbo_torch.utils.validation import describe

MOST_EXPLAINED = 2000
"""Number of last queries whose explanations are in a file."""
GRID = 81
"""Designs along each slice."""

NEAR, MOST_NEAR = 0.05, 200
"""The largest distance from a slice, in the unit cube, of observations that are drawn beside it; and their number."""


def content(run: Summary, folder: Path | None = None) -> dict[str, Any]:
    """Every record: its ``"columns"`` of :func:`~mfbo_torch.app.tabular_io.shown`, the ``"best"`` one's id, the
    ``"notes"`` on queries, and ``"why"`` the last :data:`MOST_EXPLAINED` and the best were made."""
    history, best = run.history, None if run.best is None else run.best.id
    last = range(max(0, len(history) - MOST_EXPLAINED), len(history))
    explained = {i: why(run, i) for i in {*last, *([] if best is None else [best])}}
    kept = {} if folder is None else notes.read(folder)
    return {"columns": tabular_io.shown(history, run.problem), "best": best, "why": explained, "notes": kept}


def why(run: Summary, id: int) -> str:
    """Why a query was made, and what came of it."""
    return str(Explanation(run.history.records[id], run.history, run.problem.space, run.problem.signed))


def predict(run: Summary, history: History, X: Tensor) -> tuple[Tensor, Tensor] | str | None:
    """Means and deviations of the strategy's model of a history; why it cannot be made here; ``None`` without one."""
    try:
        return run.strategy.predict(history, X)
    except Exception as error:  # a device that is not here, data that no model can be made of
        return f"The model could not be made here: {describe(error)}"


def slices(run: Summary) -> dict[str, Any]:
    """What the strategy's model says along each parameter through the best design, or ``{"missing": why}``.

    A panel has the designs ``"x"``, the mean and deviation at the highest fidelity of each stretch (``None`` where the
    model says nothing of it) and the ids of observations near the line.
    """
    problem, history, space = run.problem, run.history, run.problem.space
    found = [best for m in range(space.num_fidelities) if (best := history.best(m)) is not None]
    if not found:
        return {"missing": "There is no observation yet."}
    through = found[-1]
    x = torch.tensor(through.query.x, dtype=torch.double)
    lines = _lines(run, x)
    predicted = predict(run, history, torch.cat(lines))
    if not isinstance(predicted, tuple):
        return {"missing": predicted or f"{type(run.strategy).__name__} has no model of the objective."}
    sizes, sign = [len(line) for line in lines], problem.signed(1.0)
    means, deviations = (sign * predicted[0]).split(sizes), predicted[1].split(sizes)
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
