r"""MF-GP-UCB: upper confidence bounds from several fidelities.

References:

.. [Kandasamy2016mfgpucb]
    K. Kandasamy, G. Dasarathy, J. Oliva, J. Schneider, B. Póczos. Gaussian Process Bandit
    Optimisation with Multi-fidelity Evaluations. NeurIPS 2016.

.. [LeGratiet2014recursive]
    L. Le Gratiet, J. Garnier. Recursive co-kriging model for design of computer experiments with
    multiple levels of fidelity. International Journal for Uncertainty Quantification 4(5), 2014.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.acquisition.fused import Fused, affine
from mfbo_torch.acquisition.multi_fidelity_ucb import (
    MultiFidelityUpperConfidenceBound,
    cost_thresholds,
    select_fidelity,
)
from mfbo_torch.checks import number, one_of
from mfbo_torch.confidence import practical_beta
from mfbo_torch.history import History, Query, Record, Status, noise_variances, values
from mfbo_torch.models.co_kriging import CoKrigingGP
from mfbo_torch.models.per_fidelity import LINKS, PerFidelityGP
from mfbo_torch.strategies.design import allowed, sobol, with_the_target
from mfbo_torch.strategies.model_based import MultiFidelityModelBased
from mfbo_torch.strategies.repeats import clear
from mfbo_torch.strategies.single_fidelity import ExpectedImprovement
from mfbo_torch.strategies.surrogate import LARGE, Growing, Memo, fitting, refit_step
from mfbo_torch.strategies.thresholds import Thresholds, adaptive_thresholds, impatience
from mfbo_torch.strategies.turns import Prediction, whose_turn
from mfbo_torch.warp import Warp, fitted

Chain = PerFidelityGP | CoKrigingGP
LINKED, INTEGRATED, ALONE = BELIEFS = ("linked", "integrated", "alone")
"""The target follows from the fidelities below as estimated; as far as that is known; or not at all."""
WORTH = 1e-4
"""A bound that promises less than this part of the function's deviation is not worth a query."""
STRONG = 10.0
"""So many nats of evidence are needed before long tails are shortened."""
PEAKS, APART = 4, 0.25
"""So many designs of a fidelity, so far from each other in the unit cube, are where its peaks may be."""
SURE = 1e-6
"""No prediction is taken to be more exact than this part of a deviation."""


class MFGPUCB(MultiFidelityModelBased):
    r"""Multi-fidelity optimisation by upper confidence bounds.

    ``link="recursive"``, the default, learns how each fidelity follows from the one below
    [LeGratiet2014recursive]_, maximises the target's own bound
    :math:`\mu^{(M)} + \beta_t^{1/2} \sigma^{(M)}`, and queries the lowest fidelity that explains as
    much of the target's variance there per unit of cost as the target itself does. The threshold of
    a fidelity that nothing above was queried for ``λ^(m+1) / λ^(m)`` queries is doubled until
    something is, so that the target is always reached.

    By default that belief is hedged, as links estimated from few values can be wrong and sure. Three beliefs take turns
    at the target by their record of predicting it (:mod:`~mfbo_torch.strategies.turns`): the chain as fitted; the chain
    with its links integrated out and its residuals averaged (:class:`~mfbo_torch.models.CoKrigingGP`); and the target
    alone, searched by expected improvement. The last decides at least 0.12 of the target's queries, so that of ``n`` of
    them at least ``0.12 n - 3`` are those of a method that ignores the cheap fidelities, made with all that it would
    know and more. Where a bound promises less than :data:`WORTH` deviations over the best known mean, the query is the
    target-only method's, too: nothing is spent on what is known. Long tails are shortened by one monotone map for all
    fidelities (:class:`~mfbo_torch.warp.Warp`) where the evidence asks for it.

    ``link="independent"`` is the published method [Kandasamy2016mfgpucb]_ with the settings of its
    Section 5 and Appendix B: separate processes, the bound (3), adaptive ζ and γ, an initial
    design of independent uniform points.

    Once an evaluation has failed, what a bound gains over the best design known is weighed by the probability that
    the design can be evaluated (:class:`~mfbo_torch.acquisition.feasible.Feasible`), and the cheapest fidelity is
    asked first where the target may fail (:meth:`probing`).

    Args:
        link: ``"recursive"`` or ``"independent"``.
        beta: A fixed squared width instead of ``0.2 d log(2 t)``, ``t`` counting the queries after the
            initial design.
        initial_capital: What the initial design may cost, in units of the target's cost. By default
            ``M + 1`` (recursive) and 10 (independent); never more than half of the capital.
        refit_every: Most observations between two fits of the hyper-parameters. They are also
            fitted after each of the first hundred observations of the target and whenever the data have grown
            by a tenth: with few points at the target, 25 queries of old hyper-parameters can stand still. From
            a thousand observations on, the growth by a tenth alone counts.
        hedge: Whether the recursive link is hedged; without, it is all there is.
        **settings: ``seed``, ``space``, ``capital``, ``device`` and ``dtype``.

    Raises:
        SettingError: An unknown link, a negative ``beta``, or a ``hedge`` that is neither true nor false.
    """

    def __init__(
        self,
        *,
        link: str = "recursive",
        beta: float | None = None,
        initial_capital: float | None = None,
        refit_every: int = 25,
        hedge: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(initial_capital=initial_capital, refit_every=refit_every, **settings)
        self.link = one_of("link", link, LINKS)
        self.beta = None if beta is None else number("beta", beta, 0)
        self.hedge = one_of("hedge", hedge, (True, False))
        self._growing: Growing[PerFidelityGP] = Growing(refit_every)
        self._integrated: Memo[CoKrigingGP] = Memo()
        self._warp: Memo[Warp] = Memo()
        self._target_only = ExpectedImprovement(seed=self.seed, device=self.device, dtype=self.dtype)

    def counts(self, history: History) -> list[int]:
        r"""Number of initial queries at each fidelity.

        The recursive link wants few points at the target and as much as one of them costs at each
        fidelity below (at most ``10 d`` points), so that each link is learned from nested designs. Where a fidelity
        is cheap a quarter of that may go into more, up to :math:`10 d (1 + \log_{10} \lambda^{(M)} / \lambda^{(m)})`:
        what is not seen there is not looked for above.
        """
        if self.link == "independent":
            return super().counts(history)
        costs = self.costs(history)
        budget = (self.initial_capital or len(costs) + 1) * costs[-1]
        if self.capital is not None:
            budget = min(budget, self.capital / 2)
        share = budget / (len(costs) + 1)
        top = max(1, int(2 * share / costs[-1] + 1e-9))
        most = 10 * self.space.dim
        below = [max(top, min(most, int(share / cost + 1e-9))) for cost in costs[:-1]]
        if self.hedge:
            wide = [most * (1 + math.log10(costs[-1] / cost)) for cost in costs[:-1]]
            below = [max(n, int(min(w, share / 4 / c) + 1e-9)) for n, w, c in zip(below, wide, costs[:-1], strict=True)]
        return with_the_target([*below, top], costs, self.capital)

    def initial_point(self, index: int, rank: int) -> Tensor:
        if self.link == "independent":
            return super().initial_point(index, rank)
        dim, seed = self.space.dim, self.seed
        return allowed(lambda n: sobol(dim, n, seed), rank + 1, self.space)[rank]

    def propose(self, history: History, generator: torch.Generator) -> Query:
        if self.link == "independent":
            return self._published(history, generator)
        if not self.hedge or not self._alone.modelled(history):
            model = self.model(history)
            u, fidelity, noted = self._bounded(model, history, generator)
            u = clear(self, u, fidelity, history, generator)
            return self.query(u, fidelity, stage="model", **noted, **self._beliefs(model, u, fidelity, history))
        return self._hedged(history, generator)

    def _published(self, history: History, generator: torch.Generator) -> Query:
        """Algorithm 1 of [Kandasamy2016mfgpucb]_ with its adaptive ζ and γ."""
        model = self.model(history)
        state = adaptive_thresholds(history, self.costs(history))
        noted: dict[str, Any] = {"zeta": list(state.zeta), "gamma": list(state.gamma)}
        if state.check is not None:
            u, fidelity = self.unit_points([state.check])[:, :-1], state.check.query.fidelity - 1
            noted |= {"check": state.check.id, **self._beliefs(model, u, fidelity, history)}
            return self.query(u, fidelity, stage="model", **noted)
        u, fidelity, chosen = self._bounded(model, history, generator, state)
        u = clear(self, u, fidelity, history, generator)
        return self.query(u, fidelity, stage="model", **noted, **chosen, **self._beliefs(model, u, fidelity, history))

    def _hedged(self, history: History, generator: torch.Generator) -> Query:
        """The decision of the belief whose turn it is at the target."""
        belief, parts = whose_turn(history, BELIEFS, self._log_densities)
        query = None
        if belief != ALONE:
            model = self.model(history) if belief == LINKED else self.integrated(history)
            u, fidelity, noted = self._bounded(model, history, generator)
            if self._to_gain(model, u, noted["beta"], history) >= WORTH:
                u = clear(self, u, fidelity, history, generator)
                query = self.query(u, fidelity, stage="model", **noted, **self._beliefs(model, u, fidelity, history))
        if query is None:
            belief = ALONE
            u, _ = self._alone.design(history, generator)
            query = self.placed(u, self.space.target, history, generator)
        noted = {"belief": belief}
        if query.fidelity == self.space.target:
            noted |= {"shares": parts, "foretold": self._foretold(self._unit(query).unsqueeze(0), history)}
        return replace(query, meta={**query.meta, **noted})

    def _bounded(
        self, model: Chain, history: History, generator: torch.Generator, state: Thresholds | None = None
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """The maximiser ``1 x d`` of the upper bound, the fidelity to ask there, and the width."""
        costs = self.costs(history)
        decisions = sum(r.query.meta.get("stage") != "initial" for r in history)
        beta = practical_beta(decisions + 1, self.space.dim) if self.beta is None else self.beta
        pending = self.surrogate.to(self.unit_points(history.pending)) if history.pending else None
        acquisition = MultiFidelityUpperConfidenceBound(model, beta, None if state is None else state.zeta, pending)
        bound, incumbents = _Standardized(acquisition), self._incumbents(history)
        score = self.feasible(
            *(bound, history, self.space.target, lambda: bound.mean(self.surrogate.to(incumbents[-1:]))),
            probe=costs[0] / costs[-1],
        )
        if state is None and self.hedge:
            starts = torch.cat([incumbents, self._peaks(history)])
            u = self.maximize_from(score, starts, generator, screened=1024, climbed=6)
        else:
            u = self.maximize_from(score, incumbents, generator)
        u = self.surrogate.to(self.space.snap(u.to("cpu", torch.double)))
        if state is None:
            growth = impatience(history, costs)
            width = beta or 1.0  # it cancels, and 0 would hide every fidelity
            fidelity = select_fidelity(
                model, u, width, cost_thresholds(model, u, width, costs, growth, pending), pending
            )
        else:
            fidelity = select_fidelity(model, u, beta, state.gamma, pending)
        return u, self.free(self.probing(u, fidelity, history), history), {"beta": beta}

    def _to_gain(self, model: Chain, u: Tensor, beta: float, history: History) -> float:
        """By how much the upper bound at ``1 x d`` designs is above the best mean at an observed one, in the largest
        of the units in which the fidelities enter the target."""
        seen = self.surrogate.to(self.unit_points(self._alone.modelled(history))[:, :-1])
        with torch.no_grad():
            best = model.mean_variance(seen)[0][:, -1].max()
            mean, variance = model.mean_variance(u)
        unit = (model.slopes.abs() * model.scale).max()
        return ((mean[0, -1] + math.sqrt(beta) * variance[0, -1].sqrt() - best) / unit).item()

    def _foretold(self, u: Tensor, history: History) -> dict[str, Prediction]:
        """What each belief says of the target's value at ``1 x d`` designs, noise included."""
        found: dict[str, Prediction] = {}
        for name, model in ((LINKED, self.model(history)), (INTEGRATED, self.integrated(history))):
            with torch.no_grad():
                mean, variance = model.mean_variance(self.surrogate.to(u))
            total = variance[0, -1] + model.noise[-1] + (SURE * model.scale[-1]).square()
            found[name] = [mean[0, -1].item(), total.sqrt().item()]
        return found | {ALONE: [*self._alone.foretold(history, u)]}

    def _log_densities(self, value: float, history: History, predictions: Mapping[str, Prediction]) -> dict[str, float]:
        """The logarithm of the density that each belief gave to a value of the target."""
        y, warp = torch.tensor(value, dtype=torch.double), self.warp(history)
        found = {}
        for name, (mean, deviation) in predictions.items():
            map = Warp() if name == ALONE else warp
            z = (map(y).item() - mean) / deviation
            found[name] = map.log_slope(y).item() - 0.5 * z * z - math.log(deviation)
        return found

    def _beliefs(self, model: Chain, u: Tensor, fidelity: int, history: History) -> dict[str, Any]:
        """What the model predicts at a query, for the log and for the check of ζ."""
        with torch.no_grad():
            mean, variance = model.mean_variance(self.surrogate.to(u))
        mean, deviation = self.warp(history).moments(mean[0], variance[0].sqrt())
        noted = {"mean": mean[fidelity].item(), "deviation": deviation[fidelity].item()}
        return noted if fidelity == 0 else {**noted, "mean_below": mean[fidelity - 1].item()}

    def _incumbents(self, history: History) -> Tensor:
        """The best design so far at each fidelity, in the unit cube."""
        best = [history.best(m) for m in range(self.space.num_fidelities)]
        return self.unit_points([record for record in best if record is not None])[:, :-1]

    def _peaks(self, history: History) -> Tensor:
        """The best designs of each fidelity that are :data:`APART`, :data:`PEAKS` at most: a second peak is not found
        from the first one."""
        found: list[Tensor] = []
        for m in range(self.space.num_fidelities):
            records = sorted(history.select(Status.DONE, m), key=lambda r: (-(r.value or 0.0), r.id))
            U = self.unit_points(records)[:, :-1]
            for peak in range(PEAKS):
                if not len(U):
                    break
                found += [U[0]] if peak else []  # the first one is the incumbent
                U = U[(U - U[0]).abs().amax(-1) > APART]
        return torch.stack(found) if found else torch.zeros(0, self.space.dim, dtype=torch.double)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of every fidelity that was observed; NaN at the others."""
        records = self.modelled(history)
        if not records:
            return None
        model = self.integrated(history) if self.hedge and self.link == "recursive" else self.model(history)
        with torch.no_grad():
            mean, variance = model.mean_variance(self.surrogate.to(self.space.to_unit(X)))
        seen = {r.query.fidelity for r in records}
        unseen = [m for m in range(self.space.num_fidelities) if m not in seen]
        mean, deviation = self.warp(history).moments(
            mean.to("cpu", torch.double), variance.sqrt().to("cpu", torch.double)
        )
        mean[:, unseen] = deviation[:, unseen] = torch.nan
        return mean, deviation

    def explained(self, history: History) -> tuple[float, ...] | None:
        seen = {r.query.fidelity for r in self.modelled(history)}
        if self.link == "independent" or len(seen) < self.space.num_fidelities:
            return None
        return tuple(self.integrated(history).explained.tolist())

    def noise_deviations(self, history: History) -> tuple[float | None, ...]:
        deviations, warp = self.model(history).noise.sqrt().tolist(), self.warp(history)
        seen = [history.select(Status.DONE, m) for m in range(self.space.num_fidelities)]
        units = [(-warp.log_slope(values(records))).exp().median().item() if records else None for records in seen]
        return tuple(unit and unit * deviation for unit, deviation in zip(units, deviations, strict=True))

    def model(self, history: History) -> PerFidelityGP:
        """The model of everything observed, with hyper-parameters fitted to the first part of it."""
        records = self.modelled(history)
        size = self._fit_size(records)
        X, Y, Yvar = self._warped(records, self.warp(history))

        def fit() -> PerFidelityGP:
            return self._fitted(X[:size], Y[:size], None if Yvar is None else Yvar[:size])

        def add(model: PerFidelityGP, some: slice) -> PerFidelityGP:
            return model.condition_on_observations(X[some], Y[some], None if Yvar is None else Yvar[some])

        return self._growing(self.space, records, size, fit, add)

    def warp(self, history: History) -> Warp:
        """The map of the values that the beliefs in several fidelities are about; the identity without ``hedge``."""
        if not self.hedge or self.link == "independent":
            return Warp()
        first = [r for r in self.modelled(history) if r.query.meta.get("stage") != "model"]
        return self._warp([(r.query.x, r.query.fidelity, r.value) for r in first], lambda: self._fitted_warp(first))

    def _fitted_warp(self, records: list[Record]) -> Warp:
        """The map of the lowest fidelity's values to a normal sample, if the model of everything is much the better
        for it; else the identity."""
        X, Y = self.data(records)
        lowest = X[:, -1] == 0
        warp = fitted(Y[lowest], Y[~lowest])
        if warp == Warp():
            return warp

        def evidence(map: Warp) -> float:
            chain = self._fitted(*self._warped(records, map))
            return CoKrigingGP(chain).evidence + map.log_slope(Y).sum().item()

        return warp if evidence(warp) > evidence(Warp()) + STRONG else Warp()

    def integrated(self, history: History) -> CoKrigingGP:
        """The model of everything observed that does not take its links for known."""
        chain = self.model(history)
        return self._integrated(chain, lambda: CoKrigingGP(chain))

    @property
    def _alone(self) -> ExpectedImprovement:
        """The strategy that knows the target's values only."""
        return self._target_only.bind(self.space, self.capital)

    def _warped(self, records: list[Record], warp: Warp) -> tuple[Tensor, Tensor, Tensor | None]:
        """Points, mapped values and the variances of their noise where known, where the models live."""
        X, Y = self.data(records)
        known = noise_variances(records)
        Yvar = None if known is None else self.surrogate.to(known * (2 * warp.log_slope(Y)).exp())
        return self.surrogate.to(X), self.surrogate.to(warp(Y)), Yvar

    def _fitted(self, X: Tensor, Y: Tensor, Yvar: Tensor | None) -> PerFidelityGP:
        model = PerFidelityGP(X, Y, self.space.num_fidelities, Yvar, link=self.link)
        with fitting():
            return model.fit(optimizer_kwargs={"options": {"maxiter": 100}})

    def _fit_size(self, records: list[Record]) -> int:
        """On how many of the observations the hyper-parameters are fitted: the schedule is a fold over them."""
        initial = sum(r.query.meta.get("stage") == "initial" for r in records)
        size = first = max(1, min(initial, len(records)))
        seen = Counter(r.query.fidelity for r in records[:first])
        for n, record in enumerate(records[first:], first + 1):
            fidelity = record.query.fidelity
            few = seen[fidelity] < LARGE // 10 if fidelity == self.space.target else not seen[fidelity]
            if few or n - size >= refit_step(size, self.refit_every):
                size = n
            seen[fidelity] += 1
        return size


class _Standardized(AcquisitionFunction):
    """A bound in standardised units, as the tolerances of the optimiser are absolute."""

    def __init__(self, bound: MultiFidelityUpperConfidenceBound) -> None:
        super().__init__(bound.model)
        self.bound = bound

    def forward(self, X: Tensor) -> Tensor:
        return (self.bound(X) - self.model.shift[-1]) / self.model.scale[-1]

    def mean(self, X: Tensor) -> float:
        """The target's mean at a ``1 x d`` design."""
        with torch.no_grad():
            mean, _ = self.model.mean_variance(X)
        return float((mean[0, -1] - self.model.shift[-1]) / self.model.scale[-1])

    def fused(self) -> Fused | None:
        """As that of the bound."""
        inner, scale = self.bound.fused(), self.model.scale[-1].item()
        return None if inner is None else affine(inner, 1 / scale, -self.model.shift[-1].item() / scale)
