"""A history of several objectives as histories of one each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mfbo_torch.history import History, Record, Status
from mfbo_torch.space import Space
from mfbo_torch.space.objectives import Objective
from mfbo_torch.utils.memo import Memo

AUGMENTED = 0.05
"""Weight of the sum in :func:`chebyshev`."""


def space_of_one(space: Space, limited: bool) -> Space:
    """The space with one objective; with the limits on other outcomes or without any."""
    names = {one.name for one in space.objectives}
    limits = tuple(limit for limit in space.limits if limited and limit.name not in names)
    return replace(space, objectives=(), limits=limits)


class Views:
    """The histories of single objectives that a history of several consists of."""

    def __init__(self) -> None:
        self._last: Memo[list[History]] = Memo()

    def __call__(self, history: History, space: Space, limited: frozenset[str]) -> list[History]:
        """A history for each objective: its value, to be maximised, and the outcomes that are ``limited``."""
        return self._last(_Same(history), lambda: [_view(history, one, limited) for one in space.objectives])


class _Same:
    """A key that is equal to itself only: the records of two histories are not compared."""

    def __init__(self, history: History) -> None:
        self.history = history

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.history is self.history


def _view(history: History, one: Objective, limited: frozenset[str]) -> History:
    return History([_record(record, one, limited) for record in history])


def _record(record: Record, one: Objective, limited: frozenset[str]) -> Record:
    if record.status != Status.DONE:
        return record
    found = record.outcomes[one.name]
    kept = {name: outcome for name, outcome in record.outcomes.items() if name in limited}
    return replace(record, value=one.signed(found.value), standard_error=found.standard_error, outcomes=kept)


def chebyshev(views: Sequence[History], weights: Tensor, reference: Tensor, ideal: Tensor) -> History:
    r"""The history of one scalarised objective [Knowles2006parego]_ (Eq. 2), to be maximised.

    .. math:: \min_k w_k z_k + 0.05 \sum_k w_k z_k, \qquad z_k = (y_k - i_k) / (i_k - r_k)

    Args:
        views: The histories of the ``K`` objectives.
        weights: ``K`` weights ``w``.
        reference: ``K`` values ``r``.
        ideal: ``K`` values ``i``.
    """
    records = []
    for several in zip(*views, strict=True):
        record = several[0]
        if record.status == Status.DONE:
            Y = torch.tensor([one.value for one in several], dtype=torch.double)
            z = weights * (Y - ideal) / (ideal - reference)
            record = replace(record, value=(z.min() + AUGMENTED * z.sum()).item(), standard_error=None)
        records.append(record)
    return History(records)
