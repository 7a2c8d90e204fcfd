"""What the strategies with a model have in common: initial design, model, search for the maximiser."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.acquisition.feasible import Feasible, MostFeasible, WithinLimits
from mfbo_torch.acquisition.optimize import optimize_acqf
from mfbo_torch.acquisition.optimize_mixed import alternated
from mfbo_torch.history import History, Query, Recommendation, Record, points, values
from mfbo_torch.models.outcome_transform import IDENTITY, Warp
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.common.deduplicate import BUSY_RADIUS, OBSERVED_RADIUS, apart, clear, used_up
from mfbo_torch.strategies.common.failure_model import Failures
from mfbo_torch.strategies.common.fit_schedule import Surrogate, draw_seed, quiet, seeded
from mfbo_torch.strategies.common.initial_design import allowed, sobol, uniform
from mfbo_torch.strategies.common.recommendation import advised, noisy
from mfbo_torch.strategies.common.subsample import Subset
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.device import usable_device
from mfbo_torch.utils.standardize import shift_scale
from mfbo_torch.utils.validation import one_of, whole

DTYPES = ("float64", "float32")


class ModelBased(Strategy):
    """A strategy that starts with uniform random points and then goes by a model.

    From a thousand observations of a fidelity on, its model is made of a part of them
    (:class:`~mfbo_torch.strategies.common.subsample.Subset`): a decision after ten thousand takes no longer than one
    after two.

    Initial queries carry ``{"stage": "initial", "index": i}``: a resumed run, or one warm-started
    with other records, continues the design where it stands. While nothing has an observation (all
    failed, or all pending) random points of the same proportions go on.

    Args:
        refit_every: Most observations between two fits of the hyper-parameters.
        device: Where the model is evaluated.
        dtype: ``"float64"`` or ``"float32"``.
        **settings: ``seed``, ``space`` and ``capital``.

    Raises:
        SettingError: ``refit_every`` below 1, an unknown ``dtype`` or a ``device`` that this machine does not have.
    """

    def __init__(self, *, refit_every: int = 5, device: str = "cpu", dtype: str = "float64", **settings: Any) -> None:
        super().__init__(**settings)
        self.refit_every, self.device = whole("refit_every", refit_every), device
        self.dtype = one_of("dtype", dtype, DTYPES)
        precision = getattr(torch, dtype)
        self.surrogate = Surrogate(refit_every, usable_device("device", device, precision), precision)
        self.failures = Failures(self.refit_every)
        self.subset = Subset()

    @abstractmethod
    def counts(self, snapshot: Snapshot) -> list[int]:
        """Number of initial queries at each fidelity."""

    @abstractmethod
    def modelled(self, snapshot: Snapshot) -> list[Record]:
        """The observations the model is made of."""

    @abstractmethod
    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        """The next query, as the model has it; see :meth:`placed`."""

    filling: Callable[[int, int, int], Tensor] = staticmethod(uniform)
    """From a dimension, a number of points and a seed to initial designs."""

    def initial_point(self, index: int) -> Tensor:
        """A design of the initial ones, ``d`` numbers of the unit cube; ``index`` of them came before it."""
        return allowed(lambda n: self.filling(self.space.dim, n, self.seed), index + 1, self.space)[index]

    def initial_point_at(self, fidelity: int, snapshot: Snapshot) -> Tensor:
        """The design of the next initial query, which is at a fidelity; ``d`` numbers of the unit cube."""
        return self.initial_point(len(snapshot.initial))

    def ready(self, snapshot: Snapshot) -> bool:
        """Whether there is something to make a model of."""
        return bool(self.modelled(snapshot))

    def due(self, snapshot: Snapshot) -> int | None:
        """The fidelity of the next initial query, ``None`` once all of them were queried."""
        if snapshot.first_of_model is not None:
            return None
        wanted = (m for m, count in enumerate(self.counts(snapshot)) if snapshot.initial.count(m) < count)
        several = self.space.num_fidelities > 1  # of a finite space a fidelity may have no design left
        return next((m for m in wanted if not (several and used_up(self.space, snapshot.records, m))), None)

    def decide(self, history: History) -> Query:
        return self.next_query(self.snapshot(history))

    def next_query(self, snapshot: Snapshot) -> Query:
        """The next query: initial design, then the model."""
        generator, due = snapshot.generator(self.seed), self.due(snapshot)
        if due is None and self.ready(snapshot):
            return self.with_prediction(self.propose(snapshot, generator), snapshot)
        if due is not None:
            due = self.free(due, snapshot)
            u = self.initial_point_at(due, snapshot)
            return self.placed(u, due, snapshot, generator, stage="initial", index=len(snapshot.initial))
        levels = [m for m, count in enumerate(self.counts(snapshot)) for _ in range(count)]
        u = self.random_design(generator)
        return self.placed(u, levels[len(snapshot) % len(levels)], snapshot, generator, stage="random")

    def with_prediction(self, query: Query, snapshot: Snapshot) -> Query:
        """A query that notes what the model expects of its value, where it can tell."""
        if "mean" in query.meta or not self.modelled(snapshot):
            return query
        found, m = self.predict(snapshot.history, torch.tensor([query.x], dtype=torch.double)), query.fidelity
        if found is None or not torch.isfinite(torch.stack(found)[:, 0, m]).all():
            return query
        mean, deviation = (part[0, m].item() for part in found)
        spread = math.hypot(deviation, self.noise_deviations(snapshot)[m] or 0.0)
        return replace(query, meta={**query.meta, "mean": mean, "deviation": deviation, "spread": spread})

    def placed(
        self,
        u: Tensor,
        fidelity: int,
        snapshot: Snapshot,
        generator: torch.Generator,
        stage: str = "model",
        **meta: Any,
    ) -> Query:
        """The query at a design near ``u``, ``d`` or ``1 x d`` in the unit cube, that was not queried before.

        The stage and ``meta`` are noted with it.
        """
        fidelity = self.free(fidelity, snapshot)
        return self.query(clear(u, fidelity, snapshot, generator), fidelity, stage=stage, **meta)

    def free(self, fidelity: int, snapshot: Snapshot) -> int:
        """The fidelity to query instead of one where a finite space may be used up."""
        return fidelity

    def noise_deviations(self, snapshot: Snapshot) -> tuple[float | None, ...]:
        """The standard deviation of the noise in an observation at each fidelity; ``None`` where no model tells it."""
        return (None,) * self.space.num_fidelities

    def transform(self, snapshot: Snapshot) -> Warp:
        """Through which the model sees the values."""
        return IDENTITY

    def spread(self, snapshot: Snapshot) -> float:
        """The standard deviation of the values at the target, outliers drawn near as in :meth:`transform`, or that of
        the process where it is known: beside it noise counts."""
        Y, transform = values(snapshot.at(self.space.target)), self.transform(snapshot)
        return self.deviation(transform(Y)) * transform.unit(Y)

    def deviation(self, Y: Tensor) -> float:
        """That of some values, or of the process where it is known."""
        return shift_scale(Y)[1]

    def recommend(self, history: History) -> Record | Recommendation | None:
        """The best observation at the target, or where observations are noisy or have limits what the model makes of
        them.

        See :func:`~mfbo_torch.strategies.common.recommendation.advised`; a strategy whose model does not tell the noise
        keeps to the best observation.
        """
        snapshot, target = self.snapshot(history), self.space.target
        best, records = snapshot.best(target), snapshot.at(target)
        if best is None:
            return None
        noise = self.noise_deviations(snapshot)
        is_noisy = noisy(records, noise[target], self.spread(snapshot))
        if not is_noisy and not self.space.limits:
            return best
        X = points(records)[:, :-1]
        found, feasible = self.predict(history, X), self.chances(snapshot, X)
        if found is None:
            return best
        mean, deviation = found
        return advised(records, best, (mean[:, target], deviation[:, target]), noise, feasible, is_noisy)

    @property
    def cube(self) -> Tensor:
        """The bounds of the designs, ``2 x D``, where the models live."""
        return self.surrogate.to(torch.tensor([[0.0], [1.0]]).expand(2, self.space.unit_dim))

    @property
    def inequalities(self) -> list[tuple[Tensor, Tensor, float]] | None:
        """The constraints for BoTorch's optimisers, where the models live."""
        to = self.surrogate.to
        found = self.space.inequalities
        return found and [(indices.to(self.device), to(weights), rhs) for indices, weights, rhs in found]

    def feasible(
        self,
        acquisition: AcquisitionFunction,
        snapshot: Snapshot,
        fidelity: int,
        reference: Callable[[], float] | None = None,
    ) -> AcquisitionFunction:
        """An acquisition that knows where evaluations fail and limits are not kept; itself while nothing does.

        While no observation at the fidelity keeps the limits, what is most likely to.

        Args:
            acquisition: Of points of the unit cube.
            snapshot: What was queried so far.
            fidelity: Whose evaluations are not to fail.
            reference: Gives that of :class:`~mfbo_torch.acquisition.feasible.Feasible`; ``None`` where the
                acquisition is a logarithm.
        """
        evaluated, limits = self.failures.feasibility(snapshot, fidelity), self.within_limits(snapshot)
        if limits is not None and snapshot.best(fidelity) is None:
            acquisition, limits, reference = MostFeasible(acquisition.model, limits), None, None
        factors = [chances for chances in (evaluated, limits) if chances is not None]
        over = reference() if factors and reference is not None else None
        for chances in factors:
            acquisition, over = Feasible(acquisition, chances, over), None if over is None else 0.0
        return acquisition

    def within_limits(self, snapshot: Snapshot) -> WithinLimits | None:
        """The probability that the outcomes at the target keep their limits; ``None`` where there are none."""
        return None

    def chances(self, snapshot: Snapshot, X: Tensor) -> Tensor | None:
        """The probability ``n`` that the outcomes of ``n x d`` designs, in the user's units, keep their limits at the
        target; ``None`` where there are none."""
        limits = self.within_limits(snapshot)
        if limits is None:
            return None
        with torch.no_grad(), quiet():
            return limits.log(self.surrogate.to(self.space.to_unit(X))).exp().to("cpu", torch.double)

    def maximize(
        self, acquisition: AcquisitionFunction, generator: torch.Generator, num_restarts: int, raw_samples: int
    ) -> tuple[Tensor, float]:
        """The maximiser ``1 x d`` of an acquisition over the unit cube, and its value."""
        seed = draw_seed(generator)
        if self.space.mixed:
            raw = allowed(lambda n: sobol(self.space.dim, n, seed), raw_samples, self.space)
            return self._alternated(acquisition, raw, num_restarts, seed)
        with seeded(seed):
            u, value = self._optimized(acquisition, num_restarts, raw_samples=raw_samples)
        return u, value.item()

    def maximize_from(
        self,
        acquisition: AcquisitionFunction,
        starts: Tensor,
        generator: torch.Generator,
        screened: int = 256,
        climbed: int = 1,
    ) -> Tensor:
        """The maximiser ``1 x d`` over the unit cube, searched from random points and from known good ones.

        Sobol points and 16 Gaussian steps of growing size from each of ``starts`` are screened; the four best, and the
        best that came from each of the best ``starts``, are refined by L-BFGS-B.

        Args:
            acquisition: What is maximised.
            starts: ``s x d`` good points.
            generator: Random numbers.
            screened: How many Sobol points.
            climbed: From how many of ``starts`` it is refined.
        """
        raw, _, chosen, seed = self._screened(acquisition, starts, generator, screened, climbed)
        if self.space.mixed:
            return self._alternated(acquisition, raw[chosen], len(chosen), seed)[0]
        return self._climbed(acquisition, raw[chosen], best=True)

    def candidates_from(
        self,
        acquisition: AcquisitionFunction,
        starts: Tensor,
        generator: torch.Generator,
        most: int,
        screened: int = 256,
        climbed: int = 1,
    ) -> Tensor:
        """At most ``most`` designs that can be queried, ``n x d`` on the CPU, among which the maximiser may be sought
        once more is in flight, no two of which are the same: half of them what :meth:`maximize_from` ends at from every
        start and the best of what it screens, :data:`BUSY_RADIUS` apart; half the first Sobol points. Arguments as
        there."""
        raw, scores, chosen, seed = self._screened(acquisition, starts, generator, screened, climbed)
        mixed = self.space.mixed
        ends = self._alternated(acquisition, raw[chosen], len(chosen), seed)[0] if mixed else None
        ends = self._climbed(acquisition, raw[chosen], best=False) if ends is None else ends
        found = torch.cat([ends.reshape(-1, raw.shape[-1]), raw[scores.argsort(descending=True, stable=True)[:most]]])
        found = torch.cat([apart(found, BUSY_RADIUS, most // 2), raw[: most // 2]]).to("cpu", torch.double)
        designs = self.space.to_unit(self.space.from_unit(found))
        return apart(designs[self.space.allows(designs)], OBSERVED_RADIUS, most)

    def _screened(
        self, acquisition: AcquisitionFunction, starts: Tensor, generator: torch.Generator, screened: int, climbed: int
    ) -> tuple[Tensor, Tensor, Tensor, int]:
        """Points, the Sobol ones first, their values, which of them to climb from, and a seed for that."""
        seed = draw_seed(generator)
        d, steps = self.space.unit_dim, torch.logspace(-3, -0.7, 16, dtype=torch.double).unsqueeze(-1)
        noise = torch.randn(len(starts), 16, d, generator=generator, dtype=torch.double)
        near = (starts.unsqueeze(-2) + steps * noise).clamp(0.0, 1.0).reshape(-1, d)
        close = torch.cat([starts, self.space.snap(near) if self.space.mixed else near])
        origin = torch.cat([torch.arange(len(starts)), torch.arange(len(starts)).repeat_interleave(16)])
        kept = self.space.allows(close)
        spread = allowed(lambda n: sobol(self.space.dim, n, seed), screened, self.space)
        raw = self.surrogate.to(torch.cat([spread, close[kept]]))
        with torch.no_grad():
            scores = acquisition(raw.unsqueeze(-2))
        best = _best_of_each(scores[screened:], origin[kept].to(scores.device), climbed)
        return raw, scores, torch.cat([scores.topk(4).indices, screened + best]).unique(), seed

    def _climbed(self, acquisition: AcquisitionFunction, starts: Tensor, best: bool) -> Tensor:
        """The best end of the climbs from some points, or all ends; draws nothing."""
        given: dict[str, Any] = {"batch_initial_conditions": starts.unsqueeze(-2), "return_best_only": best}
        return self._optimized(acquisition, len(starts), **given, retry_on_optimization_warning=False)[0].detach()

    def _alternated(
        self, acquisition: AcquisitionFunction, raw: Tensor, num_restarts: int, seed: int
    ) -> tuple[Tensor, float]:
        """The maximiser ``1 x D`` where there are choices, and its value, from the best of some designs."""
        with seeded(seed):
            return alternated(acquisition, self.surrogate.to(raw), self.space, num_restarts, self.inequalities)

    def _optimized(self, acquisition: AcquisitionFunction, num_restarts: int, **given: Any) -> tuple[Tensor, Tensor]:
        return optimize_acqf(
            acquisition,
            self.cube,
            q=1,
            num_restarts=num_restarts,
            options={"maxiter": 100},
            inequality_constraints=self.inequalities,
            **given,
        )


def _best_of_each(scores: Tensor, origin: Tensor, most: int) -> Tensor:
    """Where the best scores are, one of each origin."""
    found: list[int] = []
    seen: set[int] = set()
    for i in scores.argsort(descending=True, stable=True).tolist():
        if len(found) < most and (came := int(origin[i])) not in seen:
            found.append(i)
            seen.add(came)
    return torch.tensor(found, dtype=torch.long, device=scores.device)
