"""The history of an optimisation: its queries, what was observed, and the costs. There is no other state."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from mfbo_torch.history.query import Query
from mfbo_torch.history.record import Record, Status
from mfbo_torch.history.tally import Tally
from mfbo_torch.utils import html_table
from mfbo_torch.utils.persistent_sequence import PersistentSequence

if TYPE_CHECKING:
    from pandas import DataFrame

Selections = dict[tuple[Status, int | None], list[Record]]
"""The ended records by status, and by fidelity, ``None`` for all."""
COLUMNS = (
    *("id", "fidelity", "value", "status", "cost", "retries", "reason"),
    *("decision_seconds", "evaluation_seconds", "standard_error"),
)
"""The columns of a table of records, beside one for each parameter."""
SHOWN = 20
"""Number of records that a notebook shows."""


def column(parameter: str) -> str:
    """The name of a parameter's column: ``parameter.NAME`` where NAME is one of :data:`COLUMNS`, or begins as such a
    name or that of an outcome's column does."""
    own = parameter in COLUMNS or parameter.startswith(("parameter.", "outcome."))
    return f"parameter.{parameter}" if own else parameter


@dataclass(frozen=True)
class History:
    """Records in the order of their queries, numbered from 0. Immutable: every change makes a new history.

    A new one shares its records with the former one and goes on from its sums, so that :meth:`asked`, :meth:`updated`
    and what is read from the sums take the same time after ten records and after ten thousand.
    """

    records: PersistentSequence[Record]

    def __init__(self, records: Iterable[Record] = ()) -> None:
        object.__setattr__(self, "records", PersistentSequence(records))

    @cached_property
    def tally(self) -> Tally:
        """Its sums and counts."""
        return Tally.of(self.records)

    @cached_property
    def _selections(self) -> Selections:
        """What :meth:`select` has found."""
        return {}

    def _next(self, records: PersistentSequence[Record], update: Callable[[Tally], Tally | None]) -> Self:
        """The history of some changed records, its sums updated where they are known."""
        made = type(self)(records)
        if "tally" in self.__dict__ and (tally := update(self.tally)) is not None:
            made.__dict__["tally"] = tally
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self.records),)

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __repr__(self) -> str:
        pending, failed, stopped = len(self.tally.pending), self.tally.failed, self.tally.stopped
        done = len(self) - pending - failed - stopped
        counts = {Status.PENDING: pending, Status.DONE: done, Status.FAILED: failed, Status.STOPPED: stopped}
        text = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        return f"History({text or 'empty'}; spent {self.spent:g})"

    def _repr_html_(self) -> str:
        shown = self.records[-SHOWN:]
        more = f", the last {SHOWN} of {len(self)}" if len(self) > SHOWN else ""
        head = ("id", "x", "fidelity", "value", "status", "cost", "reason")
        points = [", ".join(map(html_table.text, r.query.x)) for r in shown]
        ends = [(r.query.fidelity, r.value, r.status, r.cost, r.reason.partition("\n")[0]) for r in shown]
        rows = [(r.id, point, *end) for r, point, end in zip(shown, points, ends, strict=True)]
        return html_table.table(f"{self!r}{more}", head, rows)

    def to_pandas(self, of: Any = None) -> DataFrame:
        """The records as a ``pandas.DataFrame``, a row each; an ``ImportError`` where pandas is not installed.

        Args:
            of: The problem, for the names of the parameters and values in its own sign; or its space, for the names
                alone. Without it parameters are ``x1, x2, ...`` and values, as they are in a history, to be maximised.
                Outcomes, several objectives among them, have columns ``outcome.NAME`` in their own signs.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError("History.to_pandas needs pandas: pip install pandas") from None
        space, value_of = getattr(of, "space", of), getattr(of, "value_of", lambda record: record.value)
        rows = []
        for r in self.records:
            x = {f"x{i}": value for i, value in enumerate(r.query.x, 1)} if space is None else space.named(r.query.x)
            known = {name: getattr(r, name) for name in COLUMNS if name != "fidelity"}
            own = {**known, "fidelity": r.query.fidelity, "value": value_of(r), "status": str(r.status)}
            measured = {f"outcome.{name}": outcome.value for name, outcome in r.outcomes.items()}
            rows.append({column(name): part for name, part in x.items()} | own | measured)
        names = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in COLUMNS]
        return pandas.DataFrame(rows, columns=["id", *names, *COLUMNS[1:]])

    def asked(self, query: Query, cost: float, **details: Any) -> History:
        """This history with one more pending query."""
        record = Record(len(self.records), query, float(cost), **details)
        made = self._next(self.records.appended(record), lambda tally: tally.asked(record))
        if record.status == Status.PENDING:
            made.__dict__["_selections"] = self._selections
        return made

    def updated(self, record: Record) -> History:
        """This history with one record replaced by its newer self."""
        former = self.records[record.id]
        made = self._next(self.records.replaced(record.id, record), lambda tally: tally.updated(former, record))
        if former.status == Status.PENDING:
            made.__dict__["_selections"] = _with(self._selections, record)
        return made

    @property
    def spent(self) -> float:
        """The cost of all queries so far, pending and failed ones included."""
        return math.fsum(self.tally.spent)

    @property
    def settled(self) -> float:
        """The cost of the queries that have ended, done or failed."""
        return math.fsum(self.tally.settled)

    def queries_per_fidelity(self, num_fidelities: int) -> list[int]:
        """Number of queries at each fidelity, pending and failed ones included."""
        return [self.tally.queries.get(m, 0) for m in range(num_fidelities)]

    def spent_per_fidelity(self, num_fidelities: int) -> list[float]:
        """The cost of the queries at each fidelity, pending and failed ones included."""
        return [math.fsum(r.cost for r in self.records if r.query.fidelity == m) for m in range(num_fidelities)]

    def select(self, status: Status, fidelity: int | None = None) -> list[Record]:
        """The records of one status (and one fidelity)."""
        if status == Status.PENDING:
            return [r for r in self.tally.pending.values() if fidelity in (None, r.query.fidelity)]
        found = self._selections.get((status, fidelity))
        if found is None:
            some = self.records if fidelity is None else self.select(status)
            found = [r for r in some if r.status == status and fidelity in (None, r.query.fidelity)]
            self._selections[status, fidelity] = found
        return [*found]

    @property
    def done(self) -> list[Record]:
        return self.select(Status.DONE)

    @property
    def pending(self) -> list[Record]:
        return [*self.tally.pending.values()]

    def best(self, fidelity: int) -> Record | None:
        """The feasible record with the largest value at a fidelity, the earliest among equals."""
        return self.tally.best.get(fidelity)


def _with(selections: Selections, record: Record) -> Selections:
    """Selections of a history after a pending record has become this one."""

    def added(records: list[Record]) -> list[Record]:
        place = bisect(records, record.id, key=lambda one: one.id)
        return [*records[:place], record, *records[place:]]

    of = {(record.status, None), (record.status, record.query.fidelity)}
    return {key: added(records) if key in of else records for key, records in [*selections.items()]}


def payable(capital: Any) -> Any:
    """The largest cost that a capital (a number, or an array) pays for: the capital itself, up to rounding."""
    return capital * (1 + 1e-12)
