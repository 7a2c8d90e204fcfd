"""BoTorch's Monte-Carlo acquisitions, which integrate over the pending values."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.acquisition.monte_carlo import MCAcquisitionFunction, qUpperConfidenceBound
from botorch.sampling.normal import SobolQMCNormalSampler

from mfbo_torch.strategies.common.fit_schedule import draw_seed
from mfbo_torch.strategies.single.base import Banded, Noted, OneFidelity
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.validation import whole


class _MonteCarlo(OneFidelity):
    """A strategy with an acquisition of the next design and the pending ones together.

    Args:
        samples: Number of joint posterior samples, at least 1.
    """

    def __init__(self, *, samples: int = 128, **settings: Any) -> None:
        super().__init__(**settings)
        self.samples = whole("samples", samples)

    @abstractmethod
    def acquisition(self, snapshot: Snapshot) -> tuple[MCAcquisitionFunction, dict[str, Any]]:
        """The acquisition without its samples and pending designs, and what a query notes."""

    def design(self, snapshot: Snapshot, generator: torch.Generator) -> Noted:
        acquisition, noted = self.acquisition(snapshot)
        acquisition.sampler = SobolQMCNormalSampler(torch.Size([self.samples]), seed=draw_seed(generator))
        pending = self.surrogate.to(self.pending(snapshot))
        acquisition.set_X_pending(pending if len(pending) else None)
        return self.maximiser(acquisition, snapshot, generator), noted


class QUpperConfidenceBound(_MonteCarlo, Banded):
    """BoTorch's ``qUpperConfidenceBound`` with the pending designs [Wilson2017mc]_."""

    def acquisition(self, snapshot: Snapshot) -> tuple[MCAcquisitionFunction, dict[str, Any]]:
        beta = self.width(snapshot)
        return qUpperConfidenceBound(self.posterior(snapshot)[0], beta), {"beta": beta}


class QLogExpectedImprovement(_MonteCarlo):
    """BoTorch's ``qLogExpectedImprovement`` with the pending designs [Ament2023logei]_."""

    def acquisition(self, snapshot: Snapshot) -> tuple[MCAcquisitionFunction, dict[str, Any]]:
        return qLogExpectedImprovement(self.posterior(snapshot)[0], self.best(snapshot)), {}
