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
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.acquisition.feasible import WithinLimits
from mfbo_torch.acquisition.fused import Fused, affine
from mfbo_torch.acquisition.multi_fidelity_ucb import (
    MultiFidelityUpperConfidenceBound,
    cost_thresholds,
    select_fidelity,
)
from mfbo_torch.confidence import mf_gp_ucb_beta, practical_beta
from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History, Query, Record, Status, values
from mfbo_torch.models.multi_fidelity.co_kriging import CoKrigingGP
from mfbo_torch.models.multi_fidelity.per_fidelity import LINKS, PerFidelityGP
from mfbo_torch.models.outcome_transform import IDENTITY, Warp
from mfbo_torch.strategies.common.deduplicate import clear
from mfbo_torch.strategies.common.fit_schedule import LARGE, Growing, fitting, refit_step
from mfbo_torch.strategies.common.gp import known_fidelities
from mfbo_torch.strategies.common.initial_design import allowed, multi_fidelity_counts, sobol, with_the_target
from mfbo_torch.strategies.common.model_based import MultiFidelityModelBased
from mfbo_torch.strategies.common.outcome_models import Chain, Chains, promising, undecided, within
from mfbo_torch.strategies.common.tails import through
from mfbo_torch.strategies.multi.mf_gp_ucb_published import EVERY, Published, divided, known
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import impatience
from mfbo_torch.strategies.multi.model_hedge import Hedge, Kept
from mfbo_torch.strategies.multi.resume_candidates import nested, over_best
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, one_of

PEAKS, APART = 4, 0.25
"""So many designs of a fidelity, so far from each other in the unit cube, are where its peaks may be."""


class MFGPUCB(MultiFidelityModelBased):
    r"""Multi-fidelity optimisation by upper confidence bounds.

    ``link="recursive"``, the default, learns how each fidelity follows from the one below
    [LeGratiet2014recursive]_, maximises the target's own bound
    :math:`\mu^{(M)} + \beta_t^{1/2} \sigma^{(M)}`, and queries the lowest fidelity that explains as
    much of the target's variance there per unit of cost as the target itself does. The threshold of
    a fidelity that nothing above was queried for ``λ^(m+1) / λ^(m)`` queries is doubled until
    something is, so that the target is always reached.

    By default that belief is hedged, as links estimated from few values can be wrong and sure: three beliefs take turns
    at the target by their record of predicting it (:class:`~mfbo_torch.strategies.multi.model_hedge.Hedge`). One of
    them knows the target's values only and decides at least 0.12 of its queries, so that of ``n`` of them at least
    ``0.12 n - 3`` are those of a method that ignores the cheap fidelities, made with all that it would know and more.
    Once the target has a value, the fidelities below are chosen between two of its queries until they have cost as much
    as one of these; beyond that only where a failure is feared there, or a training that was begun goes on.

    ``link="independent"`` is the published method [Kandasamy2016mfgpucb]_ with the settings of its
    Section 5 and Appendix B: separate processes, the bound (3), adaptive ζ and γ, an initial
    design of independent uniform points.

    Once an evaluation has failed, what a bound gains over the best design known is weighed by the probability that
    the design can be evaluated (:class:`~mfbo_torch.acquisition.feasible.Feasible`), and the cheapest fidelity is
    asked first where the target may fail (:meth:`probing`).

    Args:
        link: ``"recursive"`` or ``"independent"``.
        beta: A fixed squared width instead of ``0.2 d log(2 t)``, ``t`` counting the queries after the
            initial design; ``"theory"`` for the width of the regret bound
            (:func:`~mfbo_torch.confidence.mf_gp_ucb_beta`, Theorem 10).
        initial_capital: What the initial design may cost, in units of the target's cost. By default
            ``M + 1`` (recursive) and 10 (independent); never more than half of the capital.
        refit_every: Most observations between two fits of the hyper-parameters. They are also
            fitted after each of the first hundred observations of the target and whenever the data have grown
            by a tenth: with few points at the target, 25 queries of old hyper-parameters can stand still. From
            a thousand observations on, the growth by a tenth alone counts.
        hedge: Whether the recursive link is hedged; without, it is all there is.
        zeta: Known bounds ``ζ`` on how far each fidelity below the target is from it; those of the space, if it has
            any, or adaptive by default. Of the independent link, as are the next three.
        gamma: Known thresholds ``γ``, one a fidelity below the target; adaptive by default.
        prior: The process of every fidelity, where it is known; nothing is fitted then.
        strict: Whether the experiments' protocol is followed to the letter: fits every 25 queries and no more, all of
            the initial capital spent, half of it on the lowest fidelity, and bounds maximised by DIRECT.
        **settings: ``seed``, ``space``, ``capital``, ``device`` and ``dtype``.

    Raises:
        SettingError: An unknown link, a negative ``beta``, a ``hedge`` or ``strict`` that is neither true nor false, or
            settings of the other link.
    """

    heeds_limits = True

    def __init__(
        self,
        *,
        link: str = "recursive",
        beta: float | str | None = None,
        initial_capital: float | None = None,
        refit_every: int = 25,
        hedge: bool = True,
        zeta: Sequence[float] | None = None,
        gamma: Sequence[float] | None = None,
        prior: Prior | None = None,
        strict: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(initial_capital=initial_capital, refit_every=refit_every, **settings)
        self.link = one_of("link", link, LINKS)
        if beta is not None and beta != "theory":
            beta = number("beta", beta, 0, wanted="a number from 0 on, 'theory' or None")
        self.beta = beta
        self.hedge = one_of("hedge", hedge, (True, False))
        self.zeta, self.gamma, self.prior = known("zeta", zeta), known("gamma", gamma), prior
        self.strict = one_of("strict", strict, (True, False))
        if self.link == "recursive":
            for name, given in {"zeta": zeta, "gamma": gamma, "prior": prior, "strict": strict or None}.items():
                if given is not None:
                    raise SettingError(name, given, "left out, or used with link='independent'")
        self._growing: Growing[PerFidelityGP] = Growing(refit_every)
        self._kept = Kept(self)
        self._outcomes = Chains(refit_every)

    def counts(self, history: History) -> list[int]:
        r"""Number of initial queries at each fidelity.

        The recursive link wants few points at the target and as much as one of them costs at each
        fidelity below (at most ``10 d`` points), so that each link is learned from nested designs. Where a fidelity
        is cheap a quarter of that may go into more, up to :math:`10 d (1 + \log_{10} \lambda^{(M)} / \lambda^{(m)})`:
        what is not seen there is not looked for above.
        """
        costs = self.costs(history)
        if self.link == "independent":
            Published(self).check()
            initial, capped = self.initial_capital or 10.0, not self.strict
            return multi_fidelity_counts(costs, self.space.dim, self.capital, initial, capped)
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

    @property
    def _hedge(self) -> Hedge | None:
        return Hedge(self, self._kept) if self.hedge and self.link == "recursive" else None

    def propose(self, history: History, generator: torch.Generator) -> Query:
        if self.link == "independent":
            return Published(self).query(history, generator)
        if self._hedge is not None and self._hedge.ready(history):
            return self._hedge.query(history, generator)
        model = self.model(history)
        u, beta = self.bounded(model, history, generator)
        level = self.level(model, u, beta, history)
        u, level = nested(self, over_best(self, model, beta, history), u, level, history)
        fidelity = self.free(self.probing(u, level, history), history)
        u = clear(self, u, fidelity, history, generator)
        warp = self.map(history)
        return self.query(u, fidelity, stage="model", beta=beta, **self.believed(model, u, fidelity, warp))

    def bounded(
        self, model: PerFidelityGP, history: History, generator: torch.Generator, zeta: Sequence[float] | None = None
    ) -> tuple[Tensor, float]:
        """The maximiser ``1 x d`` of the upper bound, and its squared width."""
        decisions = sum(r.decided and r.query.meta.get("stage") != "initial" for r in history)
        beta = self._width(decisions + 1)
        bound = _Standardized(MultiFidelityUpperConfidenceBound(model, beta, zeta, self.out(history)))
        incumbents = self._incumbents(history)
        score = self.feasible(bound, history, self.space.target, lambda: bound.mean(self.surrogate.to(incumbents[-1:])))
        if self.strict:
            return self._snapped(divided(score, self.space.unit_dim, self.surrogate.to)), beta
        if self._hedge is None:
            return self._snapped(self.maximize_from(score, incumbents, generator)), beta
        return self.searched(score, history, generator), beta

    def _width(self, t: int) -> float:
        """The squared width ``β_t``."""
        if isinstance(self.beta, str):
            return mf_gp_ucb_beta(t, self.space.dim, self.space.num_fidelities)
        return practical_beta(t, self.space.dim) if self.beta is None else self.beta

    def searched(self, score: AcquisitionFunction, history: History, generator: torch.Generator) -> Tensor:
        """The maximiser ``1 x d``, searched from the peaks of every fidelity."""
        starts = torch.cat([self._incumbents(history), self._peaks(history), promising(self, score, history)])
        return self._snapped(self.maximize_from(score, starts, generator, screened=1024, climbed=6))

    def _snapped(self, u: Tensor) -> Tensor:
        return self.surrogate.to(self.space.snap(u.to("cpu", torch.double)))

    def level(self, model: PerFidelityGP | CoKrigingGP, u: Tensor, beta: float, history: History) -> int:
        """The fidelity that explains enough of the target's variance at a ``1 x d`` design for its cost; or a lower one
        that does so of an outcome of which it is open whether it keeps its limit."""
        costs, growth, pending = self.costs_at(u, history), impatience(history, self.costs(history)), self.out(history)
        width, found = beta or 1.0, self.space.target  # the width cancels, and 0 would hide every fidelity
        for each in (model, *undecided(self.space.limits, self.outcomes(history), u)):
            gamma = cost_thresholds(each, u, width, costs, growth, pending)
            found = min(found, select_fidelity(each, u, width, gamma, pending))
        return found

    def fidelity_at(self, x: Sequence[float], history: History) -> int:
        """The target before there is a model, and by the published method, whose γ judge maximisers of its bound."""
        if self.link == "independent" or self.due(history) is not None or not self.ready(history):
            return self.space.target
        model, u = self.model(history), self.surrogate.to(self.space.to_unit(torch.tensor([x], dtype=torch.double)))
        return self.level(model, u, 1.0, history)

    def out(self, history: History) -> Tensor | None:
        """The points whose values are still out, where the models live; ``None`` for none."""
        return self.surrogate.to(self.unit_points(history.pending)) if history.pending else None

    def believed(
        self, model: PerFidelityGP | CoKrigingGP, u: Tensor, fidelity: int, warp: Warp = IDENTITY
    ) -> dict[str, Any]:
        """What the model predicts at a query, for the log and for the check of ζ."""
        with torch.no_grad():
            mean, variance = model.mean_variance(self.surrogate.to(u))
        mean, deviation = warp.moments(mean[0], variance[0].sqrt())
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
        return torch.stack(found) if found else torch.zeros(0, self.space.unit_dim, dtype=torch.double)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of every fidelity that was observed; NaN at the others."""
        records = self.modelled(history)
        if not records:
            return None
        model, warp = self._best_model(history)
        with torch.no_grad():
            mean, variance = model.mean_variance(self.surrogate.to(self.space.to_unit(X)))
        seen = {r.query.fidelity for r in records}
        unseen = [m for m in range(self.space.num_fidelities) if m not in seen]
        mean, deviation = warp.moments(mean.to("cpu", torch.double), variance.sqrt().to("cpu", torch.double))
        mean[:, unseen] = deviation[:, unseen] = torch.nan
        return mean, deviation

    def explained(self, history: History) -> tuple[float, ...] | None:
        seen = {r.query.fidelity for r in self.modelled(history)}
        if self.link == "independent" or len(seen) < self.space.num_fidelities:
            return None
        model, _ = self._best_model(history)
        model = model if isinstance(model, CoKrigingGP) else CoKrigingGP(model)
        return tuple(model.explained.tolist())

    def noise_deviations(self, history: History) -> tuple[float | None, ...]:
        model, warp = self._best_model(history)
        seen = [history.select(Status.DONE, m) for m in range(self.space.num_fidelities)]
        units = [warp.unit(values(records)) if records else None for records in seen]
        return tuple(unit and unit * noise for unit, noise in zip(units, model.noise.sqrt().tolist(), strict=True))

    def _best_model(self, history: History) -> tuple[PerFidelityGP | CoKrigingGP, Warp]:
        """What is believed beside the decisions, and the map of the values that it is about."""
        if self._hedge is None:
            return self.model(history), IDENTITY
        return self._hedge.integrated(history), self._hedge.warp(history)

    def model(self, history: History) -> PerFidelityGP:
        """The model of everything observed, with hyper-parameters fitted to the first part of it."""
        return self.grown(self._growing, self.modelled(history), self.map(history))

    def map(self, history: History) -> Warp:
        return IDENTITY if self._hedge is None else self._hedge.common(history)

    def grown(
        self, growing: Growing[PerFidelityGP], records: list[Record], warp: Warp = IDENTITY, outcome: bool = False
    ) -> PerFidelityGP:
        """That of some records' values, mapped, or of an outcome in their place: of that no process is known."""
        size = self._fit_size(records)
        X, Y, Yvar = self.warped(records, warp)

        def fit() -> PerFidelityGP:
            return self.fitted(X[:size], Y[:size], None if Yvar is None else Yvar[:size], outcome)

        def add(model: PerFidelityGP, some: slice) -> PerFidelityGP:
            return model.condition_on_observations(X[some], Y[some], None if Yvar is None else Yvar[some])

        return growing((self.space, warp), records, size, fit, add)

    def outcomes(self, history: History) -> list[Chain]:
        """The models of the outcomes that have limits; their links are integrated out where they are hedged."""
        return self._outcomes.models(
            self.space.limits, self.modelled(history), partial(self.grown, outcome=True), self._hedge is not None
        )

    def within_limits(self, history: History) -> WithinLimits | None:
        models = self.outcomes(history)
        return within(self.space.limits, models, self.cube.shape[1]) if models else None

    def warped(self, records: list[Record], warp: Warp) -> tuple[Tensor, Tensor, Tensor | None]:
        """Points, mapped values and the variances of their noise where known, where the models live."""
        to, (Y, Yvar) = self.surrogate.to, through(warp, records)
        return to(self.unit_points(records)), to(Y), None if Yvar is None else to(Yvar)

    def fitted(self, X: Tensor, Y: Tensor, Yvar: Tensor | None, outcome: bool = False) -> PerFidelityGP:
        if self.prior is not None and not outcome:
            return known_fidelities(self.prior, X, Y, self.space.num_fidelities, Yvar)
        model = PerFidelityGP(X, Y, self.space.num_fidelities, Yvar, link=self.link, groups=self.space.groups)
        with fitting():
            return model.fit(optimizer_kwargs={"options": {"maxiter": 100}})

    def _fit_size(self, records: list[Record]) -> int:
        """On how many of the observations the hyper-parameters are fitted: the schedule is a fold over them."""
        initial = sum(r.query.meta.get("stage") == "initial" for r in records)
        size = first = max(1, min(initial, len(records)))
        if self.strict:
            return first + (len(records) - first) // EVERY * EVERY
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
