r"""Three beliefs about how the target follows from the fidelities below, and which of them decides.

References:

.. [Ament2023logei]
    S. Ament, S. Daulton, D. Eriksson, M. Balandat, E. Bakshy. Unexpected Improvements to Expected Improvement for
    Bayesian Optimization. NeurIPS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from botorch.acquisition import LogExpectedImprovement
from torch import Tensor

from mfbo_torch.history import History, Query, Record
from mfbo_torch.models.multi_fidelity.co_kriging import CoKrigingGP
from mfbo_torch.models.multi_fidelity.target import TargetModel
from mfbo_torch.models.outcome_transform import IDENTITY, Warp, fitted
from mfbo_torch.strategies.common.deduplicate import clear
from mfbo_torch.strategies.common.fit_schedule import Growing, Memo
from mfbo_torch.strategies.common.tails import mapped, shaping
from mfbo_torch.strategies.multi.hedge_weights import Prediction, whose_turn
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import overdue
from mfbo_torch.strategies.multi.resume_candidates import nested, over_best
from mfbo_torch.strategies.single.analytic import ExpectedImprovement

if TYPE_CHECKING:
    from mfbo_torch.models.multi_fidelity.per_fidelity import PerFidelityGP
    from mfbo_torch.strategies.multi.mf_gp_ucb import MFGPUCB

LINKED, INTEGRATED, ALONE = BELIEFS = ("linked", "integrated", "alone")
"""The target follows from the fidelities below as estimated; as far as that is known; or not at all."""
WORTH = 1e-6
"""A bound that promises less than this part of the function's deviation is not worth a query."""
LEAST_GAIN = 1e-7
"""Nor is an expected improvement of less."""
STRONG = 10.0
"""So many nats of evidence are needed before long tails are shortened."""
SURE = 1e-6
"""No prediction is taken to be more exact than this part of a deviation."""


class _TargetOnly(ExpectedImprovement):
    """The hedge has mapped the values that it sees."""

    def map(self, history: History) -> Warp:
        return IDENTITY


class Kept:
    """What a strategy's hedge keeps between decisions.

    Args:
        strategy: Its settings are the hedge's.
    """

    def __init__(self, strategy: MFGPUCB) -> None:
        self.bent: Growing[PerFidelityGP] = Growing(strategy.refit_every)
        self.integrated: Memo[CoKrigingGP] = Memo()
        self.warp: Memo[Warp] = Memo()
        self.target_only = _TargetOnly(seed=strategy.seed, device=strategy.device, dtype=strategy.dtype)


class Hedge:
    r"""Turns of three beliefs at the target, by their record of predicting it
    (:mod:`~mfbo_torch.strategies.multi.hedge_weights`).

    - The chain as fitted: where its upper bound is largest.
    - The chain with its links integrated out and its residuals averaged (:class:`~mfbo_torch.models.CoKrigingGP`),
      of values whose long tails, such as losses that explode, are shortened by one monotone map for all fidelities
      (:class:`~mfbo_torch.models.outcome_transform.Warp`) where the evidence asks for it: where the target's expected
      improvement is largest [Ament2023logei]_, which looks elsewhere once there is little left to gain where it is.
    - The target alone, by expected improvement: no cheap fidelity can mislead it.

    Where some values are far below all others (:mod:`~mfbo_torch.strategies.common.tails`), beside which these would be
    lost, all three see the values through that map.

    A query of the first two goes to the fidelity that explains enough of the target's variance for its cost, but to the
    target once the fidelities below have had as much capital since its last query as one of them costs. Where a bound
    promises less than :data:`WORTH` deviations over the best known mean, or the improvement expected is below
    :data:`LEAST_GAIN`, the query is that of the third: nothing is spent on what is known.

    Args:
        strategy: Whose models and search these are.
        kept: What saves time, and changes no decision.
    """

    def __init__(self, strategy: MFGPUCB, kept: Kept) -> None:
        self.strategy, self.kept = strategy, kept

    @property
    def alone(self) -> ExpectedImprovement:
        """The strategy that knows the target's values only."""
        return self.kept.target_only.bind(self.strategy.space, self.strategy.capital)

    def ready(self, history: History) -> bool:
        """Whether the target has a value."""
        return bool(self.alone.modelled(history))

    def query(self, history: History, generator: torch.Generator) -> Query:
        """The decision of the belief whose turn it is."""
        strategy = self.strategy
        belief, parts = whose_turn(history, BELIEFS, partial(self._log_densities, self.warp(history)))
        query = None
        if belief == LINKED:
            query = self._bounded(history, generator)
        elif belief == INTEGRATED:
            query = self._improving(history, generator)
        if query is None:
            belief = ALONE
            u, _ = self.alone.design(self._seen(history), generator)
            query = strategy.placed(u, strategy.space.target, history, generator)
        noted: dict[str, Any] = {"belief": belief}
        if query.fidelity == strategy.space.target:
            u = strategy.space.to_unit(torch.tensor([query.x], dtype=torch.double))
            maps = {"warp": [*astuple(self.warp(history))], "common": [*astuple(self.common(history))]}
            noted |= {"shares": parts, "foretold": self._foretold(u, history)} | maps
        return replace(query, meta={**query.meta, **noted})

    def _bounded(self, history: History, generator: torch.Generator) -> Query | None:
        """Where the bound of the fitted chain is largest, if it promises something."""
        model = self.strategy.model(history)
        u, beta = self.strategy.bounded(model, history, generator)
        with torch.no_grad():
            mean, variance = model.mean_variance(u)
        gain = mean[0, -1] + math.sqrt(beta) * variance[0, -1].sqrt() - self._best(model, history)
        if gain < WORTH * _unit(model) and self._anything(history):
            return None
        return self._placed(model, u, beta, history, generator, self.common(history), {"beta": beta})

    def _improving(self, history: History, generator: torch.Generator) -> Query | None:
        """Where the averaged chain expects most of the target, if that is something."""
        strategy, model, warp = self.strategy, self.integrated(history), self.warp(history)
        unit, pending = _unit(model), strategy.out(history)
        target = TargetModel(model.hallucinate(pending), unit)
        acquisition = LogExpectedImprovement(target, self._best(model, history) / unit)
        u = strategy.searched(strategy.feasible(acquisition, history, strategy.space.target), history, generator)
        with torch.no_grad():
            gain = acquisition(u.unsqueeze(-2)).item()
        if gain < math.log(LEAST_GAIN) and self._anything(history):
            return None
        return self._placed(model, u, 1.0, history, generator, warp, {})

    def _placed(
        self,
        model: PerFidelityGP | CoKrigingGP,
        u: Tensor,
        beta: float,
        history: History,
        generator: torch.Generator,
        warp: Warp,
        noted: dict[str, float],
    ) -> Query:
        """The query at a ``1 x d`` design, at the fidelity that is worth its cost there."""
        strategy = self.strategy
        fidelity = strategy.level(model, u, beta, history)
        fidelity = strategy.space.target if overdue(history, strategy.costs(history), fidelity) else fidelity
        u, fidelity = nested(strategy, over_best(strategy, model, beta, history), u, fidelity, history)
        fidelity = strategy.free(strategy.probing(u, fidelity, history), history)
        u = clear(strategy, u, fidelity, history, generator)
        return strategy.query(u, fidelity, stage="model", **noted, **strategy.believed(model, u, fidelity, warp))

    def _best(self, model: PerFidelityGP | CoKrigingGP, history: History) -> Tensor:
        """The largest mean of the target at a design where it was observed and feasible, if any was."""
        records = self.alone.modelled(history)
        seen = self.strategy.unit_points([r for r in records if r.feasible] or records)[:, :-1]
        with torch.no_grad():
            return model.mean_variance(self.strategy.surrogate.to(seen))[0][:, -1].max()

    def _anything(self, history: History) -> bool:
        """Whether anything feasible is known at the target: else there is all to gain."""
        return history.best(self.strategy.space.target) is not None

    def _foretold(self, u: Tensor, history: History) -> dict[str, Prediction]:
        """What each belief says of the target's value at ``1 x d`` designs, noise included."""
        found: dict[str, Prediction] = {}
        for name, model in ((LINKED, self.strategy.model(history)), (INTEGRATED, self.integrated(history))):
            with torch.no_grad():
                mean, variance = model.mean_variance(self.strategy.surrogate.to(u))
            total = variance[0, -1] + model.noise[-1] + (SURE * model.scale[-1]).square()
            found[name] = [mean[0, -1].item(), total.sqrt().item()]
        return found | {ALONE: [*self.alone.foretold(self._seen(history), u)]}

    def _seen(self, history: History) -> History:
        """The history with the values that all beliefs are about."""
        return mapped(history, self.common(history))

    def _log_densities(self, warp: Warp, record: Record, predictions: Mapping[str, Prediction]) -> dict[str, float]:
        """The logarithm of the density that each belief gave to a value of the target: by the maps of that time, or by
        ``warp`` and none where they were not noted."""
        noted = record.query.meta
        bent, common = Warp(*noted.get("warp", astuple(warp))), Warp(*noted.get("common", ()))
        y, found = torch.tensor(record.value, dtype=torch.double), {}
        for name, (mean, deviation) in predictions.items():
            map = bent if name == INTEGRATED else common
            z = (map(y).item() - mean) / deviation
            found[name] = map.log_slope(y).item() - 0.5 * z * z - math.log(deviation)
        return found

    def integrated(self, history: History) -> CoKrigingGP:
        """The model of everything observed that does not take its links for known."""
        strategy, warp = self.strategy, self.warp(history)
        shared = warp == self.common(history)
        chain = strategy.model(history) if shared else strategy.grown(self.kept.bent, strategy.modelled(history), warp)
        return self.kept.integrated(chain, lambda: CoKrigingGP(chain))

    def warp(self, history: History) -> Warp:
        """The map of the values that the averaged chain is about."""
        return self._warp(history)[0]

    def common(self, history: History) -> Warp:
        """The map of the values that all beliefs are about: that of the averaged chain where some values are far below
        all others, which would be lost beside them."""
        warp, far = self._warp(history)
        return warp if far else IDENTITY

    def _warp(self, history: History) -> tuple[Warp, bool]:
        """The map that the evidence asks for, and whether that is because of values far below all others."""
        records, far = shaping(history, self.strategy.modelled(history))
        key = [(r.query.x, r.query.fidelity, r.value) for r in records]
        return self.kept.warp(key, lambda: self._fitted_warp(records)), far

    def _fitted_warp(self, records: list[Record]) -> Warp:
        """The map of the lowest fidelity's values to a normal sample, if the model of everything is much the better
        for it; else the identity."""
        X, Y = self.strategy.data(records)
        lowest, *others = (Y[X[:, -1] == m] for m in range(self.strategy.space.num_fidelities))
        warp = fitted(lowest, others)
        if warp == IDENTITY:
            return warp

        def evidence(map: Warp) -> float:
            chain = self.strategy.fitted(*self.strategy.warped(records, map))
            return CoKrigingGP(chain).evidence + map.log_slope(Y).sum().item()

        return warp if evidence(warp) > evidence(IDENTITY) + STRONG else IDENTITY


def _unit(model: PerFidelityGP | CoKrigingGP) -> Tensor:
    """The largest of the units in which the fidelities enter the target."""
    return (model.slopes.abs() * model.scale).max()
