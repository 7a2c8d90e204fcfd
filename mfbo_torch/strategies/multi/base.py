"""What the strategies with one model over designs and fidelities have in common."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from typing import Any

import torch
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.history import History, Record, Status, payable, values
from mfbo_torch.space.continuous_fidelity import MANY
from mfbo_torch.strategies.common.deduplicate import BUSY_RADIUS, used_up
from mfbo_torch.strategies.common.initial_design import multi_fidelity_counts
from mfbo_torch.strategies.common.model_based import ModelBased
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.validation import number


class MultiFidelityModelBased(ModelBased):
    """A strategy with one model over designs and fidelities.

    The last column of its inputs is the fidelity ``0 ... M - 1``.

    Args:
        initial_capital: What the initial design may cost, in units of the target's cost; see
            :func:`~mfbo_torch.strategies.common.initial_design.multi_fidelity_counts`.
        **settings: Those of :class:`ModelBased`.

    Raises:
        SettingError: ``initial_capital`` is not positive.
    """

    most_fidelities: int | None = MANY

    def __init__(self, *, initial_capital: float | None = 10.0, **settings: Any) -> None:
        super().__init__(**settings)
        if initial_capital is not None:
            initial_capital = number("initial_capital", initial_capital, above=0)
        self.initial_capital = initial_capital

    def counts(self, snapshot: Snapshot) -> list[int]:
        return multi_fidelity_counts(snapshot.costs, self.space.dim, self.capital, self.initial_capital or 10.0)

    def modelled(self, snapshot: Snapshot) -> list[Record]:
        return self.subset(self.space, snapshot.done)

    def probing(self, u: Tensor, fidelity: int, snapshot: Snapshot) -> int:
        r"""The fidelity to query at a design: the cheapest first, where that is likely to save a failure at another.

        A failure at fidelity ``m`` costs :math:`(1 - p(x)) \lambda^{(m)}` in the mean. Where a query at the cheapest
        fidelity costs less, and no query near it has shown yet whether the design can be evaluated, it goes first; but
        not once such queries in a row have cost as much as the one they might save.

        Args:
            u: A ``1 x d`` design of the unit cube.
            fidelity: Where it is to be queried.
            snapshot: What was queried so far.
        """
        feasibility = self.failures.feasibility(snapshot, self.space.target)
        costs = snapshot.costs_at(u)
        below = list(itertools.takewhile(lambda r: r.query.fidelity < fidelity, reversed(snapshot.records)))
        if feasibility is None or fidelity == 0 or sum(r.cost for r in below) >= costs[fidelity]:
            return fidelity
        with torch.no_grad():
            risk = 1 - feasibility(self.surrogate.to(u)).item()
        known = snapshot.designs([r for r in snapshot.records if r.status != Status.FAILED])
        near = (known - u.to(known)).abs().amax(dim=-1) < BUSY_RADIUS
        return fidelity if near.any() or risk * costs[fidelity] <= costs[0] else 0

    def free(self, fidelity: int, snapshot: Snapshot) -> int:
        """That of :meth:`left`; or, while nothing is pending, the highest one below it that the rest of the capital
        still pays for. Where costs are measured, or trainings continue, what a query takes is not known so exactly:
        there it ends."""
        wanted, costs = self.left(fidelity, snapshot), snapshot.costs
        if self.capital is None or self.space.measured or self.space.continues or snapshot.pending:
            return wanted
        rest = payable(self.capital) - snapshot.history.spent
        if costs[wanted] <= rest:
            return wanted
        paid = [m for m in range(wanted) if costs[m] <= rest and not used_up(self.space, snapshot.records, m)]
        return max(paid, default=wanted)

    def left(self, fidelity: int, snapshot: Snapshot) -> int:
        """The lowest fidelity from ``fidelity`` on where there is a design left to ask, else the highest one below."""
        levels = [*range(fidelity, self.space.num_fidelities), *reversed(range(fidelity))]
        return next((m for m in levels if not used_up(self.space, snapshot.records, m)), fidelity)

    @abstractmethod
    def model(self, snapshot: Snapshot) -> Model:
        """The model of everything observed."""

    def scaled(self, points: Tensor) -> Tensor:
        """Points of the unit cube, the fidelity last, as the model takes them."""
        return self.surrogate.to(points)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation at every fidelity, by one GP with the fidelity among its inputs."""
        snapshot = self.snapshot(history)
        if not (records := self.modelled(snapshot)):
            return None
        designs, num_fidelities = self.space.to_unit(X), self.space.num_fidelities
        levels = [torch.full_like(designs[:, :1], m) for m in range(num_fidelities)]
        at = self.scaled(torch.cat([torch.cat([designs, level], dim=-1) for level in levels]))
        mean, deviation = self.surrogate.predict(self.model(snapshot), values(records), at)
        return mean.view(num_fidelities, -1).mT, deviation.view(num_fidelities, -1).mT
