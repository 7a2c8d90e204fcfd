"""Three models of how the target follows from the fidelities below, and which of them decides."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple, replace
from functools import partial
from typing import Any, Self

import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement, PosteriorMean, UpperConfidenceBound
from torch import Tensor

from mfbo_torch.acquisition.multi_fidelity_ucb import MultiFidelityUpperConfidenceBound, StandardizedBound, explained
from mfbo_torch.history import Query, Record, Status, payable
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.models.multi_fidelity.co_kriging import CoKrigingGP
from mfbo_torch.models.multi_fidelity.per_fidelity import PerFidelityGP
from mfbo_torch.models.multi_fidelity.target import TargetModel
from mfbo_torch.models.outcome_transform import IDENTITY, Warp, fitted
from mfbo_torch.space import Space
from mfbo_torch.strategies.common.candidate_pool import Pool, PoolTarget, Seeker, gp_joint, joint_of
from mfbo_torch.strategies.common.deduplicate import OBSERVED_RADIUS, apart
from mfbo_torch.strategies.common.fit_schedule import Growing
from mfbo_torch.strategies.common.outcome_models import Chain, promising
from mfbo_torch.strategies.common.settled import Settled
from mfbo_torch.strategies.common.subsample import FEWER, Subset
from mfbo_torch.strategies.common.trust_region import MANY, MOST, Trusted, half_width
from mfbo_torch.strategies.multi.hedge_weights import (
    ALONE,
    INTEGRATED,
    LINKED,
    MODELS,
    Prediction,
    dues,
    most_due,
    noted_densities,
    shares,
)
from mfbo_torch.strategies.multi.mf_gp_ucb_recursive import LONG, RecursiveMFGPUCB, other_peaks
from mfbo_torch.strategies.single.analytic import ExpectedImprovement
from mfbo_torch.strategies.snapshot import Data, Snapshot, data_of
from mfbo_torch.utils.memo import Memo

MIN_GAIN, MIN_IMPROVEMENT = 1e-4, 1e-5
"""Smallest gain of a bound over the best known mean, and smallest expected improvement, that a chain queries, in
deviations of the function. Below, only the third model leaves a peak that no cheap fidelity tells from the highest."""
STRONG = 10.0
"""Nats of evidence that are needed before long tails are shortened."""
SURE = 1e-6
"""Smallest deviation of a prediction, in deviations of the function."""
LAST = 2
"""Number of the target's last queries that go where the averaged chain's mean is largest; one of a short capital."""
CANDIDATES = 256
"""Number of designs that are looked at beside queries in flight."""


class _TargetOnly(ExpectedImprovement):
    """The hedge has transformed the values that it sees."""

    def transform(self, snapshot: Snapshot) -> Warp:
        return IDENTITY


class HedgedMFGPUCB(RecursiveMFGPUCB):
    r"""Turns of three models, by their record of predicting the target
    (:mod:`~mfbo_torch.strategies.multi.hedge_weights`).

    - The chain as fitted: where its upper bound is largest.
    - The chain with its links integrated out and its residuals averaged (:class:`~mfbo_torch.models.CoKrigingGP`),
      of values whose long tails, such as losses that explode, are shortened by one monotone map for all fidelities
      (:class:`~mfbo_torch.models.outcome_transform.Warp`) where the evidence asks for it: where the target's expected
      improvement is largest [Ament2023logei]_, which looks elsewhere once there is little left to gain where it is.
    - The target alone, by expected improvement and with a rougher kernel: no cheap fidelity can mislead it.

    Where some values are outliers far below, beside which the others would be lost, all three see values so mapped.

    A query of the first two goes to the fidelity that explains enough of the target's variance for its cost: by the
    variances of the fitted chain, as the residual of the averaged one is too wide, and by the slopes of that, as slopes
    fitted to few values may be anything. Where it is the target's only because that is overdue, the fitted chain asks
    where its mean is largest, if that is above the best known one. In many dimensions the first two are believed as far
    from what was observed as their predictions came true (:mod:`~mfbo_torch.strategies.common.trust_region`). Where a
    bound gains less than :data:`MIN_GAIN` deviations over the best known mean, or the improvement expected is below
    :data:`MIN_IMPROVEMENT`, the third queries: nothing is spent on what is known. The third has no turn while the
    capital beside the target's last query goes to cheaper ones.

    The target's :data:`LAST` queries go where the mean of the averaged chain is largest, if that is above the best
    known one, whosever turn it is. Of a capital below :data:`LONG` target costs that is one query.
    """

    integrated_outcomes = True
    models: tuple[str, ...] = MODELS
    """Which of the models take turns."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._bent: Growing[PerFidelityGP] = Growing(self.refit_every)
        self._settled = Settled()
        self._integrated: Memo[CoKrigingGP] = Memo()
        self._warp: Memo[Warp] = Memo()
        self._transforms: Memo[tuple[Warp, Warp]] = Memo()
        self._linked: Memo[PerFidelityGP] = Memo()
        self._shares: Memo[dict[str, float]] = Memo()
        self._pending: Memo[Tensor | None] = Memo()
        self._tops: defaultdict[bool, Memo[Tensor]] = defaultdict(Memo)
        self._alone: Memo[tuple[Data, CachedGP, float]] = Memo()
        self._due = dues(self.models)
        self._candidates: Memo[Pool] = Memo()
        own: dict[str, Any] = {"seed": self.seed, "device": self.device, "dtype": self.dtype}
        self.target_only = _TargetOnly(**own, space=self.own_space, capital=self.capital)
        self.target_only.subset = Subset(FEWER)

    def bind(self, space: Space, capital: float | None = None) -> Self:
        bound = super().bind(space, capital)
        bound.target_only = self.target_only.bind(space, capital)
        return bound

    def counts_below(self, costs: Sequence[float], share: float, top: int) -> list[int]:
        r"""Where a fidelity is cheap a quarter of its share may go into more queries, up to
        :math:`10 d (1 + \log_{10} \lambda^{(M)} / \lambda^{(m)})`: what is not seen there is not looked for above."""
        most, below = 10 * self.space.dim, super().counts_below(costs, share, top)
        wide = [most * (1 + math.log10(costs[-1] / cost)) for cost in costs[:-1]]
        return [max(n, int(min(w, share / 4 / c) + 1e-9)) for n, w, c in zip(below, wide, costs[:-1], strict=True)]

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        """The decision of the model whose turn it is; as without a hedge while the target has no value."""
        if not self.target_only.modelled(snapshot):
            return super().propose(snapshot, generator)
        warp, common = self.transforms(snapshot)
        judge, key = partial(noted_densities, warp), (self._settled(snapshot), self.models)
        parts = self._shares(key, lambda: shares(snapshot.records, self.models, judge))
        turn = most_due(self._due(snapshot.history), parts)
        if turn == ALONE and self.last_level(self.space.target, snapshot) < self.space.target:
            turn = INTEGRATED  # values below the target tell the third nothing
        name, query = self.decided_by(turn, snapshot, generator)
        noted: dict[str, Any] = {"model": name, "shares": parts}
        if query.fidelity == self.space.target:
            u = self.space.to_unit(torch.tensor([query.x], dtype=torch.double))
            noted["predicted"] = self.predictions(u, snapshot)
            noted |= {"warp": [*astuple(warp)], "common": [*astuple(common)]}
        return replace(query, meta={**query.meta, **noted})

    def decided_by(self, name: str, snapshot: Snapshot, generator: torch.Generator) -> tuple[str, Query]:
        """The query of a model, or of the target alone where that model expects no gain; and whose it is."""
        if snapshot.pending:
            query = self._beside(name, snapshot, generator) if name != ALONE else None
            return (ALONE, self._beside_alone(snapshot, generator)) if query is None else (name, query)
        if self.nearly_spent(snapshot) and (query := self._improving(snapshot, generator, surest=True)) is not None:
            return INTEGRATED, query
        rules = {LINKED: self._bounded, INTEGRATED: self._improving}
        if name in rules and (query := rules[name](snapshot, generator)) is not None:
            return name, query
        seen = snapshot.transformed(self.transform(snapshot))
        u, _ = self.target_only.design(seen, generator)
        return ALONE, self.placed(u, self.space.target, snapshot, generator, **self._noted_alone(snapshot, u))

    def _noted_alone(self, snapshot: Snapshot, u: Tensor) -> dict[str, Any]:
        """What the model of the target alone expects at a ``1 x d`` design."""
        mean, *deviations = self._alone_at(snapshot, u)
        (known, deviation), (_, spread) = (self.transform(snapshot).moments(mean, each) for each in deviations)
        return {"mean": known.item(), "deviation": deviation.item(), "spread": spread.item()}

    def _bounded(self, snapshot: Snapshot, generator: torch.Generator) -> Query | None:
        """Where the bound of the fitted chain is largest, if it gains something."""
        model = self.model(snapshot)
        u, beta = self.bounded(model, snapshot, generator)
        if self._gain(model, u, beta, snapshot) < MIN_GAIN and snapshot.best(self.space.target) is not None:
            return None
        at = self.level(model, u, snapshot)
        if at.noted.get("because") == "overdue":
            surest, _ = self.bounded(model, snapshot, generator, beta=0.0)
            u, beta = (surest, 0.0) if self._gain(model, surest, 0.0, snapshot) > MIN_GAIN else (u, beta)
        return self.query_near(model, u, beta, at, snapshot, generator, self.transform(snapshot), {"beta": beta})

    def nearly_spent(self, snapshot: Snapshot) -> bool:
        """Whether the target's last queries are to come."""
        if self.capital is None:
            return False
        cost = snapshot.costs[-1]
        last = LAST if self.capital >= LONG * cost else 1
        return payable(self.capital) - snapshot.history.spent < (last + 1) * cost

    def _improving(self, snapshot: Snapshot, generator: torch.Generator, surest: bool = False) -> Query | None:
        """Where the averaged chain expects most of the target, or is ``surest`` of it, if that is something."""
        model, (warp, _), fidelity = self.integrated(snapshot), self.transforms(snapshot), self.space.target
        unit = _unit(model)
        target, best = TargetModel(model.hallucinate(self.pending(snapshot)), unit), self._best(model, snapshot) / unit
        acquisition = PosteriorMean(target) if surest else LogExpectedImprovement(target, best)
        score = self.feasible(acquisition, snapshot, fidelity, best.item if surest else None)
        u = self.searched(score, snapshot, generator)
        with torch.no_grad():
            gain = acquisition(u.unsqueeze(-2)).item()
        least = best.item() + MIN_IMPROVEMENT if surest else math.log(MIN_IMPROVEMENT)
        if gain < least and snapshot.best(fidelity) is not None:
            return None
        at = self.level(self.model(snapshot), u, snapshot)
        return self.query_near(model, u, 1.0, at, snapshot, generator, warp, {"beta": 0.0} if surest else {})

    def _gain(self, model: Chain, u: Tensor, beta: float, snapshot: Snapshot) -> float:
        """What a chain's bound gains at a ``1 x d`` design over the best known mean, in deviations of the function."""
        with torch.no_grad():
            mean, variance = model.mean_variance(u)
        bound = mean[0, -1] + math.sqrt(beta) * variance[0, -1].sqrt()
        return ((bound - self._best(model, snapshot)) / _unit(model)).item()

    def _beside(self, name: str, snapshot: Snapshot, generator: torch.Generator) -> Query | None:
        """What a chain wants beside the queries in flight, if it expects some gain: the best of candidates that are
        sought anew when a value has come."""
        seeker, pool = self._seeker(name, snapshot), self._pool(snapshot)
        flying = snapshot.flying
        gains, order = seeker.ranked(pool, name, flying)
        if gains[order[0]] < seeker.least and snapshot.best(self.space.target) is not None:
            return None
        chain, beta = self.model(snapshot), self.width(snapshot) if name == LINKED else 1.0
        variance, weights = pool.moments(LINKED, joint_of(chain), flying)[1], self.expected_slopes(chain, snapshot)
        parts = explained(chain.slopes, variance, expected=weights).tolist()
        due = [self.level_due(m, snapshot)[0] for m in range(self.space.num_fidelities)]
        free = [pool.clear(m, *snapshot.taken(m)).tolist() for m in due]
        some = (i for i in order if any(each[i] for each in free))
        wanted = ((i, self.level_wanted(parts[i], pool.designs[i : i + 1], snapshot)) for i in some)
        chosen = next((i for i, m in wanted if free[m][i]), order[0])
        u, noted = self.surrogate.to(pool.designs[chosen : chosen + 1]), {"beta": beta} if name == LINKED else {}
        warp = self.transform(snapshot) if name == LINKED else self.transforms(snapshot)[0]
        at = self.level_of(parts[chosen], u, snapshot)
        return self.query_near(seeker.model, u, beta, at, snapshot, generator, warp, noted)

    def _beside_alone(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        """The same of the model of the target alone, whatever it expects."""
        target = self.space.target
        seeker, pool = self._seeker(ALONE, snapshot), self._pool(snapshot)
        flying = snapshot.points(snapshot.at(target, Status.PENDING))
        flying[:, -1] = 0
        _, order = seeker.ranked(pool, ALONE, flying)
        clear = pool.clear(target, *snapshot.taken(target)).tolist()
        chosen = next((i for i in order if clear[i]), order[0])
        u = pool.designs[chosen : chosen + 1]
        return self.placed(u, target, snapshot, generator, **self._noted_alone(snapshot, u))

    def _pool(self, snapshot: Snapshot) -> Pool:
        """Where all models look beside queries in flight, until the next value comes."""

        def found() -> Pool:
            settled = len(snapshot) - len(snapshot.pending)
            draws, parts = torch.Generator().manual_seed(hash((self.seed, settled)) % 2**63), []
            names = (LINKED, INTEGRATED, ALONE) if self.target_only.modelled(snapshot) else (LINKED,)
            for name in names:
                seeker = self._seeker(name, snapshot)
                score = seeker.weighed(seeker.score(None))
                score = score if name == ALONE else self._trusted(score, snapshot)
                starts, most = self._starts(score, snapshot), CANDIDATES // len(names)
                designs = self.candidates_from(score, starts, draws, most, 1024, 6)
                if isinstance(score, Trusted):
                    designs = self.space.snap(score.moved(self.surrogate.to(designs)).to(designs))
                parts.append(designs)
            return Pool(apart(torch.cat(parts), OBSERVED_RADIUS, CANDIDATES))

        return self._candidates(self._settled(snapshot), found)

    def _seeker(self, name: str, snapshot: Snapshot) -> Seeker:
        owner = self.target_only if name == ALONE else self
        weighed = partial(owner.feasible, snapshot=snapshot, fidelity=self.space.target)
        if name == ALONE:
            _, gp, top = self._of_target(snapshot)
            return Seeker(gp, gp_joint(gp), lambda m: LogExpectedImprovement(m or gp, top), weighed)
        model = self.model(snapshot) if name == LINKED else self.integrated(snapshot)
        least, known, joint = _unit(model), self._best(model, snapshot), joint_of(model)
        shift, unit = (model.shift[-1].item(), model.scale[-1].item()) if name == LINKED else (0.0, least.item())
        best = (known.item() - shift) / unit

        def bound(m: PoolTarget | None) -> AcquisitionFunction:
            beta = self.width(snapshot if m else snapshot.of(snapshot.done))
            if m:
                return UpperConfidenceBound(m, beta)
            return StandardizedBound(MultiFidelityUpperConfidenceBound(model, beta))

        if name == INTEGRATED:
            target, kept = TargetModel(model, least), math.log(MIN_IMPROVEMENT)
            return Seeker(model, joint, lambda m: LogExpectedImprovement(m or target, best), weighed, kept, unit=unit)
        weighed = partial(weighed, reference=lambda: best)
        return Seeker(model, joint, bound, weighed, best + MIN_GAIN * least.item() / unit, shift, unit)

    def searched(self, score: AcquisitionFunction, snapshot: Snapshot, generator: torch.Generator) -> Tensor:
        """The maximiser ``1 x d`` where the models are believed, searched from the peaks of every fidelity."""
        score = self._trusted(score, snapshot)
        u = self.maximize_from(score, self._starts(score, snapshot), generator, screened=1024, climbed=6)
        return self.snapped(score.moved(u) if isinstance(score, Trusted) else u)

    def _trusted(self, score: AcquisitionFunction, snapshot: Snapshot) -> AcquisitionFunction:
        """An acquisition function of the chains where they are believed; itself where that is everywhere, or where
        between two designs there may be none."""
        if self.space.dim < MANY or self.space.mixed or self.inequalities or not snapshot.done:
            return score
        width = half_width(snapshot.records, (LINKED, INTEGRATED))
        return score if width >= MOST else Trusted(score, self.surrogate.to(snapshot.designs(snapshot.done)), width)

    def _starts(self, score: AcquisitionFunction, snapshot: Snapshot) -> Tensor:
        U = snapshot.designs(snapshot.done if self.space.limits else [])
        return torch.cat([snapshot.incumbents, other_peaks(snapshot), promising(score, U, self.surrogate.to)])

    def pending(self, snapshot: Snapshot) -> Tensor | None:
        return self._pending(snapshot, lambda: super(HedgedMFGPUCB, self).pending(snapshot))

    def _best(self, model: Chain, snapshot: Snapshot) -> Tensor:
        """The largest mean of the target at a design where it was observed and feasible, if any was."""

        def found() -> Tensor:
            records = self.target_only.modelled(snapshot) or self.modelled(snapshot)
            seen = snapshot.designs([r for r in records if r.feasible] or records)
            with torch.no_grad():
                return model.mean_variance(self.surrogate.to(seen))[0][:, -1].max()

        return self._tops[model is self.model(snapshot)]((self._settled(snapshot), model), found)

    def predictions(self, u: Tensor, snapshot: Snapshot) -> dict[str, Prediction]:
        """What each model predicts of the target's value at ``1 x d`` designs, noise included."""
        found: dict[str, Prediction] = {}
        for name, model in ((LINKED, self.model(snapshot)), (INTEGRATED, self.integrated(snapshot))):
            with torch.no_grad():
                mean, variance = model.mean_variance(self.surrogate.to(u))
            total = variance[0, -1] + model.noise[-1] + (SURE * model.scale[-1]).square()
            found[name] = [mean[0, -1].item(), total.sqrt().item()]
        alone = self._alone_at(snapshot, u)
        return found | {ALONE: [alone[0].item(), alone[2].item()]}

    def _alone_at(self, snapshot: Snapshot, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the model of the target alone tells of a ``1 x d`` design: mean, deviation, that of an observation."""
        (_, Y, _), gp, _ = self._of_target(snapshot)
        shift, scale = self.target_only.gp.units(Y)
        mean, variance, noise = (part.reshape(()).to("cpu", torch.double) for part in gp.joint(self.surrogate.to(u)))
        variance = variance.clamp_min(SURE**2)  # rounding may leave less than nothing beside an observation
        return shift + scale * mean, scale * variance.sqrt(), scale * (variance + noise).sqrt()

    def _of_target(self, snapshot: Snapshot) -> tuple[Data, CachedGP, float]:
        """The data of the target alone, their model and the best of them, in its units."""

        def found() -> tuple[Data, CachedGP, float]:
            seen = snapshot.transformed(self.transform(snapshot))
            return self.target_only.observed(seen), self.target_only.posterior(seen)[0], self.target_only.best(seen)

        return self._alone(self._settled(snapshot), found)

    def model(self, snapshot: Snapshot) -> PerFidelityGP:
        return self._linked(self._settled(snapshot), lambda: super(HedgedMFGPUCB, self).model(snapshot))

    def integrated(self, snapshot: Snapshot) -> CoKrigingGP:
        """The model of everything observed that does not take its links for known."""
        warp, common = self.transforms(snapshot)

        def found() -> CoKrigingGP:
            same = warp == common
            return CoKrigingGP(self.model(snapshot) if same else self.grown(self._bent, self.modelled(snapshot), warp))

        return self._integrated(self._settled(snapshot), found)

    def expected_slopes(self, model: Chain, snapshot: Snapshot) -> Tensor | None:
        return self.integrated(snapshot).slopes if model is self.model(snapshot) else None

    def best_model(self, snapshot: Snapshot) -> tuple[Chain, Warp]:
        return self.integrated(snapshot), self.transforms(snapshot)[0]

    def transform(self, snapshot: Snapshot) -> Warp:
        return self.transforms(snapshot)[1]

    def transforms(self, snapshot: Snapshot) -> tuple[Warp, Warp]:
        """The maps of the values that the averaged chain sees, and that all models see.

        The second is the first where some values are outliers far below all others, which would be lost beside them;
        else the identity.
        """

        def found() -> tuple[Warp, Warp]:
            records, outliers = snapshot.to_fit_transform(self.modelled(snapshot))
            key = [(r.query.x, r.query.fidelity, r.value) for r in records]
            warp = self._warp(key, lambda: self._fitted_warp(records))
            return warp, warp if outliers else IDENTITY

        return self._transforms(self._settled(snapshot), found)

    def _fitted_warp(self, records: list[Record]) -> Warp:
        """The map of the lowest fidelity's values to a normal sample, if the model of everything is much the better
        for it; else the identity."""
        X, Y, _ = data_of(self.space, records)
        lowest, *others = (Y[X[:, -1] == m] for m in range(self.space.num_fidelities))
        warp = fitted(lowest, others)
        if warp == IDENTITY:
            return warp

        def evidence(transform: Warp) -> float:
            chain = self.fitted(*self.data(records, transform))
            return CoKrigingGP(chain).evidence + transform.log_slope(Y).sum().item()

        return warp if evidence(warp) > evidence(IDENTITY) + STRONG else IDENTITY


def _unit(model: Chain) -> Tensor:
    """The largest of the units in which the fidelities enter the target."""
    return (model.slopes.abs() * model.scale).max()
