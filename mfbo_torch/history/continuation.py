"""Trainings that continue: what has been trained at a design, and what it has cost so far.

Where a space :attr:`~mfbo_torch.space.Space.continues`, a query goes on from the highest fidelity below its own that
has ended well at exactly its design, and costs what is missing: 9 epochs after 3 cost 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mfbo_torch.history.record import Record, Status


class Training(NamedTuple):
    """What has ended well at a design and a fidelity, and what this and all that it went on from has cost."""

    record: Record
    paid: float


def trainings(records: Iterable[Record]) -> dict[tuple[float, ...], dict[int, Training]]:
    """The last training of each design at each fidelity.

    What was observed before a run began has cost it nothing and has left it nothing to go on from; attempts that
    failed have cost something, and have left nothing either.
    """
    found: dict[tuple[float, ...], dict[int, Training]] = {}
    for training in _all(records):
        record = training.record
        if record.status == Status.DONE and record.cost > record.sunk:
            found.setdefault(record.query.x, {})[record.query.fidelity] = training
    return found


def below(records: Iterable[Record], x: Sequence[float], fidelity: int) -> Training | None:
    """What a query at a design and a fidelity goes on from; ``None`` where it begins."""
    design = tuple(x)
    return _below(trainings(record for record in records if record.query.x == design).get(design, {}), fidelity)


def known(records: Iterable[Record], x: Sequence[float]) -> tuple[float, ...]:
    """The design that was asked before where that is ``x`` up to rounding, as from the unit cube and back."""
    for record in records:
        if all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(record.query.x, x, strict=True)):
            return record.query.x
    return tuple(x)


def whole_costs(records: Iterable[Record]) -> list[float]:
    """What each record would have cost from the beginning; attempts that failed not counted."""
    return [training.paid for training in _all(records)]


def _all(records: Iterable[Record]) -> Iterator[Training]:
    """Each record with what it and all that it went on from has cost."""
    found: dict[tuple[float, ...], dict[int, Training]] = {}
    for record in records:
        here = found.setdefault(record.query.x, {})
        base, own = _below(here, record.query.fidelity), record.cost - record.sunk
        training = Training(record, own + (0.0 if base is None else base.paid))
        if record.status == Status.DONE and own > 0:
            here[record.query.fidelity] = training
        yield training


def _below(here: dict[int, Training], fidelity: int) -> Training | None:
    m = max((m for m in here if m < fidelity), default=None)
    return None if m is None else here[m]
