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

from typing import Any

import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.acquisition.monte_carlo import MCAcquisitionFunction, qUpperConfidenceBound
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor

from mfbo_torch.history import History
from mfbo_torch.strategies.common.fit_schedule import draw_seed
from mfbo_torch.strategies.single.base import Banded, Noted, OneFidelity
from mfbo_torch.utils.validation import whole


class QUpperConfidenceBound(Banded):
    """BoTorch's ``qUpperConfidenceBound`` with the pending designs [Wilson2017mc]_.

    Args:
        samples: Number of joint posterior samples.
        **settings: Those of :class:`~mfbo_torch.strategies.single.base.Banded`.

    Raises:
        SettingError: ``samples`` below 1.
    """

    def __init__(self, *, samples: int = 128, **settings: Any) -> None:
        super().__init__(**settings)
        self.samples = whole("samples", samples)

    def design(self, history: History, generator: torch.Generator) -> Noted:
        beta = self.width(history)
        acquisition = qUpperConfidenceBound(self.posterior(history)[0], beta)
        return jointly(self, acquisition, history, generator), {"beta": beta}


class QLogExpectedImprovement(OneFidelity):
    """BoTorch's ``qLogExpectedImprovement`` with the pending designs [Ament2023logei]_.

    Args:
        samples: Number of joint posterior samples.
        **settings: Those of :class:`~mfbo_torch.strategies.single.base.OneFidelity`.

    Raises:
        SettingError: ``samples`` below 1.
    """

    def __init__(self, *, samples: int = 128, **settings: Any) -> None:
        super().__init__(**settings)
        self.samples = whole("samples", samples)

    def design(self, history: History, generator: torch.Generator) -> Noted:
        acquisition = qLogExpectedImprovement(self.posterior(history)[0], self.best(history))
        return jointly(self, acquisition, history, generator), {}


def jointly(
    strategy: QUpperConfidenceBound | QLogExpectedImprovement,
    acquisition: MCAcquisitionFunction,
    history: History,
    generator: torch.Generator,
) -> Tensor:
    """The maximiser of an acquisition of the next design and the pending ones together."""
    acquisition.sampler = SobolQMCNormalSampler(torch.Size([strategy.samples]), seed=draw_seed(generator))
    pending = strategy.surrogate.to(strategy.pending(history))
    acquisition.set_X_pending(pending if len(pending) else None)
    return strategy.maximiser(acquisition, history, generator)
