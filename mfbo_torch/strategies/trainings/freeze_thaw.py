"""Freeze and thaw: which training goes on, and when another begins."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mfbo_torch.acquisition.expected_improvement import log_gain
from mfbo_torch.history import History, Query, Status, payable
from mfbo_torch.history.learning_curves import LearningCurve, learning_curves, steps
from mfbo_torch.models.feasibility import Feasibility
from mfbo_torch.models.learning_curves import LearningCurveGP
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.common.deduplicate import clear, used_up
from mfbo_torch.strategies.common.failure_model import Failures
from mfbo_torch.strategies.common.fit_schedule import draw_seed, refit_size
from mfbo_torch.strategies.common.initial_design import allowed, sobol
from mfbo_torch.strategies.snapshot import Data, Snapshot
from mfbo_torch.strategies.trainings.curve_data import CurveScale, curve_data, thinned, time_of
from mfbo_torch.strategies.trainings.successive_halving import Bracket, increments
from mfbo_torch.utils.memo import Memo
from mfbo_torch.utils.standardize import shift_scale

SCREENED, BEST, NEAR = 400, 5, 16
"""Number of new designs that fill the space, of the best trainings whose neighbours are looked at, and of those."""
FIRST = 0.5
"""The part of the capital that the first bracket may take."""
REFIT_EVERY = 100
"""Most observations between two fits of the hyper-parameters; there is one whenever they are a tenth more."""
FITTED, KNOWN = 256, 600
"""Number of observations that hyper-parameters are fitted to at most, and that a model is made of."""


class FreezeThaw(Strategy):
    r"""Successive halving first, then the training with the largest expected improvement per epoch still to pay.

    In the first bracket (:class:`~mfbo_torch.strategies.trainings.successive_halving.Bracket`), for which at most half
    of the capital is meant, designs fill the space, and the best third of each fidelity goes on by its values
    [Jamieson2016halving]_. Then a model of all curves
    (:class:`~mfbo_torch.models.learning_curves.LearningCurveGP`) forecasts the last step of each training
    [Swersky2014freezethaw]_. Those that have paused and new designs :math:`x` compete by

    .. math::

        \mathbb{E}\big[(f(x, E) - f^+)^+\big] / c(x)

    with the best end :math:`f^+` so far, and what it still costs, :math:`c(x)`, to come to the end :math:`E`. The best
    one goes on to its next fidelity. One that the capital does not bring to its end goes on only where it brings none.
    Once one has failed, the improvement is weighed by the probability that a training does not
    (:class:`~mfbo_torch.models.feasibility.Feasibility`).

    Where nothing continues, and the next query would leave too little for a first value of the target, the best design
    is asked there instead.

    It works in every space with fidelities: their steps are their values where these are numbers, else their costs.

    Args:
        **settings: ``seed``, ``space`` and ``capital``.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._state: Memo[Tensor] = Memo()
        self._model: Memo[Seen] = Memo()
        self._failures = Failures(REFIT_EVERY)

    def decide(self, history: History) -> Query:
        snapshot, target = self.snapshot(history), self.space.target
        query, costs = self._wanted(history, snapshot), snapshot.costs
        if self.space.continues or any(r.query.fidelity == target for r in [*snapshot.done, *snapshot.pending]):
            return query
        if not costs[target] <= self._left(history) < costs[target] + costs[query.fidelity]:
            return query
        best = max(snapshot.done, key=lambda r: (r.query.fidelity, r.value), default=None)
        return Query(query.x, target, query.meta) if best is None else Query(best.query.x, target, {"stage": "last"})

    def _left(self, history: History) -> float:
        return math.inf if self.capital is None else payable(self.capital) - history.spent

    def _wanted(self, history: History, snapshot: Snapshot) -> Query:
        """What the rules of the class choose, whatever is left for the target."""
        space, left = self.space, self._left(history)
        generator, curves = snapshot.generator(self.seed), learning_curves(history, space)
        paused = [curve for curve in curves if curve.status == Status.DONE and curve.fidelity < space.target]
        costs = increments(snapshot.costs, bool(space.continues))
        first = None if self.capital is None else FIRST * self.capital
        bracket, reached = Bracket.of(costs, first), _reached(snapshot)
        rung = bracket.next_rung(reached, {curve.fidelity + 1 for curve in paused})
        if rung is not None:
            rivals = _last(paused, costs, rung, left) or [c for c in paused if c.fidelity == rung - 1]
            if rivals:
                best = max(rivals, key=lambda curve: (curve.fidelity, curve.values[-1]))
                return Query(best.x, best.fidelity + 1, {"stage": "halving"})
        fresh = not used_up(space, snapshot.records, 0)
        if (rung == 0 and fresh) or not snapshot.done:
            seed = draw_seed(torch.Generator().manual_seed(self.seed))
            u = allowed(lambda n: sobol(space.dim, n, seed), reached[0] + 1, space)[-1]
            return self.query(clear(u, 0, snapshot, generator), 0, stage="initial")
        return self._improving(snapshot, curves, paused, costs, left, generator)

    def _improving(
        self,
        snapshot: Snapshot,
        curves: list[LearningCurve],
        paused: list[LearningCurve],
        costs: list[float],
        left: float,
        generator: torch.Generator,
    ) -> Query:
        """The training, one that has paused or a new one, with the largest expected improvement for its cost."""
        seen, space = self.seen(snapshot), self.space
        able = [curve for curve in paused if sum(costs[curve.fidelity + 1 :]) <= left]
        able = able or [curve for curve in paused if costs[curve.fidelity + 1] <= left]
        ahead = [sum(costs[curve.fidelity + 1 :]) for curve in able]
        U = self._designs(able)
        if not able or (sum(costs) <= left and not used_up(space, snapshot.records, 0)):
            new = self._candidates(curves, generator)
            U, ahead = torch.cat([U, new]), ahead + [sum(costs)] * len(new)
        known = [curve for curve in curves if curve.points]
        ended = [curve for curve in known if curve.fidelity == space.target] or known
        best, (mean, variance) = seen.ends(self._designs(ended))[0].max(), seen.ends(U)
        gains = log_gain((mean - best) / variance.sqrt()) + 0.5 * variance.log()
        if (feasibility := self._feasibility(snapshot)) is not None:
            gains += feasibility.log(U)
        chosen = int((gains - torch.tensor(ahead, dtype=torch.double).log()).argmax())
        if chosen < len(able):
            x, fidelity = able[chosen].x, able[chosen].fidelity + 1
            return Query(x, fidelity, self._noted("forecast", U[chosen : chosen + 1], fidelity, seen))
        u = clear(U[chosen], 0, snapshot, generator)
        return self.query(u, 0, **self._noted("improvement", u.reshape(1, -1), 0, seen))

    def _feasibility(self, snapshot: Snapshot) -> Feasibility | None:
        """Whether a training passes the last fidelity at which one has failed; ``None`` while none has."""
        failed = [r.query.fidelity for r in snapshot.records if r.status == Status.FAILED]
        return self._failures.feasibility(snapshot, max(failed, default=0))

    def _noted(self, rule: str, u: Tensor, fidelity: int, seen: Seen) -> dict[str, Any]:
        """What a query notes that the model has decided: the rule, and what it expects at its fidelity."""
        mean, deviation = seen.at(u, time_of(steps(self.space)[fidelity], self.space))
        return {"stage": "model", "rule": rule, "mean": mean.item(), "deviation": deviation.item()}

    def _designs(self, curves: list[LearningCurve]) -> Tensor:
        X = torch.tensor([curve.x for curve in curves], dtype=torch.double).reshape(-1, self.space.dim)
        return self.space.to_unit(X)

    def _candidates(self, curves: list[LearningCurve], generator: torch.Generator) -> Tensor:
        """New designs: ones that fill the space, and steps from the best trainings."""
        space, seed = self.space, draw_seed(generator)
        spread = allowed(lambda n: sobol(space.dim, n, seed), SCREENED, space)
        best = sorted((c for c in curves if c.points), key=lambda c: -c.values[-1])[:BEST]
        U = space.to_unit(torch.tensor([c.x for c in best], dtype=torch.double))
        sizes = torch.logspace(-2.5, -0.5, NEAR, dtype=torch.double).unsqueeze(-1)
        noise = torch.randn(len(U), NEAR, space.unit_dim, generator=generator, dtype=torch.double)
        near = space.snap((U.unsqueeze(1) + sizes * noise).clamp(0.0, 1.0).reshape(-1, space.unit_dim))
        return torch.cat([spread, near[space.allows(near)]])

    def seen(self, snapshot: Snapshot) -> Seen:
        """The model of all curves, those that are pending at the mean of their ends."""
        data = curve_data(snapshot.records, self.space)
        pending = snapshot.designs(snapshot.pending).tolist()
        key = (data.X.tolist(), data.Y.tolist(), data.Yvar is None or data.Yvar.tolist(), pending)
        return self._model(key, lambda: self._made(data, snapshot))

    def _made(self, data: Data, snapshot: Snapshot) -> Seen:
        state, kept = self._fitted(data), thinned(data, KNOWN)
        Z, noise, scale, shift, spread = _standardized(kept)
        model = LearningCurveGP(kept.X, Z, noise, self.space.groups, state)
        if snapshot.pending:
            designs = snapshot.designs(snapshot.pending)
            X = torch.cat([designs, designs.new_ones(len(designs), 1)], dim=-1)
            means = model.predict(X)[0].unsqueeze(-1)
            more = None if noise is None else torch.cat([noise, torch.zeros_like(means)])
            model = LearningCurveGP(torch.cat([kept.X, X]), torch.cat([Z, means]), more, self.space.groups, state)
        return Seen(model, scale, shift, spread)

    def _fitted(self, data: Data) -> Tensor:
        """Hyper-parameters, fitted on the schedule of the other models."""
        part = thinned(data.rows(slice(refit_size(len(data.Y), REFIT_EVERY))), FITTED)

        def state() -> Tensor:
            Z, noise, *_ = _standardized(part)
            return LearningCurveGP(part.X, Z, noise, self.space.groups).fit().state

        noise = None if part.Yvar is None else part.Yvar.tolist()
        return self._state((part.X.tolist(), part.Y.tolist(), noise), state)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        snapshot = self.snapshot(history)
        if not snapshot.done:
            return None
        seen, U = self.seen(snapshot), self.space.to_unit(X)
        at = torch.tensor([time_of(step, self.space) for step in steps(self.space)], dtype=torch.double)
        middle, deviation = seen.at(U.repeat_interleave(len(at), 0), at.repeat(len(U)))
        return middle.reshape(len(U), len(at)), deviation.reshape(len(U), len(at))


class Seen(NamedTuple):
    """A model of curves, and how it sees the values."""

    model: LearningCurveGP
    scale: CurveScale
    shift: float
    spread: float

    def ends(self, U: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of what ``n`` designs come to at the last step, as the model sees values."""
        return self.model.predict(torch.cat([U, U.new_ones(len(U), 1)], dim=-1))

    def at(self, U: Tensor, times: Tensor | float) -> tuple[Tensor, Tensor]:
        """Median and half-width of the values at ``n`` designs and times, in the units of the values."""
        times = torch.as_tensor(times, dtype=torch.double).expand(len(U)).unsqueeze(-1)
        mean, variance = self.model.predict(torch.cat([U.to(times), times], dim=-1))
        mean, deviation = self.shift + self.spread * mean, self.spread * variance.sqrt()
        middle, high, low = (self.scale.inverse(part) for part in (mean, mean + deviation, mean - deviation))
        return middle, 0.5 * (high - low)


def _standardized(data: Data) -> tuple[Tensor, Tensor | None, CurveScale, float, float]:
    """The values as they are seen, with mean 0 and deviation 1, the variances of their noise, and how that was done."""
    scale = CurveScale.of(data.Y)
    Z = scale(data.Y)
    shift, spread = shift_scale(Z)
    noise = scale.variances(data.Y, data.Yvar)
    return (Z - shift) / spread, None if noise is None else noise / spread**2, scale, shift, spread


def _last(paused: list[LearningCurve], costs: list[float], rung: int, left: float) -> list[LearningCurve]:
    """Those that the rest of the capital brings to the end, where going on to a rung would leave none of them."""
    ahead = [sum(costs[curve.fidelity + 1 :]) for curve in paused]
    able = [cost for cost in ahead if cost <= left]
    if not able or (rung and sum(costs[rung:]) <= left) or min(able) <= left - costs[rung]:
        return []
    return [curve for curve, cost in zip(paused, ahead, strict=True) if cost <= left]


def _reached(snapshot: Snapshot) -> list[int]:
    """How many trainings have come, or are on their way, to each fidelity."""
    highest: dict[tuple[float, ...], int] = {}
    for record in snapshot.records:
        highest[record.query.x] = max(highest.get(record.query.x, 0), record.query.fidelity)
    return [sum(m >= rung for m in highest.values()) for rung in range(snapshot.space.num_fidelities)]
