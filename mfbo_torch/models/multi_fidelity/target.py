"""The target of a model of several fidelities, as a model of designs alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mfbo_torch.models.gp.base import SingleOutputModel
from mfbo_torch.models.multi_fidelity.co_kriging import CoKrigingGP
from mfbo_torch.models.multi_fidelity.linked_outputs import LinkedOutputs


class TargetModel(SingleOutputModel):
    """The target of a model with ``mean_variance`` without its fidelity column, for BoTorch's acquisition functions of
    one design. Values are divided by ``unit``, as the tolerances of optimisers are absolute."""

    def __init__(self, model: Any, unit: Tensor) -> None:
        super().__init__()
        self.model, self.unit = model, unit

    def on_arrays(self) -> LinkedOutputs | None:
        """The moments in closed form, with their gradients on arrays; ``None`` where the model has none."""
        found = self.model.on_arrays() if isinstance(self.model, CoKrigingGP) and type(self) is TargetModel else None
        return None if found is None else found.over(self.unit.item())

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moments of the target at ``b x 1 x d`` designs in its unit, without noise."""
        mean, variance = self.model.mean_variance(X)
        mean, variance = mean[..., -1] / self.unit, variance[..., -1] / self.unit.square()
        return mean, variance.unsqueeze(-1), torch.zeros_like(mean)


class TargetMean(TargetModel):
    """The mean of the target as if it were the target itself: its variance is 0."""

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The means at ``b x 1 x d`` designs in their unit, and no variance."""
        mean, variance, noise = super().joint(X)
        return mean, torch.zeros_like(variance), noise
