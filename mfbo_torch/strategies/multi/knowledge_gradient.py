"""The multi-fidelity knowledge gradient, by BoTorch."""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, PosteriorMean, qMultiFidelityKnowledgeGradient
from botorch.acquisition.cost_aware import InverseCostWeightedUtility
from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction
from botorch.models.model import Model
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from mfbo_torch.acquisition.optimize import optimize_acqf
from mfbo_torch.strategies.multi.botorch_base import FidelityGP
from mfbo_torch.utils.validation import whole


class MFKnowledgeGradient(FidelityGP):
    """The expected rise of ``max μ^(M)`` per unit of cost, in one shot [Wu2019mfkg]_.

    Args:
        num_fantasies: Imagined observations a candidate; more are exacter and slower.
        **settings: Those of :class:`~mfbo_torch.strategies.multi.botorch_base.FidelityGP`.

    Raises:
        SettingError: ``num_fantasies`` below 1.
    """

    def __init__(self, *, num_fantasies: int = 16, **settings: Any) -> None:
        super().__init__(**settings)
        self.num_fantasies = whole("num_fantasies", num_fantasies)

    @property
    def options(self) -> dict[str, int]:
        """Options of the search, also of the one for the maximum of the mean that starts it."""
        inner = {"num_inner_restarts": self.num_restarts, "raw_inner_samples": 2 * self.raw_samples}
        return {**super().options, **inner}

    def acquisition(
        self, model: Model, utility: InverseCostWeightedUtility, X_pending: Tensor | None, seed: int
    ) -> AcquisitionFunction:
        dim = self.space.dim
        at_target = FixedFeatureAcquisitionFunction(PosteriorMean(model), dim + 1, [dim], [1.0])
        _, current = optimize_acqf(
            at_target,
            self.cube,
            1,
            self.num_restarts,
            2 * self.raw_samples,
            options=super().options,
            inequality_constraints=self.inequalities,
        )
        return qMultiFidelityKnowledgeGradient(
            model,
            num_fantasies=self.num_fantasies,
            sampler=SobolQMCNormalSampler(torch.Size([self.num_fantasies]), seed=seed),
            current_value=current,
            cost_aware_utility=utility,
            project=self.project,
            X_pending=X_pending,
        )
