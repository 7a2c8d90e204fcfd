"""What was asked, what came back, and what it cost: the only state there is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from mfbo_torch import markup
from mfbo_torch.history.tally import Tally
from mfbo_torch.sharing import Shared

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

from mfbo_torch.outcomes import Observation, Outcome

Observed = float | tuple[float, float] | Observation
"""What comes of an evaluation: a value, a value and its standard error, or these with further outcomes."""
GIVEN, ENQUEUED = {"stage": "given"}, {"stage": "enqueued"}
"""What a query carries that nobody asked for, as its value was measured elsewhere, and costs nothing; and one that the
user wants asked."""


COLUMNS = (
    *("id", "fidelity", "value", "status", "cost", "retries", "reason"),
    *("decision_seconds", "evaluation_seconds", "standard_error"),
)
"""What tables have of every record, beside a column for each parameter."""
SHOWN = 20
"""Records of a history that a notebook shows."""


def column(parameter: str) -> str:
    """The name of a parameter's column: ``parameter.NAME`` where NAME is one of :data:`COLUMNS`, or begins as such a
    name or that of an outcome's column does."""
    own = parameter in COLUMNS or parameter.startswith(("parameter.", "outcome."))
    return f"parameter.{parameter}" if own else parameter


class Named(Protocol):
    """A space: what gives the values of a design their names."""

    def named(self, x: Sequence[Any], /) -> Mapping[str, Any]: ...


@runtime_checkable
class Valued(Protocol):
    """A problem: what gives the value of a record its sign."""

    def value_of(self, record: Record, /) -> float | None: ...


class Status(StrEnum):
    """Where a query stands."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Query:
    """A design to evaluate at a fidelity.

    Args:
        x: The design, ``d`` numbers in the user's own units.
        fidelity: ``0`` the cheapest, ``M - 1`` the target.
        meta: What later decisions need to know of this moment (JSON values only).
    """

    x: tuple[float, ...]
    fidelity: int
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """A query and its fate.

    Args:
        id: Its number, counted from 0 in the order of asking.
        query: What was asked.
        cost: What it costs, counted from the moment of asking.
        value: The observation, to be maximised; ``None`` until known.
        status: ``"pending"``, ``"done"`` or ``"failed"``.
        reason: Why it failed, or why its last attempt did where it is tried again. The first line says it all.
        decision_seconds: Time spent deciding it.
        evaluation_seconds: Time spent evaluating it.
        retries: How often it was tried again.
        sunk: The part of ``cost`` that failed attempts have taken.
        standard_error: The standard deviation of the noise in ``value``, in its unit; ``None`` where it is not known.
        outcomes: What was measured beside it, where the space has limits.
    """

    id: int
    query: Query
    cost: float
    value: float | None = None
    status: Status = Status.PENDING
    reason: str = ""
    decision_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    retries: int = 0
    sunk: float = 0.0
    standard_error: float | None = None
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        """Whether every outcome keeps its limit."""
        return all(outcome.met for outcome in self.outcomes.values())

    @property
    def given(self) -> bool:
        """Whether it was measured elsewhere: nothing was asked, nothing paid."""
        return self.query.meta.get("stage") == GIVEN["stage"]

    @property
    def decided(self) -> bool:
        """Whether a strategy has decided it: what counts decisions passes over the others."""
        return self.query.meta.get("stage") not in (GIVEN["stage"], ENQUEUED["stage"])

    def done(self, value: float, standard_error: float | None = None, **changes: Any) -> Record:
        """This record with its observation; a value that is not finite is a failure."""
        if not math.isfinite(value):
            return self.failed(f"the value is not finite: {value}", **changes)
        found, status = float(value), Status.DONE
        return replace(self, value=found, standard_error=standard_error, status=status, reason="", **changes)

    def failed(self, reason: str, **changes: Any) -> Record:
        """This record as failed: it keeps its cost and has no value."""
        return replace(self, value=None, status=Status.FAILED, reason=reason, **changes)

    def retried(self, reason: str, cost: float) -> Record:
        """This record after a failed attempt, tried again: ``cost`` is what all its attempts come to."""
        return replace(self, reason=reason, cost=cost, retries=self.retries + 1, sunk=cost - (self.cost - self.sunk))


@dataclass(frozen=True)
class Recommendation:
    """What is believed best: an input, where inputs cannot be queried themselves; a design, where values are noisy.

    Args:
        x: The input or the design, in the user's own units.
        mean: What is expected of it at the target, to be maximised, noise left out.
        deviation: The standard deviation of that.
        noise: The standard deviation of the noise in an observation at each fidelity, ``None`` where it is not known;
            empty for an input.
        best: The best observation at the target, which may have been lucky; ``None`` for an input.
        feasible: The probability that its outcomes keep their limits at the target; ``None`` where there are none.
    """

    x: tuple[float, ...]
    mean: float
    deviation: float
    noise: tuple[float | None, ...] = ()
    best: Record | None = None
    feasible: float | None = None

    @property
    def value(self) -> float:
        """``mean``: what a recommended record calls its value."""
        return self.mean


@dataclass(frozen=True)
class History:
    """Records in the order of asking. Immutable: every change gives a new history.

    A new one shares its records with the former one and goes on from its sums, so that :meth:`asked`, :meth:`updated`,
    :attr:`spent`, :attr:`settled`, :attr:`pending`, :meth:`best` and :meth:`queries_per_fidelity` take the same time
    after ten records and after ten thousand.

    Args:
        records: Numbered from 0.
    """

    records: Shared[Record]

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._set(Shared(records), None)

    def _set(self, records: Shared[Record], tally: Tally | None) -> None:
        object.__setattr__(self, "records", records)
        object.__setattr__(self, "_tally", tally)

    @classmethod
    def _of(cls, records: Shared[Record], tally: Tally | None) -> Self:
        made = cls.__new__(cls)
        made._set(records, tally)
        return made

    @property
    def tally(self) -> Tally:
        """What is counted of it."""
        known: Tally | None = self.__dict__["_tally"]
        if known is None:
            known = Tally.of(self.records)
            object.__setattr__(self, "_tally", known)
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self.records),)

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __repr__(self) -> str:
        pending, failed = len(self.tally.pending), self.tally.failed
        counts = {Status.PENDING: pending, Status.DONE: len(self) - pending - failed, Status.FAILED: failed}
        told = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        return f"History({told or 'empty'}; spent {self.spent:g})"

    def _repr_html_(self) -> str:
        shown = self.records[-SHOWN:]
        more = f", the last {SHOWN} of {len(self)}" if len(self) > SHOWN else ""
        head = ("id", "x", "fidelity", "value", "status", "cost", "reason")
        points = [", ".join(map(markup.text, r.query.x)) for r in shown]
        ends = [(r.query.fidelity, r.value, r.status, r.cost, r.reason.partition("\n")[0]) for r in shown]
        rows = [(r.id, point, *end) for r, point, end in zip(shown, points, ends, strict=True)]
        return markup.table(f"{self!r}{more}", head, rows)

    def to_pandas(self, of: Valued | Named | None = None) -> DataFrame:
        """The records as a ``pandas.DataFrame``, a row each.

        Args:
            of: The problem, for the names of the parameters and values in its own sign; or its space, for the names
                alone. Without it parameters are ``x1, x2, ...`` and values, as they are in a history, to be maximised.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError("History.to_pandas needs pandas: pip install pandas") from None
        space: Any = getattr(of, "space", of)  # a problem's, or what was given
        rows = []
        for r in self.records:
            x = {f"x{i}": value for i, value in enumerate(r.query.x, 1)} if space is None else space.named(r.query.x)
            value = of.value_of(r) if isinstance(of, Valued) else r.value
            known = {name: getattr(r, name) for name in COLUMNS if name != "fidelity"}
            own = {**known, "fidelity": r.query.fidelity, "value": value, "status": str(r.status)}
            rows.append({column(name): part for name, part in x.items()} | own)
        names = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in COLUMNS]
        return pandas.DataFrame(rows, columns=["id", *names, *COLUMNS[1:]])

    def asked(self, query: Query, cost: float, **details: Any) -> History:
        """This history with one more pending query."""
        record, tally = Record(len(self.records), query, float(cost), **details), self.__dict__["_tally"]
        return self._of(self.records.appended(record), tally and tally.asked(record))

    def updated(self, record: Record) -> History:
        """This history with one record replaced by its newer self."""
        tally = self.__dict__["_tally"]
        tally = tally and tally.updated(self.records[record.id], record)
        return self._of(self.records.replaced(record.id, record), tally)

    @property
    def spent(self) -> float:
        """The cost of everything asked so far, pending and failed queries included."""
        return math.fsum(self.tally.spent)

    @property
    def settled(self) -> float:
        """The cost of what has ended, done or failed."""
        return math.fsum(self.tally.settled)

    def queries_per_fidelity(self, num_fidelities: int) -> list[int]:
        """How many queries each fidelity got, pending and failed ones included."""
        return [self.tally.queries.get(m, 0) for m in range(num_fidelities)]

    def spent_per_fidelity(self, num_fidelities: int) -> list[float]:
        """The cost of everything asked so far at each fidelity, pending and failed queries included."""
        return [math.fsum(r.cost for r in self.records if r.query.fidelity == m) for m in range(num_fidelities)]

    def select(self, status: Status, fidelity: int | None = None) -> list[Record]:
        """The records of one status (and one fidelity)."""
        return [r for r in self.records if r.status == status and fidelity in (None, r.query.fidelity)]

    @property
    def done(self) -> list[Record]:
        return self.select(Status.DONE)

    @property
    def pending(self) -> list[Record]:
        return [*self.tally.pending.values()]

    def best(self, fidelity: int) -> Record | None:
        """The feasible record with the largest value at a fidelity, the earliest among equals."""
        return self.tally.best.get(fidelity)


def payable(capital: Any) -> Any:
    """What costs may come to that a capital (a number, or an array of them) pays for: itself, up to rounding."""
    return capital * (1 + 1e-12)


def points(records: Iterable[Record]) -> Tensor:
    """The ``n x (d + 1)`` double tensor of designs (user's units) and fidelities."""
    import torch  # here, so that a journal is read without it

    return torch.tensor([[*r.query.x, r.query.fidelity] for r in records], dtype=torch.double)


def values(records: Iterable[Record]) -> Tensor:
    """The ``n x 1`` double tensor of observations."""
    import torch

    return torch.tensor([[r.value] for r in records], dtype=torch.double)


def noise_variances(records: Iterable[Record]) -> Tensor | None:
    """The ``n x 1`` double tensor of squared standard errors; ``None`` unless every observation has one.

    Where one lacks it, a model infers the noise of all: the noise of an observation without a standard error is not
    that of those with one.
    """
    import torch

    errors = [r.standard_error for r in records]
    known = [[error**2] for error in errors if error is not None]
    return torch.tensor(known, dtype=torch.double) if errors and len(known) == len(errors) else None
