"""An acquisition of designs and a continuous fidelity, as one of designs alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from mfbo_torch.acquisition.fused import Fused, fused
from mfbo_torch.ops.posterior.fused import Moments, Outputs
from mfbo_torch.ops.prepared import Array


@dataclass(frozen=True)
class _Slice(Outputs):
    """Outputs where the last column of the points is one number.

    Args:
        value: That number.
    """

    value: float = 1.0

    @cached_property
    def dim(self) -> int:
        return len(self.processes[0].center) - 1

    def moments(self, X: Array, gradient: bool = False) -> tuple[Array, Array, list[Moments]]:
        return super().moments(np.column_stack([X, np.full(len(X), self.value)]), gradient)

    def gradient(self, found: list[Moments], by_mean: Array | float, by_variance: Array) -> Array:
        return np.ascontiguousarray(super().gradient(found, by_mean, by_variance)[:, :-1])


class AtFidelity(AcquisitionFunction):
    """Another acquisition with the last column of its points, the fidelity, held.

    Args:
        acquisition: Of ``b x 1 x (d + 1)`` points.
        value: The fidelity.
    """

    def __init__(self, acquisition: AcquisitionFunction, value: float) -> None:
        super().__init__(acquisition.model)
        self.acquisition, self.value = acquisition, float(value)

    def fused(self) -> Fused | None:
        """As that of the other one."""
        inner = fused(self.acquisition)
        if inner is None:
            return None
        of = inner.outputs
        return Fused(_Slice(of.processes, of.weights, of.offsets, self.value), inner.head)

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """Values ``b`` of ``b x 1 x d`` designs."""
        return self.acquisition(torch.cat([X, torch.full_like(X[..., :1], self.value)], dim=-1))
