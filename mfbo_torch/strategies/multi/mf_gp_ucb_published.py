"""MF-GP-UCB as its authors state it: Algorithm 1, and the settings of their experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from scipy.optimize import direct
from torch import Tensor

from mfbo_torch.acquisition.multi_fidelity_ucb import select_fidelity
from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import Query, Record
from mfbo_torch.models.multi_fidelity.per_fidelity import PerFidelityGP
from mfbo_torch.strategies.common.deduplicate import clear
from mfbo_torch.strategies.common.gp import known_fidelities
from mfbo_torch.strategies.common.initial_design import multi_fidelity_counts
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import Thresholds, adaptive_thresholds
from mfbo_torch.strategies.multi.upper_bounds import UpperBounds
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, one_of, several

EVERY = 25
"""Number of queries between two fits in the experiments of [Kandasamy2016mfgpucb]_ (Appendix B)."""
EVALUATIONS = 500
"""Number of designs a parameter that DIRECT looks at."""


class PublishedMFGPUCB(UpperBounds):
    r"""Algorithm 1 of [Kandasamy2016mfgpucb]_ with separate processes.

    :math:`x_t = \arg\max_x \min_m \mu^{(m)} + \beta_t^{1/2} \sigma^{(m)} + \zeta^{(m)}` at the lowest ``m`` with
    :math:`\beta_t^{1/2} \sigma^{(m)}(x_t) \ge \gamma^{(m)}`. ζ is the one given or else that of the space, and adaptive
    where neither knows it, with the checks of Section 5; γ is the one given, or adaptive.

    Args:
        zeta: As that of :class:`~mfbo_torch.strategies.MFGPUCB`.
        gamma: As there.
        prior: As there.
        strict: As there.
        **settings: Those of :class:`~mfbo_torch.strategies.multi.upper_bounds.UpperBounds`.
    """

    link = "independent"

    def __init__(
        self,
        *,
        zeta: Sequence[float] | None = None,
        gamma: Sequence[float] | None = None,
        prior: Prior | None = None,
        strict: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.zeta, self.gamma, self.prior = known("zeta", zeta), known("gamma", gamma), prior
        self.strict = one_of("strict", strict, (True, False))

    def counts(self, snapshot: Snapshot) -> list[int]:
        """Number of initial queries at each fidelity.

        Raises:
            SettingError: Another number of ζ or γ than the fidelities have, or a ζ of the target that is not 0.
        """
        levels, zeta, gamma = self.space.num_fidelities, self.zeta, self.gamma
        if zeta is not None and not (len(zeta) == levels - 1 or (len(zeta) == levels and zeta[-1] == 0)):
            raise SettingError("zeta", list(zeta), f"{levels - 1} numbers, one a fidelity below the target")
        if gamma is not None and len(gamma) != levels - 1:
            raise SettingError("gamma", list(gamma), f"{levels - 1} numbers, one a fidelity below the target")
        initial, capped = self.initial_capital or 10.0, not self.strict
        return multi_fidelity_counts(snapshot.costs, self.space.dim, self.capital, initial, capped)

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        model, state = self.model(snapshot), self.thresholds(snapshot)
        noted: dict[str, Any] = {"zeta": list(state.zeta), "gamma": list(state.gamma)}
        if state.check is not None:
            u, fidelity = snapshot.designs([state.check]), state.check.query.fidelity - 1
            noted |= {"check": state.check.id, **self.predicted(model, u, fidelity)}
            return self.query(u, fidelity, stage="model", **noted)
        u, beta = self.bounded(model, snapshot, generator, state.zeta)
        fidelity = select_fidelity(model, u, beta, state.gamma, self.pending(snapshot))
        fidelity = self.free(self.probing(u, fidelity, snapshot), snapshot)
        u = clear(u, fidelity, snapshot, generator)
        return self.query(u, fidelity, stage="model", **noted, beta=beta, **self.predicted(model, u, fidelity))

    def thresholds(self, snapshot: Snapshot) -> Thresholds:
        """ζ, γ, and an observation that contradicts an adaptive ζ."""
        state = adaptive_thresholds(snapshot.records, snapshot.costs)
        zeta = self.space.zeta if self.zeta is None else self.zeta
        gamma = state.gamma if self.gamma is None else self.gamma
        if zeta is None:
            return Thresholds(state.zeta, gamma, state.check)
        return Thresholds((*zeta[: self.space.target], 0.0), gamma, None)

    def searched(self, score: AcquisitionFunction, snapshot: Snapshot, generator: torch.Generator) -> Tensor:
        """As elsewhere, or by DIRECT as in the experiments."""
        if not self.strict:
            return super().searched(score, snapshot, generator)
        return self.snapped(divided(score, self.space.unit_dim, self.surrogate.to))

    def fitted(self, X: Tensor, Y: Tensor, Yvar: Tensor | None, outcome: bool = False) -> PerFidelityGP:
        if self.prior is None or outcome:
            return super().fitted(X, Y, Yvar, outcome)
        return known_fidelities(self.prior, X, Y, self.space.num_fidelities, Yvar)

    def fit_size(self, records: list[Record]) -> int:
        if not self.strict:
            return super().fit_size(records)
        initial = sum(r.query.meta.get("stage") == "initial" for r in records)
        first = max(1, min(initial, len(records)))
        return first + (len(records) - first) // EVERY * EVERY


def known(name: str, given: Sequence[float] | None) -> tuple[float, ...] | None:
    """Numbers from 0 on that replace an adaptive setting; ``None`` stays."""
    if given is None:
        return None
    return tuple(several(name, given, lambda n, v: number(n, v, 0.0), "numbers from 0 on"))


def divided(score: AcquisitionFunction, dim: int, to: Callable[[Tensor], Tensor]) -> Tensor:
    """The maximiser ``1 x d`` over the unit cube by DIRECT, with :data:`EVALUATIONS` designs a column.

    Args:
        score: What is maximised.
        dim: Number of columns.
        to: Takes points to where the model lives.
    """

    def negated(u: np.ndarray) -> float:
        with torch.no_grad():
            return -score(to(torch.as_tensor(u, dtype=torch.double)).view(1, 1, -1)).item()

    most = EVALUATIONS * dim
    found = direct(negated, [(0.0, 1.0)] * dim, maxfun=most, maxiter=most, vol_tol=0.0, len_tol=0.0)
    return torch.as_tensor(found.x, dtype=torch.double).unsqueeze(0)
