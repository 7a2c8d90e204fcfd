r"""Bayesian optimisation at one fidelity: GP-UCB, expected and probability of improvement.

References:

.. [Kandasamy2016mfgpucb]
    K. Kandasamy, G. Dasarathy, J. Oliva, J. Schneider, B. Póczos. Gaussian Process Bandit
    Optimisation with Multi-fidelity Evaluations. NeurIPS 2016.

.. [Srinivas2010gpucb]
    N. Srinivas, A. Krause, S. Kakade, M. Seeger. Gaussian Process Optimization in the Bandit
    Setting: No Regret and Experimental Design. ICML 2010.

.. [Jones1998ego]
    D. Jones, M. Schonlau, W. Welch. Efficient Global Optimization of Expensive Black-Box
    Functions. Journal of Global Optimization 13, 1998.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from botorch.acquisition import (
    AcquisitionFunction,
    LogExpectedImprovement,
    UpperConfidenceBound,
)
from botorch.acquisition.analytic import LogProbabilityOfImprovement
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.confidence import practical_beta
from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Record, Status
from mfbo_torch.strategies._gp import standardized
from mfbo_torch.strategies.design import single_fidelity_count
from mfbo_torch.strategies.model_based import ModelBased


def single_task_gp(X: Tensor, Y: Tensor) -> Model:
    """BoTorch's default model on the unit cube, for targets that are standardized already."""
    return SingleTaskGP(X, Y, outcome_transform=None)


class SingleFidelity(ModelBased):
    """One GP at one fidelity, the target unless a subclass says otherwise, and an analytic acquisition.

    Analytic acquisitions know no pending points, so the model is conditioned on its own posterior
    mean there: the mean stays and the deviation falls.

    Args:
        initial: Number of uniform random initial queries; by default 10, at most what half of the
            capital pays for and at least 2.
        **settings: Those of :class:`~mfbo_torch.strategies.model_based.ModelBased`.

    Raises:
        SettingError: ``initial`` below 1.
    """

    def __init__(self, *, initial: int | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        if initial is not None and (isinstance(initial, bool) or not isinstance(initial, int) or initial < 1):
            raise SettingError("initial", initial, "a whole number from 1 on")
        self.initial = initial

    @property
    def level(self) -> int:
        """The fidelity that is modelled and asked."""
        return self.space.target

    def budget(self) -> float | None:
        """The capital there is for this fidelity."""
        return self.capital

    def counts(self, history: History) -> list[int]:
        cost = self.costs(history)[self.level]
        count = self.initial if self.initial is not None else single_fidelity_count(cost, self.budget())
        return [count if m == self.level else 0 for m in range(self.space.num_fidelities)]

    def modelled(self, history: History) -> list[Record]:
        return history.select(Status.DONE, self.level)

    def propose(self, history: History, generator: torch.Generator) -> tuple[Tensor, int, dict[str, Any]]:
        X, Y = self.data(self.modelled(history))
        pending = self.unit_points(history.select(Status.PENDING, self.level))
        model = self._surrogate.model(single_task_gp, X[:, :-1], Y, pending[:, :-1])
        best = standardized(Y).max().item()
        acquisition, noted = self.acquisition(model, best, history)
        u, _ = self.maximize(acquisition, generator, num_restarts=10, raw_samples=256)
        return u, self.level, noted

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of the GP at the fidelity that it models, NaN at the others."""
        records = self.modelled(history)
        if not records:
            return None
        points, Y = self.data(records)
        own = self._surrogate.predict(single_task_gp, points[:, :-1], Y, self.space.to_unit(X))
        mean, deviation = torch.full((2, len(X), self.space.num_fidelities), torch.nan, dtype=torch.double)
        mean[:, self.level], deviation[:, self.level] = own
        return mean, deviation

    @abstractmethod
    def acquisition(self, model: Model, best: float, history: History) -> tuple[AcquisitionFunction, dict[str, Any]]:
        """The acquisition to maximise, given the best standardized observation, and what to note."""


class GPUCB(SingleFidelity):
    """GP-UCB, ``argmax μ_{t-1}(x) + β_t^½ σ_{t-1}(x)`` [Srinivas2010gpucb]_ (Eq. 6).

    Args:
        beta: ``β``; by default ``β_t = 0.2 d log 2t`` [Kandasamy2016mfgpucb]_ (Appendix B), where
            ``t`` counts the queries at this fidelity, the initial and the coming one included.
        **settings: Those of :class:`SingleFidelity`.

    Raises:
        SettingError: ``beta`` is negative.
    """

    def __init__(self, *, beta: float | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        if beta is not None and not beta >= 0:
            raise SettingError("beta", beta, "a number from 0 on")
        self.beta = beta

    def acquisition(self, model: Model, best: float, history: History) -> tuple[AcquisitionFunction, dict[str, Any]]:
        t = 1 + sum(r.query.fidelity == self.level for r in history)
        beta = self.beta if self.beta is not None else practical_beta(t, self.space.dim)
        return UpperConfidenceBound(model, beta), {"beta": beta}


class ExpectedImprovement(SingleFidelity):
    """Expected improvement ``E[max(f(x) - y*, 0)]`` over the best observation ``y*`` [Jones1998ego]_.

    Its logarithm is maximised.
    """

    def acquisition(self, model: Model, best: float, history: History) -> tuple[AcquisitionFunction, dict[str, Any]]:
        return LogExpectedImprovement(model, best), {}


class ProbabilityOfImprovement(SingleFidelity):
    """Probability of improvement ``P[f(x) > y*]`` over the best observation ``y*`` [Jones1998ego]_.

    Its logarithm is maximised.
    """

    def acquisition(self, model: Model, best: float, history: History) -> tuple[AcquisitionFunction, dict[str, Any]]:
        return LogProbabilityOfImprovement(model, best), {}
