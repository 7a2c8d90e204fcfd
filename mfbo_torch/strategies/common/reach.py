"""Values whose squares overflow or vanish, brought within reach of the models by exact powers of two."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import torch

from mfbo_torch.history import History, Query, Recommendation, Record
from mfbo_torch.space import Space
from mfbo_torch.space.indirect import IndirectSpace

if TYPE_CHECKING:
    from mfbo_torch.strategies.common.model_based import ModelBased

STEP = 512
"""Values are multiplied by powers of ``2^512``: the largest are then between ``2^-257`` and ``2^256``, and most runs
keep their own units."""
APART = 400
"""A fidelity whose largest value is so many powers of two below that of another has a unit of its own."""
FAR = 2.0**200
"""A standard error that is so many times as large as every value is as good as any larger one."""
LARGEST = torch.finfo(torch.double).max
PUBLIC = ("ask", "predict", "recommend", "explained")
"""What is asked of a strategy from outside."""

P = ParamSpec("P")
S = TypeVar("S", bound="ModelBased")


class Reach:
    """By which powers of two the values of each fidelity are divided.

    Args:
        history: Everything asked so far.
        target: The fidelity that counts.
    """

    def __init__(self, history: History, target: int) -> None:
        self.target = target
        self.sizes: dict[int, float] = {}
        errors: dict[int, float] = {}
        for record in history.done:
            m, error = record.query.fidelity, record.standard_error or 0.0
            self.sizes[m] = max(self.sizes.get(m, 0.0), abs(record.value or 0.0))
            errors[m] = max(errors.get(m, 0.0), error)
        self.sizes = {m: size or errors[m] for m, size in self.sizes.items()}
        own = {m: math.frexp(size)[1] for m, size in self.sizes.items() if size}
        self.common = _on_grid(max(own.values(), default=0))
        self.powers = {m: _on_grid(e) for m, e in own.items() if e < self.common - APART}
        self.needed = bool(self.common or self.powers) or any(errors[m] > FAR * s for m, s in self.sizes.items())

    def __getitem__(self, fidelity: int) -> int:
        return self.powers.get(fidelity, self.common)

    def history(self, history: History) -> History:
        """The same history in reach."""
        return History(map(self._record, history))

    def query(self, query: Query, sign: int = 1) -> Query:
        """A query with what it notes of values in the user's units again (``sign`` 1), or in reach (-1)."""
        return replace(query, meta=self._noted(query.meta, query.fidelity, sign)) if self.needed else query

    def recommended(self, given: Record | Recommendation | None, history: History) -> Any:
        """What is recommended, in the user's units."""
        if given is None:
            return None
        if isinstance(given, Record):
            return next(record for record in history if record.id == given.id)
        noise = tuple(None if part is None else _times(part, self[m]) for m, part in enumerate(given.noise))
        best = given.best and self.recommended(given.best, history)
        mean, deviation = (_times(part, self[self.target]) for part in (given.mean, given.deviation))
        return replace(given, mean=mean, deviation=deviation, noise=noise, best=best)

    def _record(self, record: Record) -> Record:
        m = record.query.fidelity
        value, error = record.value, record.standard_error
        value = None if value is None else math.ldexp(value, -self[m])
        error = None if error is None else math.ldexp(min(error, FAR * self.sizes.get(m, LARGEST / FAR)), -self[m])
        return replace(record, query=self.query(record.query, -1), value=value, standard_error=error)

    def _noted(self, meta: Mapping[str, Any], m: int, sign: int) -> dict[str, Any]:
        of = {"mean": m, "deviation": m, "mean_below": m - 1} | dict.fromkeys(
            ("zeta", "gamma", "foretold"), self.target
        )
        return {key: _times(value, sign * self[of[key]]) if key in of else value for key, value in meta.items()}


def in_reach(method: Callable[Concatenate[S, History, P], Any]) -> Callable[Concatenate[S, History, P], Any]:
    """A method of :data:`PUBLIC` that may take any finite values: it sees a history in reach, and what it gives is in
    the units of the one that it was given. Where no value is out of reach, nothing is changed.

    A process that is known beforehand has units of its own; there nothing is scaled.
    """

    @functools.wraps(method)
    def scaled(self: S, history: History, *args: P.args, **kwargs: P.kwargs) -> Any:
        reach = Reach(history, self.space.target)
        if not reach.needed or getattr(self, "prior", None) is not None:
            return method(self, history, *args, **kwargs)
        found = method(self.moved(_space(self.space, reach)), reach.history(history), *args, **kwargs)
        if method.__name__ == "ask":
            return [reach.query(query) for query in found]
        if method.__name__ == "recommend":
            return reach.recommended(found, history)
        if method.__name__ == "predict" and found is not None:
            powers = torch.tensor([reach[m] for m in range(self.space.num_fidelities)])
            return tuple(torch.ldexp(torch.ldexp(part, powers // 2), powers - powers // 2) for part in found)
        return found

    return scaled


def _space(space: Space, reach: Reach) -> Space:
    """The space with its noise in reach."""
    if not isinstance(space, IndirectSpace) or space.noise_std is None:
        return space
    return replace(space, noise_std=tuple(min(_times(std, -reach[m]), FAR) for m, std in enumerate(space.noise_std)))


def _on_grid(exponent: int) -> int:
    return STEP * round(exponent / STEP)


def _times(value: Any, power: int) -> Any:
    """A number, or all numbers within, times a power of two, finite."""
    if isinstance(value, Mapping):
        return {key: _times(part, power) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_times(part, power) for part in value]
    try:
        return math.ldexp(value, power)
    except OverflowError:
        return math.copysign(LARGEST, value)
