"""Functions of a history that are updated record by record."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Generic, TypeVar

from mfbo_torch.history.history import History
from mfbo_torch.history.record import Record, Status
from mfbo_torch.utils.persistent_sequence import PersistentSequence

S = TypeVar("S")


class Fold(Generic[S]):
    """A state that each record changes, in the order of queries, kept from call to call up to the first pending record,
    for histories that begin with the same records, and to the last one, for those that begin with all. ``start`` makes
    the first state, whose shallow copies must be states of their own; ``add`` gives the state after a record and may
    change the one that it is given."""

    def __init__(self, start: Callable[[], S], add: Callable[[S, Record], S]) -> None:
        self._start, self._add = start, add
        self._records: PersistentSequence[Record] = PersistentSequence()
        self._count, self._state = 0, start()
        self._last = self._records, copy.copy(self._state)

    def __call__(self, history: History) -> S:
        """The state after the last record."""
        records, former, count, (last, state) = history.records, self._records, self._count, self._last
        fresh = records.changed(former)
        begun = last is former and len(former) <= (fresh[0] if fresh else len(records))
        if count > (fresh[0] if fresh else len(records)):
            count, self._state = 0, self._start()
        try:
            while count < len(records) and records[count].status != Status.PENDING:
                self._state = self._add(self._state, records[count])
                count += 1
        finally:
            self._records, self._count = records, count
        begun = begun and len(former) > count
        state = copy.copy(state if begun else self._state)
        for record in records[len(former) if begun else count :]:
            state = self._add(state, record)
        self._last = records, copy.copy(state)
        return state
