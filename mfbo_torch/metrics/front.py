"""The front of several objectives: the designs that no other one dominates, and the hypervolume below it.

.. [Ishibuchi2011]
    H. Ishibuchi, N. Akedo, Y. Nojima. A Many-Objective Test Problem for Visually Examining Diversity Maintenance
    Behavior in a Decision Space. GECCO 2011.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from botorch.utils.multi_objective.hypervolume import Hypervolume
from botorch.utils.multi_objective.pareto import is_non_dominated
from torch import Tensor
from torch.quasirandom import SobolEngine

from mfbo_torch.history import History, Record, Status
from mfbo_torch.space import Space
from mfbo_torch.space.objectives import Objective, worst_of_interest

EXACT = 4
"""Number of objectives up to which a hypervolume is exact; the time for that grows exponentially with it."""
POINTS = 2**16
"""Number of points of a Sobol sequence by which the hypervolume of more objectives is estimated."""
MARGIN = 0.1
"""How far the reference point is below the worst values of a front, as a part of its ranges [Ishibuchi2011]_."""


def objective_values(records: Iterable[Record], objectives: Sequence[Objective]) -> Tensor:
    """The values ``n x K`` of some records, to be maximised."""
    rows = [[one.signed(record.outcomes[one.name].value) for one in objectives] for record in records]
    return torch.tensor(rows, dtype=torch.double).reshape(-1, len(objectives))


def front(history: History, space: Space) -> list[Record]:
    """The feasible records at the target that no other one dominates, from the best value of the first objective on;
    of records with the same values the first one."""
    records = [r for r in history.select(Status.DONE, space.target) if r.feasible]
    Y = objective_values(records, space.objectives)
    kept = is_non_dominated(Y, deduplicate=True).tolist() if len(Y) else []
    first = [record for record, on_front in zip(records, kept, strict=True) if on_front]
    return sorted(first, key=lambda record: (-(record.value or 0.0), record.id))


def reference_point(space: Space, Y: Tensor, ordinary: Tensor | None = None) -> Tensor:
    """From where the hypervolume is counted, ``K`` values to be maximised: what the objectives or their limits say, and
    where they say nothing the worst value on the front of ``n x K`` values less :data:`MARGIN` of the range there,
    or an ``ordinary`` value, of ``K``, where that is worse."""
    best = Y[is_non_dominated(Y)]
    found = best.amin(0) - MARGIN * ranges(best, Y)
    if ordinary is not None:
        found = torch.minimum(found, ordinary)
    given = worst_of_interest(space.objectives, space.limits)
    return torch.tensor([f if g is None else g for f, g in zip(found.tolist(), given, strict=True)], dtype=torch.double)


def ranges(*several: Tensor) -> Tensor:
    """The ranges of the columns of ``n x K`` values; where one is 0, that of the next values, of the last ones the size
    of the values, or 1."""
    last = several[-1].amin(0)
    found = torch.zeros_like(last)
    for wider in (*[Y.amax(0) - Y.amin(0) for Y in several], last.abs(), torch.ones_like(last)):
        found = torch.where(found > 0, found, wider)
    return found


def hypervolume(Y: Tensor, reference: Tensor) -> float:
    """The volume that ``n x K`` values to be maximised dominate above a reference point: of more than :data:`EXACT`
    objectives the part of :data:`POINTS` points, between that and the best of each, that they dominate."""
    if len(reference) > EXACT:
        return float(_estimated(Y, reference)[-1]) if len(Y) else 0.0
    above = Y[Y.gt(reference).all(-1)]
    return float(Hypervolume(reference).compute(above[is_non_dominated(above)])) if len(above) else 0.0


def hypervolumes(history: History, space: Space, reference: Tensor) -> Tensor:
    """The hypervolume of the feasible values at the target after each of the ``n`` records, shape ``n``."""
    counts = [r.status == Status.DONE and r.query.fidelity == space.target and r.feasible for r in history]
    if len(reference) > EXACT:
        counting = [r for r, own in zip(history, counts, strict=True) if own]
        grown = torch.cat([reference.new_zeros(1), _estimated(objective_values(counting, space.objectives), reference)])
        return grown[torch.tensor(counts, dtype=torch.long).cumsum(0)]
    found, seen, volume = [], torch.zeros(0, len(reference), dtype=torch.double), 0.0
    for record, own in zip(history, counts, strict=True):
        if own:
            new = objective_values([record], space.objectives)
            if not (seen >= new).all(-1).any():
                seen = torch.cat([seen[~(new >= seen).all(-1)], new])
                volume = hypervolume(seen, reference)
        found.append(volume)
    return torch.tensor(found, dtype=torch.double)


def _estimated(Y: Tensor, reference: Tensor) -> Tensor:
    """The estimated hypervolume of the first 1, 2, ... of ``n x K`` values, shape ``n``."""
    if not len(Y):
        return Y.new_zeros(0)
    sides = (Y.amax(0) - reference).clamp_min(0.0)
    points = reference + sides * SobolEngine(len(reference), scramble=True, seed=0).draw(POINTS, dtype=torch.double)
    left, found = points, []
    for row in Y:
        left = left[(left > row).any(-1)]
        found.append(sides.prod() * (1 - len(left) / POINTS))
    return torch.stack(found)


def knee(Y: Tensor) -> int:
    """Which of the ``n x K`` values of a front, to be maximised, is nearest to the best of each objective, in units of
    the ranges."""
    extent = Y.amax(0) - Y.amin(0)
    lost = (Y.amax(0) - Y) / torch.where(extent > 0, extent, torch.ones_like(extent))
    return int(lost.square().sum(-1).argmin())
