r"""BOCA: a fidelity that is any number of an interval.

References:

.. [Kandasamy2017boca]
    K. Kandasamy, G. Dasarathy, J. Schneider, B. Póczos. Multi-fidelity Bayesian Optimisation with Continuous
    Approximations. ICML 2017, arXiv:1703.06240.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mfbo_torch.acquisition.continuous_fidelity import AtFidelity, select_value
from mfbo_torch.acquisition.hallucinated_ucb import HallucinatedUpperConfidenceBound
from mfbo_torch.confidence import practical_beta
from mfbo_torch.history import History, Query, noise_variances
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.strategies.common.fit_schedule import Memo
from mfbo_torch.strategies.common.gp import Process
from mfbo_torch.strategies.common.initial_design import allowed, multi_fidelity_counts, sobol
from mfbo_torch.strategies.common.model_based import MultiFidelityModelBased
from mfbo_torch.utils.validation import number

WINDOW, LEAST, MOST, STEP = 20, 0.25, 0.5, 1.1
"""While fewer of the last so many queries than this share are at the target, γ grows by this factor with each; while
more are than that share, it falls."""
STARTS = 3
"""The search for a design begins at so many of those observed that have the largest means."""
FIRST = 4
"""The initial design has so many fidelities, evenly between the lowest and the target."""


class BOCA(MultiFidelityModelBased):
    r"""Multi-fidelity optimisation with a continuous fidelity [Kandasamy2017boca]_ (Algorithm 1).

    One GP over designs and the fidelity with the product kernel :math:`k_Z(z, z') k_X(x, x')`. The design maximises
    the upper bound of the target, :math:`\mu(z_\bullet, x) + \beta_t^{1/2} \sigma(z_\bullet, x)`, the fidelity is
    :func:`~mfbo_torch.acquisition.continuous_fidelity.select_value`'s.

    A continuous fidelity is a fine grid of levels, which is what queries have. A few levels work as well.

    Args:
        beta: A fixed squared width instead of ``0.2 d log(2 t)``, ``t`` counting the queries after the initial design.
        **settings: Those of :class:`~mfbo_torch.strategies.common.model_based.MultiFidelityModelBased`.

    Raises:
        SettingError: A negative ``beta``.
    """

    most_fidelities: int | None = None

    def __init__(self, *, beta: float | None = None, initial_capital: float | None = 3.0, **settings: Any) -> None:
        super().__init__(initial_capital=initial_capital, **settings)
        self.beta = None if beta is None else number("beta", beta, 0)
        self._process: Memo[Process] = Memo()

    @property
    def process(self) -> Process:
        """The model, for the columns of the space and the fidelity."""
        own = self.space.groups
        groups = None if own is None else (*own, max(own) + 1)
        return self._process(groups, lambda: Process(self.surrogate, groups=groups))

    @property
    def values(self) -> Tensor:
        """``M`` fidelities scaled to ``[0, 1]``, where the model lives."""
        return torch.linspace(0.0, 1.0, self.space.num_fidelities, dtype=torch.double)

    def counts(self, history: History) -> list[int]:
        """Number of initial queries at each fidelity: see :data:`FIRST`."""
        count = self.space.num_fidelities
        some = torch.linspace(0, count - 1, min(FIRST, count)).round().long().tolist()
        costs = self.costs(history)
        few = multi_fidelity_counts([costs[m] for m in some], self.space.dim, self.capital, self.initial_capital or 3.0)
        at = dict(zip(some, few, strict=True))
        return [at.get(m, 0) for m in range(count)]

    def initial_point(self, index: int, rank: int) -> Tensor:
        dim, seed = self.space.dim, self.seed
        return allowed(lambda n: sobol(dim, n, seed), index + 1, self.space)[index]

    def scaled(self, points: Tensor) -> Tensor:
        """Points ``n x (d + 1)`` with the value of the fidelity in the place of its number."""
        return torch.cat([points[:, :-1], self.values[points[:, -1:].long()]], dim=-1)

    def model(self, history: History) -> CachedGP:
        """The GP of everything observed."""
        records = self.modelled(history)
        X, Y = self.data(records)
        return self.process.model(self.scaled(X), Y, noise_variances(records))

    def propose(self, history: History, generator: torch.Generator) -> Query:
        model, to = self.model(history), self.surrogate.to
        decisions = sum(r.query.meta.get("stage") == "model" for r in history)
        beta = practical_beta(decisions + 1, self.space.dim) if self.beta is None else self.beta
        pending = to(self.scaled(self.unit_points(history.pending))) if history.pending else None
        bound = AtFidelity(HallucinatedUpperConfidenceBound(model, beta, pending), 1.0)
        designs = to(self.unit_points(self.modelled(history))[:, :-1])
        means = self._means(model, designs)
        starts = designs[means.topk(min(STARTS, len(means))).indices].to("cpu", torch.double)
        score = self.feasible(bound, history, self.space.target, lambda: means.max().item())
        u = to(self.space.snap(self.maximize_from(score, starts, generator).to("cpu", torch.double)))
        factor = patience(history, self.space.target)
        costs = self.costs_at(u, history)
        fidelity = select_value(model, u, to(self.values), costs, factor=factor, X_pending=pending)
        fidelity = self.free(self.probing(u, fidelity, history), history)
        return self.placed(u, fidelity, history, generator, beta=beta, factor=factor)

    def _means(self, model: CachedGP, designs: Tensor) -> Tensor:
        """The means of the target at ``n x d`` designs."""
        at = torch.cat([designs, torch.ones_like(designs[:, :1])], dim=-1)
        with torch.no_grad():
            return model.posterior(at.unsqueeze(-2)).mean.reshape(-1)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of the GP at every fidelity."""
        records = self.modelled(history)
        if not records:
            return None
        designs, count = self.space.to_unit(X), self.space.num_fidelities
        at = torch.cat([designs.repeat(count, 1), self.values.repeat_interleave(len(X)).unsqueeze(-1)], dim=-1)
        P, Y = self.data(records)
        found = self.process.predict(self.scaled(P), Y, noise_variances(records), at)
        return found[0].view(count, -1).mT, found[1].view(count, -1).mT

    def noise_deviations(self, history: History) -> tuple[float | None, ...]:
        records = self.modelled(history)
        if not records:
            return (None,) * self.space.num_fidelities
        X, Y = self.data(records)
        target = self.process.noise(self.scaled(X), Y, noise_variances(records))
        return (*[None] * self.space.target, target)


def patience(history: History, target: int) -> float:
    """The factor of γ that keeps queries at the target between :data:`LEAST` and :data:`MOST` of all."""
    at = [r.query.fidelity == target for r in history if r.query.meta.get("stage") == "model"]
    factor = 1.0
    for t in range(len(at)):
        share = sum(at[max(0, t + 1 - WINDOW) : t + 1]) / WINDOW
        factor *= STEP if share <= LEAST else 1 / STEP if share >= MOST else 1.0
    return factor
