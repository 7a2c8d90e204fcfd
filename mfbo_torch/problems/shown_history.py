"""The history of a run as a notebook shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mfbo_torch.history import History, Record
from mfbo_torch.history.history import SHOWN
from mfbo_torch.problems.base import Problem
from mfbo_torch.utils import html_table

if TYPE_CHECKING:
    from pandas import DataFrame


class ShownHistory(History):
    """A history that a notebook shows with the names of its problem's parameters and values in the problem's own sign.

    So does :meth:`to_pandas`. In all else it is the one that it was made of, which it equals; values of its records
    are to be maximised.

    Args:
        records: Those of the other one.
        problem: What was evaluated; without it, it is shown as any history.
    """

    def __init__(self, records: Iterable[Record] = (), problem: Problem | None = None) -> None:
        super().__init__(records)
        self.__dict__["problem"] = problem

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self.records == other.records

    __hash__ = History.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return History, (tuple(self.records),)

    def to_pandas(self, of: Any = None) -> DataFrame:
        """:meth:`~mfbo_torch.history.History.to_pandas`, of its own problem if none is given."""
        return super().to_pandas(self.__dict__["problem"] if of is None else of)

    def _repr_html_(self) -> str:
        problem: Problem | None = self.__dict__["problem"]
        if problem is None:
            return super()._repr_html_()
        space, shown = problem.space, self.records[-SHOWN:]
        more = f", the last {SHOWN} of {len(self)}" if len(self) > SHOWN else ""
        names = [parameter.name for parameter in space.parameters]
        rows = []
        for r in shown:
            design = space.named(r.query.x)
            ends = (space.fidelity_name(r.query.fidelity), problem.value_of(r), r.status, r.cost)
            rows.append([r.id, *map(design.get, names), *ends, r.reason.partition("\n")[0]])
        head = ["id", *names, "fidelity", "value", "status", "cost", "reason"]
        return html_table.table(f"{self!r}{more}", head, rows)
