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

from collections import Counter
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
from mfbo_torch.history import History, Query, Record
from mfbo_torch.models.per_fidelity import LINKS, PerFidelityGP
from mfbo_torch.strategies.design import allowed, sobol, with_the_target
from mfbo_torch.strategies.model_based import MultiFidelityModelBased
from mfbo_torch.strategies.repeats import clear
from mfbo_torch.strategies.surrogate import LARGE, Growing, refit_step, seeded
from mfbo_torch.strategies.thresholds import adaptive_thresholds, impatience


class MFGPUCB(MultiFidelityModelBased):
    r"""Multi-fidelity optimisation by upper confidence bounds.

    ``link="recursive"``, the default, learns how each fidelity follows from the one below
    [LeGratiet2014recursive]_, maximises the target's own bound
    :math:`\mu^{(M)} + \beta_t^{1/2} \sigma^{(M)}`, and queries the lowest fidelity that explains as
    much of the target's variance there per unit of cost as the target itself does. The threshold of
    a fidelity that nothing above was queried for ``λ^(m+1) / λ^(m)`` queries is doubled until
    something is, so that the target is always reached.

    ``link="independent"`` is the published method [Kandasamy2016mfgpucb]_ with the settings of its
    Section 5 and Appendix B: separate processes, the bound (3), adaptive ζ and γ, an initial
    design of independent uniform points.

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
        **settings: ``seed``, ``space``, ``capital``, ``device`` and ``dtype``.

    Raises:
        SettingError: An unknown link, or a negative ``beta``.
    """

    def __init__(
        self,
        *,
        link: str = "recursive",
        beta: float | None = None,
        initial_capital: float | None = None,
        refit_every: int = 25,
        **settings: Any,
    ) -> None:
        super().__init__(initial_capital=initial_capital, refit_every=refit_every, **settings)
        self.link = one_of("link", link, LINKS)
        self.beta = None if beta is None else number("beta", beta, 0)
        self._growing: Growing[PerFidelityGP] = Growing(refit_every)

    def counts(self, history: History) -> list[int]:
        """Number of initial queries at each fidelity.

        The recursive link wants few points at the target and as much as one of them costs at each
        fidelity below (at most ``10 d`` points), so that each link is learned from nested designs.
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
        return with_the_target([*below, top], costs, self.capital)

    def initial_point(self, index: int, rank: int) -> Tensor:
        if self.link == "independent":
            return super().initial_point(index, rank)
        dim, seed = self.space.dim, self.seed
        return allowed(lambda n: sobol(dim, n, seed), rank + 1, self.space)[rank]

    def propose(self, history: History, generator: torch.Generator) -> Query:
        costs = self.costs(history)
        model = self.model(history)
        noted: dict[str, Any] = {}
        zeta: tuple[float, ...] | None = None
        gamma: list[float] = []
        if self.link == "independent":
            state = adaptive_thresholds(history, costs)
            zeta, gamma, check = state.zeta, list(state.gamma), state.check
            noted = {"zeta": list(zeta), "gamma": gamma}
            if check is not None:
                u, fidelity = self.unit_points([check])[:, :-1], check.query.fidelity - 1
                noted |= {"check": check.id, **self._beliefs(model, u, fidelity)}
                return self.query(u, fidelity, stage="model", **noted)
        decisions = sum(r.query.meta.get("stage") != "initial" for r in history)
        beta = practical_beta(decisions + 1, self.space.dim) if self.beta is None else self.beta
        pending = self.surrogate.to(self.unit_points(history.pending)) if history.pending else None
        acquisition = MultiFidelityUpperConfidenceBound(model, beta, zeta, pending)
        u = self.maximize_from(_Standardized(acquisition), self._incumbents(history), generator)
        u = self.surrogate.to(self.space.snap(u.to("cpu", torch.double)))
        if zeta is None:
            growth = impatience(history, costs)
            width = beta or 1.0  # it cancels, and 0 would hide every fidelity
            fidelity = select_fidelity(
                model, u, width, cost_thresholds(model, u, width, costs, growth, pending), pending
            )
        else:
            fidelity = select_fidelity(model, u, beta, gamma, pending)
        fidelity = self.free(fidelity, history)
        u = clear(self, u, fidelity, history, generator)
        return self.query(u, fidelity, stage="model", **noted, beta=beta, **self._beliefs(model, u, fidelity))

    def _beliefs(self, model: PerFidelityGP, u: Tensor, fidelity: int) -> dict[str, Any]:
        """What the model predicts at a query, for the log and for the check of ζ."""
        with torch.no_grad():
            mean, variance = model.mean_variance(self.surrogate.to(u))
        noted = {"mean": mean[0, fidelity].item(), "deviation": variance[0, fidelity].sqrt().item()}
        return noted if fidelity == 0 else {**noted, "mean_below": mean[0, fidelity - 1].item()}

    def _incumbents(self, history: History) -> Tensor:
        """The best design so far at each fidelity, in the unit cube."""
        best = [history.best(m) for m in range(self.space.num_fidelities)]
        return self.unit_points([record for record in best if record is not None])[:, :-1]

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of every fidelity that was observed; NaN at the others."""
        records = self.modelled(history)
        if not records:
            return None
        model = self.model(history)
        with torch.no_grad():
            mean, variance = model.mean_variance(self.surrogate.to(self.space.to_unit(X)))
        seen = {r.query.fidelity for r in records}
        unseen = [m for m in range(self.space.num_fidelities) if m not in seen]
        mean, deviation = mean.to("cpu", torch.double), variance.sqrt().to("cpu", torch.double)
        mean[:, unseen] = deviation[:, unseen] = torch.nan
        return mean, deviation

    def model(self, history: History) -> PerFidelityGP:
        """The model of everything observed, with hyper-parameters fitted to the first part of it."""
        records = self.modelled(history)
        size = self._fit_size(records)
        X, Y = map(self.surrogate.to, self.data(records))

        def fit() -> PerFidelityGP:
            model = PerFidelityGP(X[:size], Y[:size], self.space.num_fidelities, link=self.link)
            with seeded():
                return model.fit(optimizer_kwargs={"options": {"maxiter": 100}})

        def add(model: PerFidelityGP, some: slice) -> PerFidelityGP:
            return model.condition_on_observations(X[some], Y[some])

        return self._growing(self.space, records, size, fit, add)

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

    def fused(self) -> Fused | None:
        """As that of the bound."""
        inner, scale = self.bound.fused(), self.model.scale[-1].item()
        return None if inner is None else affine(inner, 1 / scale, -self.model.shift[-1].item() / scale)
