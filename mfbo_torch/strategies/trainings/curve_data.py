"""What a model of learning curves is made of."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from mfbo_torch.history import Record, Status
from mfbo_torch.history.learning_curves import steps
from mfbo_torch.space import Space
from mfbo_torch.strategies.snapshot import Data

SPACING = 1.4
"""Ratio of the steps of a curve that a model sees, and all that are pauses: neighbours say nearly the same."""


def marks(space: Space) -> frozenset[float]:
    """The steps that a model sees: those of the fidelities, and between them whole ones :data:`SPACING` apart."""
    at = steps(space)
    found, step = set(at), 1.0
    while step < at[-1]:
        if all(max(step / other, other / step) >= SPACING for other in found):
            found.add(step)
        step = max(step + 1, float(round(step * SPACING)))
    return frozenset(found)


def time_of(step: float, space: Space) -> float:
    """The step on the model's axis, 1 at the target; the first step of a unit is at 0."""
    last = steps(space)[-1]
    return math.log(max(step, 1e-12)) / math.log(last) if last > 1 else step / last


def curve_data(records: Iterable[Record], space: Space) -> Data:
    r"""The values at the marks of all curves, in the order in which they were observed; of a query between them the
    last value. Points have :math:`t = \log e / \log E` last."""
    at, seen, rows, values = steps(space), marks(space), list[list[float]](), list[list[float]]()
    errors: list[float | None] = []
    known: set[tuple[tuple[float, ...], float]] = set()
    times = cache(lambda step: time_of(step, space))
    for record in records:
        points = dict(record.curve)
        if record.status == Status.DONE and record.value is not None:
            points[at[record.query.fidelity]] = record.value
        kept = {step: value for step, value in points.items() if step in seen} or dict([*points.items()][-1:])
        for step, value in sorted(kept.items()):
            if (record.query.x, step) not in known:
                known.add((record.query.x, step))
                rows.append([*record.query.x, times(step)])
                values.append([value])
                errors.append(record.standard_error if value == record.value else None)
    raw = torch.tensor(rows, dtype=torch.double).reshape(-1, space.dim + 1)
    X = torch.cat([space.to_unit(raw[:, :-1]), raw[:, -1:]], dim=-1)
    noise = None if None in errors else torch.tensor([[error or 0.0] for error in errors], dtype=torch.double) ** 2
    return Data(X, torch.tensor(values, dtype=torch.double).reshape(-1, 1), noise)


def thinned(data: Data, most: int) -> Data:
    """At most so many of the points: the last of each curve, and others evenly; all of them where they are few."""
    n = len(data.Y)
    if n <= most:
        return data
    _, of = torch.unique(data.X[:, :-1], dim=0, return_inverse=True)
    last = torch.zeros(int(of.max()) + 1, dtype=torch.long).scatter_reduce(0, of, torch.arange(n), "amax")
    rest = torch.ones(n, dtype=torch.bool).index_fill(0, last, False).nonzero().squeeze(-1)
    some = rest[torch.linspace(0, len(rest) - 1, max(most - len(last), 0)).round().long()]
    return data.rows(torch.cat([last[-most:], some]).sort().values)


class CurveScale(NamedTuple):
    """How values are seen: losses, which are negative here, by minus their logarithm; and no worse than ``floor``."""

    logarithmic: bool
    floor: float

    @classmethod
    def of(cls, Y: Tensor) -> CurveScale:
        """From values: they are losses where all are below zero; the bad tail ends one range of the deciles below the
        lowest decile."""
        logarithmic = bool((Y < 0).all())
        seen = -(-Y).log() if logarithmic else Y
        low, high = seen.quantile(0.1).item(), seen.quantile(0.9).item()
        return cls(logarithmic, low - (high - low))

    def __call__(self, Y: Tensor) -> Tensor:
        """Values as they are seen."""
        return (-(-Y).clamp_min(1e-300).log() if self.logarithmic else Y).clamp_min(self.floor)

    def variances(self, Y: Tensor, Yvar: Tensor | None) -> Tensor | None:
        """The variances of the noise in values as they are seen, to first order."""
        return None if Yvar is None else Yvar / Y.square().clamp_min(1e-300) if self.logarithmic else Yvar

    def inverse(self, Z: Tensor) -> Tensor:
        """Back to the values."""
        return -(-Z).exp() if self.logarithmic else Z
