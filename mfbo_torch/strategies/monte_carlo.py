r"""BoTorch's Monte-Carlo acquisitions, which integrate over the values that are still out.

References:

.. [Wilson2017mc]
    J. Wilson, R. Moriconi, F. Hutter, M. Deisenroth. The Reparameterization Trick for Acquisition
    Functions. NeurIPS Workshop on Bayesian Optimization 2017.

.. [Ament2023logei]
    S. Ament, S. Daulton, D. Eriksson, M. Balandat, E. Bakshy. Unexpected Improvements to Expected
    Improvement for Bayesian Optimization. NeurIPS 2023.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.acquisition.monte_carlo import qUpperConfidenceBound
from botorch.models.model import Model
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor

from mfbo_torch.errors import SettingError
from mfbo_torch.history import History
from mfbo_torch.strategies.model_based import draw_seed
from mfbo_torch.strategies.one_gp import ConfidenceWidth, SingleFidelity


class MonteCarlo(SingleFidelity):
    """A Monte-Carlo acquisition of the next design and the pending ones together.

    Args:
        samples: Number of joint posterior samples.
        **settings: Those of :class:`~mfbo_torch.strategies.one_gp.SingleFidelity`.

    Raises:
        SettingError: ``samples`` below 1.
    """

    def __init__(self, *, samples: int = 128, **settings: Any) -> None:
        super().__init__(**settings)
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise SettingError("samples", samples, "a whole number from 1 on")
        self.samples = samples

    def propose(self, history: History, generator: torch.Generator) -> tuple[Tensor, int, dict[str, Any]]:
        pending = self.pending(history)
        if not self.modelled(history):
            if not len(pending):
                return self.anywhere(history, generator), self.level, {}
            model = self.model(history, pending[:1])
        else:
            model = self.model(history)
        acquisition, noted = self.acquisition(model, self.best(history), history)
        acquisition.sampler = SobolQMCNormalSampler(torch.Size([self.samples]), seed=draw_seed(generator))
        acquisition.set_X_pending(self._surrogate.to(pending) if len(pending) else None)
        return self.maximiser(acquisition, history, generator), self.level, noted

    @abstractmethod
    def acquisition(self, model: Model, best: float, history: History) -> tuple[AcquisitionFunction, dict[str, Any]]:
        """The acquisition to maximise, given the best observation in the model's units, and what to note."""


class QUpperConfidenceBound(MonteCarlo, ConfidenceWidth):
    """BoTorch's ``qUpperConfidenceBound`` with the pending designs [Wilson2017mc]_.

    Args:
        **settings: Those of :class:`MonteCarlo` and
            :class:`~mfbo_torch.strategies.one_gp.ConfidenceWidth`.
    """

    def acquisition(self, model: Model, best: float, history: History) -> tuple[AcquisitionFunction, dict[str, Any]]:
        beta = self.width(history)
        return qUpperConfidenceBound(model, beta), {"beta": beta}


class QLogExpectedImprovement(MonteCarlo):
    """BoTorch's ``qLogExpectedImprovement`` with the pending designs [Ament2023logei]_.

    Args:
        **settings: Those of :class:`MonteCarlo`.
    """

    def acquisition(self, model: Model, best: float, history: History) -> tuple[AcquisitionFunction, dict[str, Any]]:
        return qLogExpectedImprovement(model, best), {}
