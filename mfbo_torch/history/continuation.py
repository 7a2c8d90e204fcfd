"""Trainings that continue: where a space :attr:`~mfbo_torch.space.Space.continues`, a query goes on from the highest
fidelity below its own that has ended well at exactly its design, and costs the difference: 9 epochs after 3 cost 6."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mfbo_torch.history.record import Record, Status


class Training(NamedTuple):
    """A training that has ended well, and its cost together with that of the trainings it went on from."""

    record: Record
    paid: float


def trainings(records: Iterable[Record]) -> dict[tuple[float, ...], dict[int, Training]]:
    """The last training of each design at each fidelity. Values observed before the run and failed attempts are left
    out: they have left no checkpoint."""
    found: dict[tuple[float, ...], dict[int, Training]] = {}
    for training in _all(records):
        record = training.record
        if record.status == Status.DONE and record.cost > record.sunk:
            found.setdefault(record.query.x, {})[record.query.fidelity] = training
    return found


def lower_training(records: Iterable[Record], x: Sequence[float], fidelity: int) -> Training | None:
    """The training that a query at a design and a fidelity goes on from; ``None`` where it begins anew."""
    design = tuple(x)
    here = trainings(record for record in records if record.query.x == design)
    return _lower_training(here.get(design, {}), fidelity)


def matching_design(records: Iterable[Record], x: Sequence[float]) -> tuple[float, ...]:
    """The former design that equals ``x`` up to rounding, as after the way to the unit cube and back; else ``x``."""
    for record in records:
        if all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(record.query.x, x, strict=True)):
            return record.query.x
    return tuple(x)


def full_costs(records: Iterable[Record]) -> list[float]:
    """The cost that each record would have had from the beginning, without failed attempts."""
    return [training.paid for training in _all(records)]


def _all(records: Iterable[Record]) -> Iterator[Training]:
    """Each record with its cost and that of the trainings it went on from."""
    found: dict[tuple[float, ...], dict[int, Training]] = {}
    for record in records:
        here = found.setdefault(record.query.x, {})
        base, own = _lower_training(here, record.query.fidelity), record.cost - record.sunk
        training = Training(record, own + (0.0 if base is None else base.paid))
        if record.status == Status.DONE and own > 0:
            here[record.query.fidelity] = training
        yield training


def _lower_training(here: dict[int, Training], fidelity: int) -> Training | None:
    m = max((m for m in here if m < fidelity), default=None)
    return None if m is None else here[m]
