"""An output that is no guess: a function that is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mfbo_torch.models.gp.base import SingleOutputModel

STEP = 1e-5
"""Half of the distance of central differences, in the unit cube."""


class KnownOutput(SingleOutputModel):
    """A known function of designs as a model, for BoTorch's acquisition functions: its variance is 0.

    Gradients are central differences, one-sided at the edges of the unit cube.

    Args:
        function: From ``n x D`` designs of the unit cube to ``n`` values.
        unit: Values are divided by it, as the tolerances of optimisers are absolute.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], unit: float | Tensor = 1.0) -> None:
        super().__init__()
        self.function, self.unit = function, unit

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values at ``b x 1 x D`` designs, and no variance."""
        mean = _Differences.apply(X, self.function) / self.unit
        return mean, torch.zeros_like(mean).unsqueeze(-1), torch.zeros_like(mean)


class _Differences(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, X: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        context.save_for_backward(X)
        context.function = function
        return _at(function, X)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (X,) = context.saved_tensors
        steps = STEP * torch.eye(X.shape[-1], dtype=X.dtype, device=X.device)
        right, left = ((X.unsqueeze(-2) + s * steps).clamp(0.0, 1.0) for s in (1, -1))
        width = (right - left).diagonal(dim1=-2, dim2=-1)
        slopes = (_at(context.function, right) - _at(context.function, left)) / width
        return gradients[0].unsqueeze(-1) * slopes, None


def _at(function: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    values = function(X.detach().to("cpu", torch.double).reshape(-1, X.shape[-1]))
    return values.reshape(X.shape[:-1]).to(X)
