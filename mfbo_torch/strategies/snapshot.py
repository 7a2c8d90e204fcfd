"""What a decision is made from: a frozen view of the history, and the tensors that models and searches take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from mfbo_torch.history import History, Query, Record, Status, noise_variances, values
from mfbo_torch.history.continuation import full_costs, lower_training
from mfbo_torch.models.cost_model import MIN_COST, MIN_RECORDS, CostModel
from mfbo_torch.models.outcome_transform import IDENTITY, MIN_VALUES, Warp, last_outlier, separated
from mfbo_torch.space import Space
from mfbo_torch.strategies.common.design_table import DesignTable, unit_points
from mfbo_torch.utils.memo import Memo
from mfbo_torch.utils.persistent_sequence import PersistentSequence


class Data(NamedTuple):
    """What a model is made of.

    Attributes:
        X: ``n x d`` points of the unit cube, or ``n x (d + 1)`` with the fidelity last.
        Y: ``n x 1`` values.
        Yvar: ``n x 1`` variances of their noise; ``None`` where it is not known.
    """

    X: Tensor
    Y: Tensor
    Yvar: Tensor | None

    def rows(self, some: slice | Tensor) -> Data:
        """Some of the rows."""
        return Data(self.X[some], self.Y[some], None if self.Yvar is None else self.Yvar[some])


def data_of(space: Space, records: list[Record], transform: Warp = IDENTITY) -> Data:
    """Points of some records with the fidelity last, and their values in the units of a transform."""
    return Data(unit_points(space, records), *transform.with_noise(values(records), noise_variances(records)))


class SnapshotCache:
    """What the snapshots of one run share to save time; forgetting it changes no result."""

    def __init__(self) -> None:
        self.designs = DesignTable()
        self.log_cost: Memo[CostModel] = Memo()
        self.last: Snapshot | None = None

    def snapshot(self, history: History, space: Space) -> Snapshot:
        """The snapshot of a history, the last one where it is the same."""
        last = self.last  # of one moment: another thread may ask for another one meanwhile
        if last is None or last.history is not history or last.space is not space:
            last = self.last = Snapshot(history, space, self)
        return last


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All that a decision depends on beside the settings and the seed.

    Points are those of the unit cube, double, on the CPU.

    Args:
        history: Everything queried so far, pending queries included.
        space: What can be queried.
        cache: What it shares with the snapshots of earlier decisions.
    """

    history: History
    space: Space
    cache: SnapshotCache

    def __len__(self) -> int:
        return len(self.records)

    @property
    def records(self) -> PersistentSequence[Record]:
        """All records in the order of asking."""
        return self.history.records

    @cached_property
    def done(self) -> list[Record]:
        """The records with a value."""
        return self.history.done

    @cached_property
    def pending(self) -> list[Record]:
        """The records whose value is pending."""
        return self.history.pending

    @cached_property
    def flying(self) -> Tensor:
        """The ``p x (d + 1)`` points whose value is pending, the fidelity last."""
        return self.points(self.pending)

    def at(self, fidelity: int, status: Status = Status.DONE) -> list[Record]:
        """The records of a fidelity, those with a value if no other status is named."""
        return self.history.select(status, fidelity)

    def best(self, fidelity: int) -> Record | None:
        """The feasible record with the largest value at a fidelity, the earliest among equals."""
        return self.history.best(fidelity)

    @cached_property
    def incumbents(self) -> Tensor:
        """The best design at each fidelity that has one, the target's last, ``n x d``."""
        best = [self.best(m) for m in range(self.space.num_fidelities)]
        return self.designs([record for record in best if record is not None])

    def points(self, records: list[Record]) -> Tensor:
        """``n x (d + 1)`` points of some records, the fidelity last."""
        return unit_points(self.space, records)

    def designs(self, records: list[Record]) -> Tensor:
        """``n x d`` designs of some records."""
        return self.points(records)[:, :-1]

    def taken(self, fidelity: int) -> tuple[Tensor, Tensor]:
        """The designs queried at a fidelity, ``n x d``, and whether each was observed, ``n``."""
        return self.cache.designs(self.space, self.records, fidelity)

    @property
    def time(self) -> int:
        """The number ``t`` of the next query that a strategy decides after its first design, from 1."""
        return self.history.tally.decided + 1

    @cached_property
    def initial(self) -> list[int]:
        """The fidelities of the queries of the initial design, in the order of asking."""
        return [r.query.fidelity for r in self.records if r.query.meta.get("stage") == "initial"]

    @cached_property
    def first_of_model(self) -> int | None:
        """The number of the first query that a model has decided; ``None`` while there is none."""
        return next((r.id for r in self.records if r.query.meta.get("stage") == "model"), None)

    def generator(self, seed: int) -> torch.Generator:
        """Random numbers for the next decision: the same ones for the same number of records."""
        return torch.Generator().manual_seed(hash((seed, len(self.records))) % 2**63)

    def of(self, records: list[Record]) -> Snapshot:
        """The same with other records."""
        return replace(self, history=History(records))

    def transformed(self, transform: Warp) -> Snapshot:
        """The same with the values, and their standard errors, in the units of a transform."""
        if transform == IDENTITY:
            return self
        Y = values(self.done).squeeze(-1)
        moved = {
            r.id: replace(r, value=y, standard_error=r.standard_error and r.standard_error * slope)
            for r, y, slope in zip(self.done, transform(Y).tolist(), transform.log_slope(Y).exp().tolist(), strict=True)
        }
        return self.of([moved.get(r.id, r) for r in self.records])

    def initial_design(self, known: list[Record]) -> list[Record]:
        """Those of some records that belong to the first design: values from where a model searches say little of the
        rest."""
        end = len(self.records) if self.first_of_model is None else self.first_of_model
        own = [r for r in known if r.query.meta.get("stage") != "model"]
        return [r for r in own if r.decided or r.id < end]

    def to_fit_transform(self, known: list[Record]) -> tuple[list[Record], bool]:
        """The records that a transform of the values is fitted to, and whether outliers far below ask for it.

        Those of the first design, and all up to the last outlier. Where the first design has fewer than ``MIN_VALUES``
        values, the first ``MIN_VALUES`` records stand for it, if some of these are separated from the others or an
        outlier comes later.

        Args:
            known: What the model is made of, in the order of asking.
        """
        own = self.initial_design(known)
        first = own if len(own) >= MIN_VALUES else known[:MIN_VALUES]
        if len(first) < MIN_VALUES:
            return own, False
        ids = {r.id for r in first}
        later = [r for r in known if r.id not in ids]
        last = last_outlier(_numbers(first), _numbers(later))
        if last is None and first is not own and not separated(_numbers(first)):
            return own, False
        if last is None:
            fidelities = {r.query.fidelity for r in first}
            return first, any(separated(_numbers([r for r in first if r.query.fidelity == m])) for m in fidelities)
        return [r for r in known if r.id <= later[last].id or r.id in ids], True

    @cached_property
    def costs(self) -> tuple[float, ...]:
        """The cost of a query at each fidelity, ``M`` numbers, from the beginning where evaluations continue.

        Where costs are measured: the mean so far, without earlier attempts, and for a fidelity that never ran its
        nominal cost scaled by what the nearest measured fidelity took.
        """
        nominal = tuple(self.space.costs)
        if not self.space.measured:
            return nominal
        took = full_costs(self.done) if self.space.continues else [r.cost - r.sunk for r in self.done]
        means = {}
        for m in range(len(nominal)):
            own = (cost for r, cost in zip(self.done, took, strict=True) if r.query.fidelity == m and not r.given)
            seen = [cost for cost in own if cost > 0]
            if seen:
                means[m] = max(sum(seen) / len(seen), 1e-9)
        if not means:
            return nominal
        known = {m: min(means, key=lambda seen: abs(seen - m)) for m in range(len(nominal))}
        return tuple(means[k] * nominal[m] / nominal[k] for m, k in known.items())

    def costs_at(self, u: Tensor) -> tuple[float, ...]:
        """The cost of a query at a design at each fidelity, ``M`` numbers.

        Where costs are measured, and :data:`~mfbo_torch.models.cost_model.MIN_RECORDS` evaluations or more succeeded, a
        :class:`~mfbo_torch.models.cost_model.CostModel` predicts it; before that, :attr:`costs`.

        Args:
            u: A design, ``d`` or ``1 x d``.
        """
        if not self.space.measured:
            return tuple(self.space.costs)
        records = [r for r in self.done if r.cost > r.sunk]
        if len(records) < MIN_RECORDS:
            return self.costs
        points, last = self.points(records), [r.cost - r.sunk for r in records]  # earlier attempts do not count
        last = full_costs(records) if self.space.continues else last

        def learned() -> CostModel:
            return CostModel(points, torch.tensor(last, dtype=torch.double), self.space.costs)

        model = self.cache.log_cost((points.tolist(), last, self.space.costs), learned)
        return tuple(model(u.detach().to("cpu", torch.double).reshape(1, -1))[0].tolist())

    def cost(self, query: Query) -> float:
        """What a query is expected to cost; what is missing, where it continues."""
        u = self.space.to_unit(torch.tensor(query.x, dtype=torch.double))
        whole = self.costs_at(u)[query.fidelity]
        base = lower_training(self.records, query.x, query.fidelity) if self.space.continues else None
        return whole if base is None else max(whole - base.paid, MIN_COST)


def _numbers(records: list[Record]) -> list[float]:
    """The values of some records."""
    found: list[float] = values(records).squeeze(-1).tolist()
    return found
