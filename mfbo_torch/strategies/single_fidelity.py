r"""Bayesian optimisation at one fidelity: GP-UCB, expected and probability of improvement.

References:

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
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.history import History
from mfbo_torch.strategies.one_gp import ConfidenceWidth, SingleFidelity


class Analytic(SingleFidelity):
    """One GP at one fidelity and an analytic acquisition.

    Analytic acquisitions know no pending points, so the model is conditioned on its own posterior
    mean there: the mean stays and the deviation falls.

    Args:
        **settings: Those of :class:`~mfbo_torch.strategies.one_gp.SingleFidelity`.
    """

    def propose(self, history: History, generator: torch.Generator) -> tuple[Tensor, int, dict[str, Any]]:
        pending = self.pending(history)
        if not self.modelled(history) and not len(pending):
            return self.anywhere(history, generator), self.level, {}
        acquisition, noted = self.acquisition(self.model(history, pending), self.best(history), history)
        return self.maximiser(acquisition, history, generator), self.level, noted

    @abstractmethod
    def acquisition(self, model: Model, best: float, history: History) -> tuple[AcquisitionFunction, dict[str, Any]]:
        """The acquisition to maximise, given the best observation in the model's units, and what to note."""


class GPUCB(ConfidenceWidth, Analytic):
    """GP-UCB, ``argmax μ_{t-1}(x) + β_t^½ σ_{t-1}(x)`` [Srinivas2010gpucb]_ (Eq. 6).

    Args:
        **settings: Those of :class:`~mfbo_torch.strategies.one_gp.ConfidenceWidth`.
    """

    def acquisition(self, model: Model, best: float, history: History) -> tuple[AcquisitionFunction, dict[str, Any]]:
        beta = self.width(history)
        return UpperConfidenceBound(model, beta), {"beta": beta}


class ExpectedImprovement(Analytic):
    """Expected improvement ``E[max(f(x) - y*, 0)]`` over the best observation ``y*`` [Jones1998ego]_.

    Its logarithm is maximised.
    """

    def acquisition(self, model: Model, best: float, history: History) -> tuple[AcquisitionFunction, dict[str, Any]]:
        return LogExpectedImprovement(model, best), {}


class ProbabilityOfImprovement(Analytic):
    """Probability of improvement ``P[f(x) > y*]`` over the best observation ``y*`` [Jones1998ego]_.

    Its logarithm is maximised.
    """

    def acquisition(self, model: Model, best: float, history: History) -> tuple[AcquisitionFunction, dict[str, Any]]:
        return LogProbabilityOfImprovement(model, best), {}
