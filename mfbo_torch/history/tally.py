"""Sums and counts of a history, updated record by record."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mfbo_torch.history.record import Record

Parts = tuple[float, ...]
"""A sum without rounding error, as numbers each of which is less than the last digit of the next one."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums and counts of a history: the costs of all queries and of those that have ended; the pending records by
    number; for each fidelity the queries and the best feasible record, the earliest among equals; the number of records
    with a value, or a curve, observed in this run, of failed ones, of queries that a strategy has decided after its
    first design, and of trainings stopped early."""

    spent: Parts
    settled: Parts
    pending: Mapping[int, Record]
    queries: Mapping[int, int]
    best: Mapping[int, Record]
    evaluated: int
    failed: int
    decided: int
    stopped: int = 0

    @classmethod
    def of(cls, records: Iterable[Record]) -> Tally:
        """The sums and counts of some records."""
        known, pending = list(records), {}
        best: dict[int, Record] = {}
        evaluated = failed = stopped = 0
        for record in known:
            if record.status == "pending":
                pending[record.id] = record
            elif record.status == "failed":
                failed += 1
            else:
                evaluated += not record.given
                stopped += record.status == "stopped"
                if _better(record, best.get(record.query.fidelity)):
                    best[record.query.fidelity] = record
        spent = parts(record.cost for record in known)
        settled = parts(record.cost for record in known if record.status != "pending")
        queries = Counter(record.query.fidelity for record in known)
        decided = sum(map(_decided, known))
        return cls(spent, settled, pending, queries, best, evaluated, failed, decided, stopped)

    def asked(self, record: Record) -> Tally | None:
        """With one more pending record; ``None`` where all records must be counted again."""
        if not math.isfinite(record.cost):
            return None
        fidelity = record.query.fidelity
        return replace(
            self,
            spent=parts([*self.spent, record.cost]),
            pending={**self.pending, record.id: record},
            queries={**self.queries, fidelity: self.queries.get(fidelity, 0) + 1},
            decided=self.decided + _decided(record),
        )

    def updated(self, old: Record, new: Record) -> Tally | None:
        """With a newer state of a pending record; ``None`` where all records must be counted again."""
        former = old.status == "pending" and (old.id, old.query) == (new.id, new.query)
        if not (former and math.isfinite(old.cost) and math.isfinite(new.cost)):
            return None
        spent = self.spent if old.cost == new.cost else parts([*self.spent, -old.cost, new.cost])
        if new.status == "pending":
            return replace(self, spent=spent, pending={**self.pending, new.id: new})
        pending = {id: record for id, record in self.pending.items() if id != new.id}
        ended = replace(self, spent=spent, settled=parts([*self.settled, new.cost]), pending=pending)
        if new.status == "failed":
            return replace(ended, failed=self.failed + 1)
        fidelity, best = new.query.fidelity, self.best
        if _better(new, best.get(fidelity)):
            best = {**best, fidelity: new}
        stopped = self.stopped + (new.status == "stopped")
        return replace(ended, best=best, evaluated=self.evaluated + (not new.given), stopped=stopped)


def _decided(record: Record) -> bool:
    """Whether a strategy has decided a query after its first design."""
    return record.decided and record.query.meta.get("stage") != "initial"


def _better(record: Record, best: Record | None) -> bool:
    """Whether a feasible record has a larger value than the best so far, or the same one earlier."""
    if not record.feasible or record.value is None:
        return False
    return best is None or best.value is None or (record.value, -record.id) > (best.value, -best.id)


def parts(numbers: Iterable[float]) -> Parts:
    """A few numbers with exactly the sum of many, so that :func:`math.fsum` of both is the same."""
    left, found = list(numbers), list[float]()
    while part := math.fsum(left):
        found.append(part)
        if not math.isfinite(part):
            break
        left.append(-part)
    return (*reversed(found),)
