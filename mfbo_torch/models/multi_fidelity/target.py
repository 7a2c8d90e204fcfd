"""The target of a model of several fidelities, as a model of designs alone."""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.posteriors import Posterior
from torch import Tensor

from mfbo_torch.models.gp.normal import joint_posterior


class TargetModel(Model):
    """What BoTorch's acquisition functions of one point need to know of a target.

    Args:
        model: One with ``mean_variance``, such as :class:`~mfbo_torch.models.PerFidelityGP`.
        unit: What values are divided by, as the tolerances of optimisers are absolute.
    """

    def __init__(self, model: Any, unit: Tensor) -> None:
        super().__init__()
        self.model, self.unit = model, unit

    @property
    def num_outputs(self) -> int:
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        return torch.Size([])

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """Posterior of the target at ``b x 1 x d`` designs, in its unit."""
        mean, variance = self.model.mean_variance(X)
        variance = (variance[..., -1] / self.unit.square()).unsqueeze(-1)
        return joint_posterior(mean[..., -1] / self.unit, variance, posterior_transform)
