"""Freeze and thaw: which training goes on, and when another begins."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from mfbo_torch.history import History, Query, Status
from mfbo_torch.history.learning_curves import LearningCurve, learning_curves, steps
from mfbo_torch.models.learning_curves import LearningCurveGP
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.common.deduplicate import clear
from mfbo_torch.strategies.common.fit_schedule import draw_seed, fitting, refit_size
from mfbo_torch.strategies.common.initial_design import allowed, sobol
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.strategies.trainings.curve_data import CurveData, CurveScale, curve_data, time_of
from mfbo_torch.strategies.trainings.successive_halving import REDUCTION, promotion
from mfbo_torch.utils.memo import Memo
from mfbo_torch.utils.standardize import shift_scale

FIRST = 3
"""Number of trainings that begin before a model decides."""
SCREENED, BEST, NEAR = 400, 5, 16
"""Number of new designs that fill the space, of the best trainings whose neighbours are looked at, and of those."""
GAINS = (-5.5, -2.5)
"""Range of the decimal logarithm of the gain that is looked for, in deviations of the values."""
RANDOM = "random"
"""The stage of a training that begins at random."""
REFIT_EVERY = 5
"""Most observations between two fits of the hyper-parameters."""
FITTED = 256
"""Number of observations that hyper-parameters are fitted to at most."""


class FreezeThaw(Strategy):
    r"""Goes on with the training, or begins the one, that most probably exceeds the best.

    A model of curves (:class:`~mfbo_torch.models.learning_curves.LearningCurveGP`) predicts every training at every
    step. A decision draws a number of steps :math:`h`, log-uniform up to the last, and a gain :math:`\delta`,
    log-uniform too, and takes what has the largest probability of being above the best value so far by :math:`\delta`
    after :math:`h` more steps [Rakotoarison2024ifbo]_. A training goes on up to the next fidelity, a new one up to the
    lowest.

    One decision in :data:`~mfbo_torch.strategies.trainings.successive_halving.REDUCTION` is that of asynchronous
    successive halving [Li2020asha]_ among trainings of its own, which begin at random: it goes on whatever the model
    believes, and the model sees what it finds.

    It works in every space with fidelities: their steps are their values where these are numbers, else their costs.

    Args:
        **settings: ``seed``, ``space`` and ``capital``.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._state: Memo[dict[str, Tensor]] = Memo()
        self._model: Memo[Seen] = Memo()

    def decide(self, history: History) -> Query:
        snapshot = self.snapshot(history)
        generator, turn = snapshot.generator(self.seed), sum(r.decided for r in history)
        curves = learning_curves(history, self.space)
        if turn < FIRST or turn % REDUCTION == 0 or not snapshot.done:
            return self._halving(snapshot, curves, generator)
        return self._probable(snapshot, curves, generator)

    def _halving(self, snapshot: Snapshot, curves: list[LearningCurve], generator: torch.Generator) -> Query:
        """The decision of successive halving among the trainings that it has begun itself, each at random."""
        closed = {curve.x for curve in curves if not _open(curve)}
        own = {record.query.x for record in snapshot.done if record.query.meta.get("stage") == RANDOM}
        chosen = promotion([r for r in snapshot.done if r.query.x in own], self.space.target, closed)
        if chosen is not None:
            return Query(chosen.x, chosen.fidelity, {"stage": "halving"})
        u = clear(self.random_design(generator), 0, snapshot, generator)
        return self.query(u, 0, stage=RANDOM, rule="halving")

    def _probable(self, snapshot: Snapshot, curves: list[LearningCurve], generator: torch.Generator) -> Query:
        """What most probably exceeds the best."""
        space, last = self.space, steps(self.space)[-1]
        paused = [curve for curve in curves if _open(curve) and curve.fidelity < space.target]
        new = self._candidates(curves, generator)
        known = space.to_unit(torch.tensor([c.x for c in paused], dtype=torch.double).reshape(-1, space.dim))
        draws = torch.rand(2, generator=generator, dtype=torch.double)
        ahead = last ** draws[0].item()
        gain = 10 ** (GAINS[0] + (GAINS[1] - GAINS[0]) * draws[1].item())
        at = [min(c.steps[-1] + ahead, last) for c in paused] + [min(ahead, last)] * len(new)
        times = torch.tensor([[time_of(step, space)] for step in at], dtype=torch.double)
        seen = self.seen(snapshot, curves)
        mean, variance = seen.model.predict(torch.cat([torch.cat([known, new]), times], dim=-1))
        z = (mean - seen.best - gain) / variance.sqrt()
        best = int(z.argmax())
        noted = {"stage": "model", "chance": torch.special.ndtr(z[best]).item(), "within": float(f"{ahead:.3g}")}
        if best < len(paused):
            u, x, fidelity = known[best], paused[best].x, paused[best].fidelity + 1
        else:
            u, fidelity = clear(new[best - len(paused)], 0, snapshot, generator), 0
            x = tuple(space.from_unit(u.to("cpu", torch.double).reshape(-1)).tolist())
        middle, deviation = seen.at(u.reshape(1, -1), time_of(steps(space)[fidelity], space))
        return Query(x, fidelity, {**noted, "mean": middle.item(), "deviation": deviation.item()})

    def _candidates(self, curves: list[LearningCurve], generator: torch.Generator) -> Tensor:
        """New designs: ones that fill the space, and steps from the best trainings."""
        space, seed = self.space, draw_seed(generator)
        spread = allowed(lambda n: sobol(space.dim, n, seed), SCREENED, space)
        best = sorted((c for c in curves if c.points), key=lambda c: -c.values[-1])[:BEST]
        if not best:
            return spread
        U = space.to_unit(torch.tensor([c.x for c in best], dtype=torch.double))
        sizes = torch.logspace(-2.5, -0.5, NEAR, dtype=torch.double).unsqueeze(-1)
        noise = torch.randn(len(U), NEAR, space.unit_dim, generator=generator, dtype=torch.double)
        near = space.snap((U.unsqueeze(1) + sizes * noise).clamp(0.0, 1.0).reshape(-1, space.unit_dim))
        return torch.cat([spread, near[space.allows(near)]])

    def seen(self, snapshot: Snapshot, curves: list[LearningCurve]) -> Seen:
        """The model of all curves, what is pending at its mean."""
        data, space = curve_data(snapshot.records, self.space), self.space
        pending = [
            [*space.to_unit(torch.tensor(r.query.x, dtype=torch.double)).tolist(), r.query.fidelity]
            for r in snapshot.pending
        ]
        key = (data.X.tolist(), data.Y.tolist(), data.Yvar is None or data.Yvar.tolist(), pending)
        return self._model(key, lambda: self._made(data, snapshot))

    def _made(self, data: CurveData, snapshot: Snapshot) -> Seen:
        state, (Z, noise, scale, shift, spread) = self._fitted(data), _standardized(data)
        model = self._built(data.X, Z, noise, state)
        best = Z.max().item()
        if snapshot.pending:
            points, at = snapshot.points(snapshot.pending), steps(self.space)
            times = torch.tensor([[time_of(at[int(m)], self.space)] for m in points[:, -1]], dtype=torch.double)
            X = torch.cat([points[:, :-1], times], dim=-1)
            means = model.predict(X)[0].unsqueeze(-1)
            more = None if noise is None else torch.cat([noise, torch.zeros_like(means)])
            model = self._built(torch.cat([data.X, X]), torch.cat([Z, means]), more, state)
        return Seen(model, best, scale, shift, spread)

    def _fitted(self, data: CurveData) -> dict[str, Tensor]:
        """Hyper-parameters, fitted on the schedule of the other models."""
        part = data.first(refit_size(len(data.Y), REFIT_EVERY))

        def state() -> dict[str, Tensor]:
            Z, noise, *_ = _standardized(part)
            some = torch.linspace(0, len(Z) - 1, min(len(Z), FITTED)).round().long()
            with fitting():
                known = None if noise is None else noise[some]
                model = LearningCurveGP(part.X[some], Z[some], known, self.space.groups).fit()
            return {name: value.detach().clone() for name, value in model.state_dict().items()}

        noise = None if part.Yvar is None else part.Yvar.tolist()
        return self._state((part.X.tolist(), part.Y.tolist(), noise), state)

    def _built(self, X: Tensor, Z: Tensor, noise: Tensor | None, state: dict[str, Tensor]) -> LearningCurveGP:
        with fitting():
            model = LearningCurveGP(X, Z, noise, self.space.groups)
        own = {name: value for name, value in state.items() if not name.startswith("likelihood") or noise is None}
        model.load_state_dict(own, strict=False)
        return model.eval()

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        snapshot = self.snapshot(history)
        if not snapshot.done:
            return None
        seen, U = self.seen(snapshot, learning_curves(history, self.space)), self.space.to_unit(X)
        at = torch.tensor([time_of(step, self.space) for step in steps(self.space)], dtype=torch.double)
        middle, deviation = seen.at(U.repeat_interleave(len(at), 0), at.repeat(len(U)))
        return middle.reshape(len(U), len(at)), deviation.reshape(len(U), len(at))


class Seen(NamedTuple):
    """A model of curves, the best value in its units, and how it sees the values."""

    model: LearningCurveGP
    best: float
    scale: CurveScale
    shift: float
    spread: float

    def at(self, U: Tensor, times: Tensor | float) -> tuple[Tensor, Tensor]:
        """Median and half-width of the values at ``n`` designs and times, in the units of the values."""
        times = torch.as_tensor(times, dtype=torch.double).expand(len(U)).unsqueeze(-1)
        mean, variance = self.model.predict(torch.cat([U.to(times), times], dim=-1))
        mean, deviation = self.shift + self.spread * mean, self.spread * variance.sqrt()
        middle, high, low = (self.scale.inverse(part) for part in (mean, mean + deviation, mean - deviation))
        return middle, 0.5 * (high - low)


def _standardized(data: CurveData) -> tuple[Tensor, Tensor | None, CurveScale, float, float]:
    """The values as they are seen, with mean 0 and deviation 1, the variances of their noise, and how that was done."""
    scale = CurveScale.of(data.Y)
    Z = scale(data.Y)
    shift, spread = shift_scale(Z)
    noise = scale.variances(data.Y, data.Yvar)
    return (Z - shift) / spread, None if noise is None else noise / spread**2, scale, shift, spread


def _open(curve: LearningCurve) -> bool:
    """Whether a training may go on."""
    return curve.status == Status.DONE
