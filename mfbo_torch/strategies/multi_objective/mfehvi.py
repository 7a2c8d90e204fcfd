"""Expected hypervolume improvement of the target, at the fidelity that explains enough of it for its cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import Any, NamedTuple, Self

import torch
from botorch.models.model import ModelList
from torch import Tensor

from mfbo_torch.acquisition.hypervolume_improvement import LogExpectedHypervolumeImprovement
from mfbo_torch.acquisition.multi_fidelity_ucb import explained_variance
from mfbo_torch.history import History, Query, Recommendation, Record
from mfbo_torch.metrics.front import front, knee, objective_values, ranges, reference_point
from mfbo_torch.models.known_output import KnownOutput
from mfbo_torch.models.multi_fidelity.target import TargetMean, TargetModel
from mfbo_torch.models.outcome_transform import Warp
from mfbo_torch.space import Space
from mfbo_torch.space.objectives import check_known, known_values
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.common.outcome_models import promising
from mfbo_torch.strategies.multi.hedge_weights import (
    ALONE,
    INTEGRATED,
    Prediction,
    dues,
    log_densities,
    most_due,
    shares,
)
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import impatience
from mfbo_torch.strategies.multi.model_hedge import HedgedMFGPUCB
from mfbo_torch.strategies.multi.upper_bounds import UpperBounds
from mfbo_torch.strategies.multi_objective.predicted_front import predicted_front
from mfbo_torch.strategies.multi_objective.views import Views, chebyshev, space_of_one
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.errors import SettingError

MODELS = (INTEGRATED, ALONE)
LEAST_RANGE = 1e-3
"""The smallest range of an objective that is improved on, as a part of that of its values."""
LEAST_GAIN = 1e-7
"""Smallest expected hypervolume improvement that a chain queries, where each objective ranges from 0 to 1."""
MOST_OBJECTIVES = 4
"""Number of objectives up to which hypervolumes are computed; beyond, objectives are scalarised."""


class _Goal(NamedTuple):
    """What is improved on: ``K`` values, to be maximised, from which and up to which; the latter are larger."""

    reference: Tensor
    ideal: Tensor
    designs: Tensor
    """``f x D`` designs on the front that the chains predict."""


class MFEHVI(Strategy):
    r"""Several objectives at several fidelities: where the hypervolume of the target's front is expected to grow most.

    An objective that is a known function of the parameters needs no model. Each other one has the models of the
    single-objective default (:class:`~mfbo_torch.strategies.multi.model_hedge.HedgedMFGPUCB`). Two forms of them take
    turns by their record of predicting the target: the chain of fidelities with its links integrated out, and the
    target alone, which no cheap fidelity can mislead. Each maximises
    :class:`~mfbo_torch.acquisition.LogExpectedHypervolumeImprovement` over the front of its means at the designs
    observed at the target [Yang2019ehvi]_.

    A query of the chain goes to the lowest fidelity that explains as much of the target's variance there, summed over
    the objectives in units of the front's ranges, per unit of cost as the target itself does, noise considered. The
    part that it explains is the geometric mean of two: by the chain as estimated, which trusts a fidelity of which
    little is known, and by the one with its links integrated out, which hardly does. What a fidelity has to explain is
    doubled whenever nothing above it was queried for as many queries of it as one of the next fidelity costs, and is
    what it was once something is. The last queries of a capital wait for values (:meth:`waits`). The target's last
    ones, two of a capital of ten target costs or more and one of less, go where the chains' means add most hypervolume:
    nothing could use what they explore.

    The reference point is what the objectives or limits on them say. Where they say nothing it is found anew for each
    decision: the worst value on the front that the chains predict
    (:mod:`~mfbo_torch.strategies.multi_objective.predicted_front`), less a tenth of the range there, or where that is
    worse the value that a quarter of all designs is better than: a front in one point would confine the search to
    itself. It is noted with the query. Beyond :data:`MOST_OBJECTIVES` objectives each decision maximises one random
    augmented Chebyshev scalarisation [Knowles2006parego]_.

    Args:
        initial_capital: As that of :class:`~mfbo_torch.MFGPUCB`.
        refit_every: Most observations between two fits of the hyper-parameters.
        device: Where the models compute.
        dtype: Their precision, ``"float64"`` or ``"float32"``.
        **settings: ``seed``, ``space`` and ``capital``.
    """

    heeds_limits = heeds_objectives = patient = True
    most_fidelities = UpperBounds.most_fidelities

    def __init__(
        self,
        *,
        initial_capital: float | None = None,
        refit_every: int = 25,
        device: str = "cpu",
        dtype: str = "float64",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._shared: dict[str, Any] = {"initial_capital": initial_capital, "refit_every": refit_every}
        self._shared |= {"device": device, "dtype": dtype}
        rule = HedgedMFGPUCB(**self._shared)
        self.initial_capital, self.refit_every, self.device, self.dtype = (getattr(rule, name) for name in self._shared)
        self._rules: list[HedgedMFGPUCB] = []
        self._scalar: HedgedMFGPUCB | None = None
        self._views, self._first_views, self._due = Views(), Views(), dues(MODELS)

    def bind(self, space: Space, capital: float | None = None) -> Self:
        bound = super().bind(space, capital)
        bound._rules, bound._scalar, bound._views, bound._first_views = [], None, Views(), Views()
        return bound

    def _check_limits(self) -> None:
        super()._check_limits()
        if self._space is None:
            return
        if not self._space.objectives:
            raise SettingError("objectives", 1, "two or more for MFEHVI; MFGPUCB takes one")
        for one in self._space.objectives:
            for limit in self._space.limits:
                if limit.name == one.name and limit.upper == one.maximize:
                    wanted = "a limit on its worse values; for MFEHVI a bound on the better ones is no limit"
                    raise SettingError(f"limits.{one.name}", str(limit), wanted)

    @property
    def rules(self) -> list[HedgedMFGPUCB]:
        """The models of each objective that is not known; those of the first one know of limits on other outcomes."""
        if not self._rules:
            self._rules = [self._rule(limited=not k) for k in range(len(self.observed))]
        return self._rules

    @property
    def observed(self) -> list[int]:
        """The numbers of the objectives that are not known."""
        return [k for k, one in enumerate(self.space.objectives) if one.known is None]

    @property
    def _names(self) -> list[str]:
        return [self.space.objectives[k].name for k in self.observed]

    def _known(self, k: int) -> Callable[[Tensor], Tensor]:
        """The values of a known objective at ``n x D`` designs of the unit cube, to be maximised."""
        space, one = self.space, self.space.objectives[k]

        def values(U: Tensor) -> Tensor:
            named = [*map(space.named, space.from_unit(U).tolist())]
            try:
                found = [one.signed(known_values([one], design)[one.name]) for design in named]
            except Exception:
                found = [math.nan]
            if not all(map(math.isfinite, found)):
                for design in named:
                    check_known([one], design)
            return torch.tensor(found, dtype=torch.double)

        return values

    def _all(self, observed: Sequence[Any], known: Callable[[int], Any]) -> list[Any]:
        """What there is of each objective: those that are observed in their order, the others made by number."""
        left = iter(observed)
        goals = enumerate(self.space.objectives)
        return [next(left) if one.known is None else known(k) for k, one in goals]

    def _rule(self, limited: bool) -> HedgedMFGPUCB:
        rule = HedgedMFGPUCB(seed=self.seed, **self._shared)
        return rule.bind(space_of_one(self.space, limited), self.capital)

    def snapshots(self, history: History) -> list[Snapshot]:
        """What a decision is made from, for each objective that is not known."""
        views = self._views_of(history)
        return [rule.snapshot(views[k]) for rule, k in zip(self.rules, self.observed, strict=True)]

    def _views_of(self, history: History) -> list[History]:
        """The history of each objective alone."""
        return self._views(history, self.space, frozenset(limit.name for limit in self.rules[0].space.limits))

    def decide(self, history: History) -> Query:
        snapshots = self.snapshots(history)
        first, snapshot = self.rules[0], snapshots[0]
        due = first.due(snapshot)
        if due is None and first.target_only.modelled(snapshot):
            return self._proposed(history, snapshots, snapshot.generator(self.seed))
        turn = 0 if due is None else snapshot.initial.count(due) % len(snapshots)
        rule, limits = self.rules[turn], frozenset(limit.name for limit in self.space.limits)
        view = self._first_views(history, self.space, limits)[self.observed[turn]]  # limits on objectives count too
        return rule.next_query(rule.snapshot(view))  # the best designs below, by one objective after another

    def _proposed(self, history: History, snapshots: list[Snapshot], generator: torch.Generator) -> Query:
        """The decision of the model whose turn it is."""
        parts = shares(history.records, MODELS, self._log_densities)
        name = most_due(self._due(history), parts)
        surest = self.rules[0].nearly_spent(snapshots[0])
        if surest or self.rules[0].last_level(self.space.target, snapshots[0]) < self.space.target:
            name = INTEGRATED  # whose mean is asked last; values below the target tell the other nothing
        goal = self._goal(history, snapshots)
        signs = [one.signed(worst) for one, worst in zip(self.space.objectives, goal.reference.tolist(), strict=True)]
        noted: dict[str, Any] = {"shares": parts, "reference": signs}
        if len(self.space.objectives) > MOST_OBJECTIVES:
            name, query = self._scalarised(name, history, goal, generator)
        else:
            name, query = self._improving(name, snapshots, goal, generator, surest)
        u = self.space.to_unit(torch.tensor([query.x], dtype=torch.double))
        if query.fidelity == self.space.target:
            pairs = [*zip(self.rules, snapshots, strict=True)]
            noted["predicted"] = [_of_models(rule.predictions(u, snapshot)) for rule, snapshot in pairs]
            noted["observed"] = self._names
            noted["maps"] = [[[*astuple(warp)] for warp in rule.transforms(snapshot)] for rule, snapshot in pairs]
        return Query(query.x, query.fidelity, {"stage": "model", "model": name, **noted})

    def _log_densities(self, record: Record, predictions: Sequence[Mapping[str, Prediction]]) -> dict[str, float]:
        """The logarithm of the density that each model gave to the values of a record."""
        total = dict.fromkeys(MODELS, 0.0)
        if len(predictions) != len(self._names) or record.query.meta.get("observed", self._names) != self._names:
            return total  # predictions of a run with other objectives
        for k, seen, maps in zip(self.observed, predictions, record.query.meta["maps"], strict=True):
            one = self.space.objectives[k]
            value = one.signed(record.outcomes[one.name].value)
            found = log_densities(value, seen, *(Warp(*some) for some in maps))
            total = {name: total[name] + found[name] for name in MODELS}
        return total

    def _goal(self, history: History, snapshots: list[Snapshot]) -> _Goal:
        """The front that the chains predict; the reference point and the best of each objective there."""
        pairs = [(rule.surrogate, *rule.best_model(seen)) for rule, seen in zip(self.rules, snapshots, strict=True)]
        to, limits = self.rules[0].surrogate.to, self.rules[0].within_limits(snapshots[0])

        def values(U: Tensor) -> Tensor:
            with torch.no_grad():
                found = [
                    warp.inverse(model.mean_variance(surrogate.to(U))[0][:, -1].to("cpu", torch.double))
                    for surrogate, model, warp in pairs
                ]
            return torch.stack(self._all(found, lambda k: self._known(k)(U)), -1)

        def likely(U: Tensor) -> Tensor:
            with torch.no_grad():
                return torch.ones(len(U)).bool() if limits is None else limits.log(to(U)).to("cpu") > math.log(0.5)

        seen = snapshots[0].designs(snapshots[0].done)
        designs, Y, ordinary = predicted_front(self.space, seen, values, likely, self.seed)
        records = [r for r in snapshots[0].at(self.space.target) if r.feasible]
        known = objective_values([history.records[r.id] for r in records], self.space.objectives)
        reference, least = reference_point(self.space, Y, ordinary), LEAST_RANGE * ranges(torch.cat([Y, known]))
        return _Goal(reference, torch.maximum(Y.amax(0), reference + least), designs)

    def _improving(
        self, name: str, snapshots: list[Snapshot], goal: _Goal, generator: torch.Generator, surest: bool
    ) -> tuple[str, Query]:
        """The query of a model, or of the target alone where that model expects, or is ``surest`` of, no gain; and
        whose it is."""
        rule, snapshot, target = self.rules[0], snapshots[0], self.space.target
        if name == INTEGRATED:
            score = self._chained(snapshots, goal, TargetMean if surest else TargetModel)
            seen = snapshot.designs([r for r in snapshot.done if r.feasible] or snapshot.done)
            bests = [each.incumbents for each in snapshots]
            judged = rule.feasible(score, snapshot, target)
            more = [promising(judged, designs, rule.surrogate.to) for designs in (seen, goal.designs)]
            starts = torch.cat([*bests, *more]).unique(dim=0)
            u = rule.snapped(rule.maximize_from(judged, starts, generator, screened=1024, climbed=6))
            with torch.no_grad():
                gain = score(u.unsqueeze(-2)).item()
            if gain >= math.log(LEAST_GAIN) or snapshot.best(target) is None:
                fidelity = rule.probing(u, self._level(u, snapshots, goal), snapshot)
                return name, rule.placed(u, fidelity, snapshot, generator)
        u = rule.target_only.maximiser(self._alone(snapshots, goal), snapshot, generator)
        return ALONE, rule.placed(u, target, snapshot, generator)

    def _chained(
        self, snapshots: list[Snapshot], goal: _Goal, seen_as: type[TargetModel]
    ) -> LogExpectedHypervolumeImprovement:
        """The improvement by the chains of fidelities; where a value is pending, its mean counts as observed."""
        models, edges = [], []
        for rule, snapshot, (worst, best) in zip(self.rules, snapshots, self._bounds(goal), strict=True):
            warp, _ = rule.transforms(snapshot)
            low, high = rule.surrogate.to(warp(torch.stack([worst, best])))
            model = rule.integrated(snapshot).hallucinate(rule.pending(snapshot))
            models.append(seen_as(model, (high - low).clamp_min(torch.finfo(low.dtype).tiny)))
            edges.append(low / models[-1].unit)
        return self._improvement(models, edges, snapshots, goal)

    def _alone(self, snapshots: list[Snapshot], goal: _Goal) -> LogExpectedHypervolumeImprovement:
        """The improvement by the models of the target alone."""
        models, edges = [], []
        for rule, snapshot, (worst, _) in zip(self.rules, snapshots, self._bounds(goal), strict=True):
            seen = snapshot.transformed(rule.transform(snapshot))
            alone = rule.target_only
            models.append(alone.hallucinated(seen))
            shift, scale = alone.gp.units(alone.observed(seen).Y)
            edges.append(rule.surrogate.to((rule.transform(snapshot)(worst) - shift) / scale))
        return self._improvement(models, edges, snapshots, goal)

    def _bounds(self, goal: _Goal) -> list[Tensor]:
        """The reference and the ideal of each objective that is not known."""
        return [torch.stack([goal.reference[k], goal.ideal[k]]) for k in self.observed]

    def _improvement(
        self, models: list[Any], edges: list[Tensor], snapshots: list[Snapshot], goal: _Goal
    ) -> LogExpectedHypervolumeImprovement:
        """The improvement on the means at the designs observed, feasible, or pending at the target."""
        units = (goal.ideal - goal.reference).to(edges[0])
        models = self._all(models, lambda k: KnownOutput(self._known(k), units[k]))
        reference = torch.stack(self._all(edges, lambda k: goal.reference.to(units)[k] / units[k]))
        rule, snapshot, target = self.rules[0], snapshots[0], self.space.target
        records = [r for r in rule.target_only.modelled(snapshot) if r.feasible]
        records += [r for r in snapshot.pending if r.query.fidelity == target]
        joint = ModelList(*models)
        means = reference.new_zeros(0, len(models))
        if records:
            with torch.no_grad():
                means = joint.posterior(rule.surrogate.to(snapshot.designs(records)).unsqueeze(-2)).mean.squeeze(-2)
        return LogExpectedHypervolumeImprovement(joint, reference, means)

    def _level(self, u: Tensor, snapshots: list[Snapshot], goal: _Goal) -> int:
        """The lowest fidelity that explains enough of the target's variance, summed over the objectives, for its cost;
        or one that does so of an outcome of which it is open whether it keeps its limit."""
        rule, snapshot = self.rules[0], snapshots[0]
        costs, growth = snapshot.costs_at(u), impatience(snapshot.records, snapshot.costs)
        total, least = torch.zeros(len(costs), dtype=torch.double), torch.finfo(torch.double).tiny
        for each, seen, ends in zip(self.rules, snapshots, self._bounds(goal), strict=True):
            low, high = each.transform(seen)(ends)
            linked, averaged = (
                explained_variance(model, u, each.pending(seen), model.noise).to(total)
                for model in (each.model(seen), each.integrated(seen))
            )
            parts = [found / found[-1].clamp_min(least) for found in (linked, averaged)]
            total += linked[-1] * (parts[0] * parts[1]).sqrt() / (high - low).square().clamp_min(least)
        worth = [share / cost for share, cost in zip(total.tolist(), costs, strict=True)]
        level = next((m for m, factor in enumerate(growth) if worth[m] >= factor * worth[-1] > 0), self.space.target)
        return rule.last_level(min(level, rule.level_of_outcomes(u, snapshot)), snapshot)

    def _scalarised(self, name: str, history: History, goal: _Goal, generator: torch.Generator) -> tuple[str, Query]:
        """The query of a model for one random scalarisation; and whose it is."""
        views = self._views_of(history)
        weights = torch.rand(len(views), generator=generator, dtype=torch.double).log().neg()  # of the simplex
        history = chebyshev(views, weights / weights.sum(), *goal[:2])
        if self._scalar is None:
            self._scalar = self._rule(limited=True)
        return self._scalar.decided_by(name, self._scalar.snapshot(history), generator)

    def recommend(self, history: History) -> Record | Recommendation | None:
        """The knee of the front."""
        best = front(history, self.space)
        return best[knee(objective_values(best, self.space.objectives))] if best else None

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of the first objective that is not known."""
        return self.rules[0].predict(self.snapshots(history)[0].history, X)

    def predict_each(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation ``n x K`` of the objectives at the target, to be maximised."""
        pairs = zip(self.rules, self.snapshots(history), strict=True)
        found = [part for rule, s in pairs if (part := rule.predict(s.history, X)) is not None]
        if not found:
            return None
        U = self.space.to_unit(X)
        at_target = [(mean[:, -1], deviation[:, -1]) for mean, deviation in found]
        means, deviations = zip(*self._all(at_target, lambda k: (self._known(k)(U), torch.zeros(len(X)))), strict=True)
        return torch.stack(means, -1), torch.stack(deviations, -1)

    def explained(self, history: History) -> tuple[float, ...] | None:
        """The mean over the objectives that are not known."""
        pairs = zip(self.rules, self.snapshots(history), strict=True)
        found = [shares for rule, s in pairs if (shares := rule.explained(s.history)) is not None]
        return tuple(map(math.fsum, zip(*[[s / len(found) for s in each] for each in found], strict=True))) or None


def _of_models(predictions: Mapping[str, Prediction]) -> dict[str, Prediction]:
    return {name: predictions[name] for name in MODELS}
