"""Multi-fidelity GIBBON, by BoTorch."""

from __future__ import annotations

from typing import Any

from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.cost_aware import InverseCostWeightedUtility
from botorch.acquisition.max_value_entropy_search import qMultiFidelityLowerBoundMaxValueEntropy
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.strategies.common.initial_design import sobol
from mfbo_torch.strategies.multi.botorch_base import FidelityGP
from mfbo_torch.utils.validation import whole


class MFGIBBON(FidelityGP):
    """MF-GIBBON: the information on ``max f^(M)`` per unit of cost, by a lower bound [Moss2021gibbon]_.

    Args:
        num_candidates: Sobol points over which the maximum is sampled.
        **settings: Those of :class:`~mfbo_torch.strategies.multi.botorch_base.FidelityGP`.

    Raises:
        SettingError: ``num_candidates`` below 1.
    """

    def __init__(self, *, num_candidates: int = 1000, **settings: Any) -> None:
        super().__init__(**settings)
        self.num_candidates = whole("num_candidates", num_candidates)

    def acquisition(
        self, model: Model, utility: InverseCostWeightedUtility, X_pending: Tensor | None, seed: int
    ) -> AcquisitionFunction:
        candidates = self.surrogate.to(sobol(self.space.dim + 1, self.num_candidates, seed))
        acquisition = qMultiFidelityLowerBoundMaxValueEntropy(
            model, candidates, cost_aware_utility=utility, project=self.project
        )
        acquisition.set_X_pending(X_pending)  # its constructor takes X_pending and drops it
        return acquisition
