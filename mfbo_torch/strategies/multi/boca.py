"""BOCA: a fidelity that is any number of an interval."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from mfbo_torch.acquisition.continuous_fidelity import AtFidelity, select_value
from mfbo_torch.acquisition.hallucinated_ucb import HallucinatedUpperConfidenceBound
from mfbo_torch.confidence import practical_beta
from mfbo_torch.history import Query, Record
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.strategies.common.gp import UnitCubeGP
from mfbo_torch.strategies.common.initial_design import multi_fidelity_counts, sobol
from mfbo_torch.strategies.multi.base import MultiFidelityModelBased
from mfbo_torch.strategies.snapshot import Data, Snapshot, data_of
from mfbo_torch.utils.memo import Memo
from mfbo_torch.utils.validation import number

WINDOW, LEAST, MOST, STEP = 20, 0.25, 0.5, 1.1
"""Number of the last queries that count, and the factor by which γ grows with each query while at most the first share
of these is at the target, and falls while at least the second share is."""
STARTS = 3
"""Number of observed designs, those of the largest means, at which the search for a design begins."""
FIRST = 4
"""Number of fidelities of the initial design, evenly between the lowest and the target."""


class BOCA(MultiFidelityModelBased):
    r"""Multi-fidelity optimisation with a continuous fidelity [Kandasamy2017boca]_ (Algorithm 1).

    One GP over designs and the fidelity with the product kernel :math:`k_Z(z, z') k_X(x, x')`. The design maximises
    the upper bound of the target, :math:`\mu(z_\bullet, x) + \beta_t^{1/2} \sigma(z_\bullet, x)`, the fidelity is
    :func:`~mfbo_torch.acquisition.continuous_fidelity.select_value`'s.

    A continuous fidelity is a fine grid of levels, which is what queries have. A few levels work as well.

    Args:
        beta: A fixed squared width instead of ``0.2 d log(2 t)``, ``t`` counting the queries after the initial design.
        **settings: Those of :class:`~mfbo_torch.strategies.multi.base.MultiFidelityModelBased`.

    Raises:
        SettingError: A negative ``beta``.
    """

    most_fidelities: int | None = None
    filling = staticmethod(sobol)

    def __init__(self, *, beta: float | None = None, initial_capital: float | None = 3.0, **settings: Any) -> None:
        super().__init__(initial_capital=initial_capital, **settings)
        self.beta = None if beta is None else number("beta", beta, 0)
        self._gp: Memo[UnitCubeGP] = Memo()

    @property
    def gp(self) -> UnitCubeGP:
        """The model, for the columns of the space and the fidelity."""
        own = self.space.groups
        groups = None if own is None else (*own, max(own) + 1)
        return self._gp(groups, lambda: UnitCubeGP(self.surrogate, groups=groups))

    @property
    def values(self) -> Tensor:
        """``M`` fidelities scaled to ``[0, 1]``, where the model lives."""
        return torch.linspace(0.0, 1.0, self.space.num_fidelities, dtype=torch.double)

    def counts(self, snapshot: Snapshot) -> list[int]:
        """Number of initial queries at each fidelity: see :data:`FIRST`."""
        count = self.space.num_fidelities
        some = torch.linspace(0, count - 1, min(FIRST, count)).round().long().tolist()
        costs = snapshot.costs
        few = multi_fidelity_counts([costs[m] for m in some], self.space.dim, self.capital, self.initial_capital or 3.0)
        at = dict(zip(some, few, strict=True))
        return [at.get(m, 0) for m in range(count)]

    def scaled(self, points: Tensor) -> Tensor:
        """Points ``n x (d + 1)`` with the value of the fidelity in the place of its number."""
        return torch.cat([points[:, :-1], self.values[points[:, -1:].long()]], dim=-1)

    def data(self, snapshot: Snapshot) -> Data:
        """Everything observed, as the model takes it."""
        X, Y, Yvar = data_of(self.space, self.modelled(snapshot))
        return Data(self.scaled(X), Y, Yvar)

    def model(self, snapshot: Snapshot) -> CachedGP:
        """The GP of everything observed."""
        return self.gp.model(*self.data(snapshot))

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        model, to = self.model(snapshot), self.surrogate.to
        decisions = sum(r.query.meta.get("stage") == "model" for r in snapshot.records)
        beta = practical_beta(decisions + 1, self.space.dim) if self.beta is None else self.beta
        pending = to(self.scaled(snapshot.flying)) if snapshot.pending else None
        bound = AtFidelity(HallucinatedUpperConfidenceBound(model, beta, pending), 1.0)
        designs = to(snapshot.designs(self.modelled(snapshot)))
        means = self._means(model, designs)
        starts = designs[means.topk(min(STARTS, len(means))).indices].to("cpu", torch.double)
        score = self.feasible(bound, snapshot, self.space.target, lambda: means.max().item())
        u = to(self.space.snap(self.maximize_from(score, starts, generator).to("cpu", torch.double)))
        factor = patience(snapshot.records, self.space.target)
        costs = snapshot.costs_at(u)
        fidelity = select_value(model, u, to(self.values), costs, factor=factor, X_pending=pending)
        fidelity = self.free(self.probing(u, fidelity, snapshot), snapshot)
        return self.placed(u, fidelity, snapshot, generator, beta=beta, factor=factor)

    def _means(self, model: CachedGP, designs: Tensor) -> Tensor:
        """The means of the target at ``n x d`` designs."""
        at = torch.cat([designs, torch.ones_like(designs[:, :1])], dim=-1)
        with torch.no_grad():
            return model.posterior(at.unsqueeze(-2)).mean.reshape(-1)

    def noise_deviations(self, snapshot: Snapshot) -> tuple[float | None, ...]:
        if not self.modelled(snapshot):
            return super().noise_deviations(snapshot)
        return (*[None] * self.space.target, self.gp.noise(*self.data(snapshot)))


def patience(records: Iterable[Record], target: int) -> float:
    """The factor of γ that keeps queries at the target between :data:`LEAST` and :data:`MOST` of all."""
    at = [r.query.fidelity == target for r in records if r.query.meta.get("stage") == "model"]
    factor = 1.0
    for t in range(len(at)):
        share = sum(at[max(0, t + 1 - WINDOW) : t + 1]) / WINDOW
        factor *= STEP if share <= LEAST else 1 / STEP if share >= MOST else 1.0
    return factor
