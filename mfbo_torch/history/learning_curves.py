"""Learning curves: what each training has reported, over all the queries that it went through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mfbo_torch.history.continuation import lower_training
from mfbo_torch.history.observation import unusable
from mfbo_torch.history.record import Points, Record, Status
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number

if TYPE_CHECKING:
    from mfbo_torch.space.space import Space

Given = Mapping[float, float] | Iterable[tuple[float, float]]
"""A curve as users tell it: values by step, or pairs of both."""


@dataclass(frozen=True)
class LearningCurve:
    """The curve of one training.

    Attributes:
        id: The number of its first query.
        x: Its design, in the user's units.
        points: Its steps, such as epochs, in their order, and the value at each.
        fidelity: The highest at which it has a value, -1 before the first.
        status: That of its last query; pending as long as any is.
    """

    id: int
    x: tuple[float, ...]
    points: Points
    fidelity: int
    status: Status

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return iter(self.points)

    @property
    def steps(self) -> tuple[float, ...]:
        """The steps that have a value."""
        return tuple(step for step, _ in self.points)

    @property
    def values(self) -> tuple[float, ...]:
        """The value at each of the steps."""
        return tuple(value for _, value in self.points)

    def signed(self, maximize: bool) -> LearningCurve:
        """The curve of values to be maximised in the objective's own sign."""
        return self if maximize else replace(self, points=tuple((step, 0.0 - value) for step, value in self.points))


def steps(space: Space) -> tuple[float, ...]:
    """The step that each fidelity stands for: its value where that is a number, such as of epochs; else its cost."""
    named = None if space.fidelities is None else space.fidelities.costs
    return tuple(map(float, named or space.costs))


def learning_curves(records: Iterable[Record], space: Space) -> list[LearningCurve]:
    """The curve of each design, in the order in which they were begun; a value at a fidelity is one at its step."""
    at, own = steps(space), dict[tuple[float, ...], list[Record]]()
    for record in records:
        own.setdefault(record.query.x, []).append(record)
    return [_curve(x, some, at) for x, some in own.items()]


def _curve(x: tuple[float, ...], records: list[Record], at: tuple[float, ...]) -> LearningCurve:
    """The curve of all the queries of one design."""
    points, reached = dict[float, float](), -1
    for record in records:
        points.update(record.curve)
        if record.status == Status.DONE and record.value is not None:
            points[at[record.query.fidelity]], reached = record.value, max(reached, record.query.fidelity)
    pending = any(record.status == Status.PENDING for record in records)
    status = Status.PENDING if pending else records[-1].status
    return LearningCurve(records[0].id, x, tuple(sorted(points.items())), reached, status)


def cost_at(space: Space, step: float, record: Record, records: Iterable[Record]) -> float:
    """What a query costs whose training ended at a step: at most what it was to cost."""
    base = lower_training(records, record.query.x, record.query.fidelity) if space.continues else None
    reached = float(np.interp(step, [0.0, *steps(space)], [0.0, *space.costs]))
    return min(max(reached - (0.0 if base is None else base.paid), 0.0), record.cost)


def checked_points(curve: Given) -> Points:
    """A curve that a user tells, in the order of its steps; a ``SettingError`` where it is none."""
    wanted = "steps and finite values, as in {1: 0.7, 2: 0.8}"
    try:
        pairs: Any = [*(curve.items() if isinstance(curve, Mapping) else curve)]
        found = {number("curve", step, wanted=wanted): number("curve", value, wanted=wanted) for step, value in pairs}
    except (TypeError, ValueError) as error:
        raise SettingError("curve", curve, wanted) from error
    for value in found.values():
        if reason := unusable(value):
            raise SettingError("curve", value, f"in range: {reason}")
    return tuple(sorted(found.items()))
