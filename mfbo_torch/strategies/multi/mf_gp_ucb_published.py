r"""MF-GP-UCB as its authors state it: Algorithm 1, and the settings of their experiments.

References:

.. [Kandasamy2016mfgpucb]
    K. Kandasamy, G. Dasarathy, J. Oliva, J. Schneider, B. Póczos. Gaussian Process Bandit
    Optimisation with Multi-fidelity Evaluations. NeurIPS 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from scipy.optimize import direct
from torch import Tensor

from mfbo_torch.acquisition.multi_fidelity_ucb import select_fidelity
from mfbo_torch.history import History, Query
from mfbo_torch.strategies.common.deduplicate import clear
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import Thresholds, adaptive_thresholds
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, several

if TYPE_CHECKING:
    from mfbo_torch.strategies.multi.mf_gp_ucb import MFGPUCB

EVERY = 25
"""So many queries are between two fits in the experiments of [Kandasamy2016mfgpucb]_ (Appendix B)."""
EVALUATIONS = 500
"""DIRECT looks at so many designs a parameter."""


def known(name: str, given: Sequence[float] | None, least: float = 0.0) -> tuple[float, ...] | None:
    """Numbers from ``least`` on that replace an adaptive setting; ``None`` stays."""
    if given is None:
        return None
    return tuple(several(name, given, lambda n, v, **k: number(n, v, least, **k), f"numbers from {least:g} on"))


class Published:
    r"""Algorithm 1 of [Kandasamy2016mfgpucb]_ with separate processes.

    :math:`x_t = \arg\max_x \min_m \mu^{(m)} + \beta_t^{1/2} \sigma^{(m)} + \zeta^{(m)}` at the lowest ``m`` with
    :math:`\beta_t^{1/2} \sigma^{(m)}(x_t) \ge \gamma^{(m)}`. ζ is that of the strategy or else of the space, and
    adaptive where neither knows it, with the checks of Section 5; γ that of the strategy, or adaptive.

    Args:
        strategy: Whose settings, models and search these are.
    """

    def __init__(self, strategy: MFGPUCB) -> None:
        self.strategy = strategy

    def check(self) -> None:
        """Whether the settings fit the space.

        Raises:
            SettingError: Another number of ζ or γ than the fidelities have, or a ζ of the target that is not 0.
        """
        levels = self.strategy.space.num_fidelities
        zeta, gamma = self.strategy.zeta, self.strategy.gamma
        if zeta is not None and not (len(zeta) == levels - 1 or (len(zeta) == levels and zeta[-1] == 0)):
            raise SettingError("zeta", list(zeta), f"{levels - 1} numbers, one a fidelity below the target")
        if gamma is not None and len(gamma) != levels - 1:
            raise SettingError("gamma", list(gamma), f"{levels - 1} numbers, one a fidelity below the target")

    def query(self, history: History, generator: torch.Generator) -> Query:
        """The next query."""
        strategy = self.strategy
        model, state = strategy.model(history), self.thresholds(history)
        noted: dict[str, Any] = {"zeta": list(state.zeta), "gamma": list(state.gamma)}
        if state.check is not None:
            u, fidelity = strategy.unit_points([state.check])[:, :-1], state.check.query.fidelity - 1
            noted |= {"check": state.check.id, **strategy.believed(model, u, fidelity)}
            return strategy.query(u, fidelity, stage="model", **noted)
        u, beta = strategy.bounded(model, history, generator, state.zeta)
        fidelity = select_fidelity(model, u, beta, state.gamma, strategy.out(history))
        fidelity = strategy.free(strategy.probing(u, fidelity, history), history)
        u = clear(strategy, u, fidelity, history, generator)
        noted |= {"beta": beta, **strategy.believed(model, u, fidelity)}
        return strategy.query(u, fidelity, stage="model", **noted)

    def thresholds(self, history: History) -> Thresholds:
        """ζ, γ, and an observation that contradicts an adaptive ζ."""
        strategy = self.strategy
        state = adaptive_thresholds(history, strategy.costs(history))
        zeta = strategy.space.zeta if strategy.zeta is None else strategy.zeta
        gamma = state.gamma if strategy.gamma is None else strategy.gamma
        if zeta is None:
            return Thresholds(state.zeta, gamma, state.check)
        return Thresholds((*zeta[: strategy.space.target], 0.0), gamma, None)


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
