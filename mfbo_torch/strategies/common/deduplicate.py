"""Keeping away from designs that were already queried."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor

from mfbo_torch.history import Record
from mfbo_torch.space import Space
from mfbo_torch.space.indirect import IndirectSpace
from mfbo_torch.strategies.common.initial_design import random_design
from mfbo_torch.strategies.snapshot import Snapshot

OBSERVED_RADIUS = 1e-6
"""Max-norm distance in the unit cube below which an observed design counts as queried again."""
BUSY_RADIUS = 1e-2
"""The same for a design that is pending or failed: its neighbours tell little new or fail as well."""
GRID_LIMIT = 4096
"""Number of designs up to which a finite space is searched exhaustively."""


def distinct(
    u: Tensor,
    taken: Tensor,
    radii: Tensor,
    generator: torch.Generator,
    *,
    snap: Callable[[Tensor], Tensor] = lambda v: v,
    allows: Callable[[Tensor], Tensor] | None = None,
    grid: Tensor | None = None,
    tries: int = 64,
) -> tuple[Tensor, bool]:
    """The design ``u``, or one near it that keeps its distance from every taken design.

    Gaussian steps of growing deviation, clamped to the cube, are tried until the max-norm distance
    to each ``taken[i]`` exceeds ``radii[i]``; then the nearest such point of ``grid``, if there is a
    grid. If none does, the farthest one tried (relative to the radii) is returned.

    Args:
        u: A design in the unit cube, ``d`` numbers.
        taken: ``n x d`` designs to keep away from.
        radii: ``n`` distances to keep.
        generator: Random numbers of the steps.
        snap: Moves a point to the nearest one that is allowed.
        allows: Whether points meet the constraints; one that does not is never clear.
        grid: Every allowed point, ``g x d``, where they are few.
        tries: Number of steps.

    Returns:
        The design, and whether it is clear of all taken ones.
    """
    best = u = snap(u)
    if not len(taken) and allows is None:
        return best, True

    def clearance(points: Tensor) -> Tensor:
        free = torch.full((*points.shape[:-1], 1), torch.inf, dtype=points.dtype)
        rooms = (points.unsqueeze(-2) - taken).abs().amax(dim=-1) / radii
        room = torch.cat([rooms, free], dim=-1).amin(dim=-1)
        return room if allows is None else room.masked_fill(~allows(points), -1.0)

    largest = clearance(u)
    deviation = 2.0 * radii.min().item() if len(radii) else OBSERVED_RADIUS
    for _ in range(tries):
        if largest > 1:
            return best, True
        step = torch.randn(u.shape, generator=generator, dtype=u.dtype)
        moved = snap((u + deviation * step).clamp(0.0, 1.0))
        room = clearance(moved)
        if room > largest:
            best, largest = moved, room
        deviation = min(1.5 * deviation, 1.0)
    if grid is not None and largest <= 1:
        free = grid[clearance(grid) > 1]
        if len(free):
            return free[(free - u).abs().amax(dim=-1).argmin()], True
    return best, bool(largest > 1)


def clear(u: Tensor, fidelity: int, snapshot: Snapshot, generator: torch.Generator) -> Tensor:
    """A design that may be queried: allowed by the space, and not one that was queried at this fidelity.

    Observed designs are kept at :data:`OBSERVED_RADIUS`, pending and failed ones at
    :data:`BUSY_RADIUS`. Where everything has been queried (a finite space), an observed
    design is queried again rather than a pending or failed one. Where only some queries are possible at
    all, and give noisy averages, it is the nearest that is neither pending nor failed.

    Args:
        u: The wanted design in the unit cube, ``d`` or ``1 x d``.
        fidelity: Where it is to be queried.
        snapshot: The space, and what was queried so far.
        generator: Random numbers, a function of the history.

    Returns:
        The design, of the shape of ``u``, double, on the CPU.
    """
    space = snapshot.space
    wanted = u.detach().to("cpu", torch.double).reshape(-1).clamp(0.0, 1.0)
    taken, observed = snapshot.taken(fidelity)
    if isinstance(space, IndirectSpace) and space.candidates:
        return _nearest(space.unit_candidates, wanted, taken[~observed]).reshape(u.shape)
    radii = torch.where(observed, OBSERVED_RADIUS, BUSY_RADIUS).to(torch.double)
    grid = _grid(space)
    allows = space.allows if space.constraints else None
    search = partial(distinct, generator=generator, snap=space.snap, allows=allows, grid=grid)
    found, is_clear = search(wanted, taken, radii)
    if not is_clear and grid is not None:
        found, _ = search(wanted, taken[~observed], radii[~observed])
    if not space.allows(found):
        found = space.snap(random_design(space, generator))
    return found.reshape(u.shape)


def are_clear(designs: Tensor, taken: Tensor, observed: Tensor) -> Tensor:
    """Which of ``n x d`` designs, all of them allowed, :func:`clear` leaves where they are, ``n``, beside those taken,
    ``p x d``, some of which were ``observed``, ``p``."""
    radii = torch.where(observed, OBSERVED_RADIUS, BUSY_RADIUS).to(torch.double)
    return (torch.cdist(designs, taken, p=math.inf) > radii).all(-1)


def apart(designs: Tensor, radius: float, most: int) -> Tensor:
    """The first ``most`` of ``n x d`` designs that are farther than ``radius`` from each one kept before them."""
    close = torch.cdist(designs, designs, p=math.inf) <= radius
    kept: list[int] = []
    for i, near in enumerate(close):
        if len(kept) < most and not near[kept].any():
            kept.append(i)
    return designs[kept]


def used_up(space: Space, records: Iterable[Record], fidelity: int) -> bool:
    """Whether every design of a finite space has been queried at a fidelity."""
    grid = _grid(space)
    if grid is None:
        return False
    queried = {record.query.x for record in records if record.query.fidelity == fidelity}
    return len(queried) >= int(space.allows(grid).sum())


def _nearest(candidates: Tensor, wanted: Tensor, busy: Tensor) -> Tensor:
    """The candidate nearest to ``wanted``, one of ``busy`` only if all are."""
    if len(busy):
        free = (candidates.unsqueeze(-2) - busy).abs().amax(-1).amin(-1) > OBSERVED_RADIUS
        candidates = candidates[free] if free.any() else candidates
    return candidates[(candidates - wanted).square().sum(-1).argmin()]


def _grid(space: Space) -> Tensor | None:
    """Every design of a finite space in the unit cube, ``None`` for any other or a large one."""
    if space.candidates:
        return space.unit_candidates if len(space.candidates) <= GRID_LIMIT else None
    size = 1
    for parameter in space.parameters:
        size *= round(parameter.upper - parameter.lower) + 1 if parameter.integer else GRID_LIMIT + 1
        if size > GRID_LIMIT:
            return None
    axes = [range(round(p.lower), round(p.upper) + 1) for p in space.parameters]
    grid = space.to_unit(torch.tensor(list(itertools.product(*axes)), dtype=torch.double))
    return grid.unique(dim=0) if space.mixed else grid  # designs that differ in what is not there are one
