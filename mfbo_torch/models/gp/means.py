"""A constant mean in the units of the data, whose parameter has none."""

from __future__ import annotations

import torch
from gpytorch.means import Mean
from gpytorch.priors import NormalPrior
from torch import Tensor


class ScaledConstantMean(Mean):
    r"""The mean :math:`c = s_0 + s_1 r`, with a standard normal prior on the parameter ``r``.

    Args:
        shift: :math:`s_0`, such as the mean of the data.
        scale: :math:`s_1 > 0`, such as their standard deviation.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, shift: float, scale: float) -> None:
        super().__init__()
        self.register_buffer("shift", torch.tensor(shift, dtype=torch.double))
        self.register_buffer("scale", torch.tensor(scale, dtype=torch.double))
        self.register_parameter("raw_constant", torch.nn.Parameter(torch.zeros_like(self.shift)))
        self.register_prior("raw_constant_prior", NormalPrior(0.0, 1.0), _raw, _set_raw)

    @property
    def constant(self) -> Tensor:
        """``c``, in the units of the data."""
        return self.shift + self.scale * self.raw_constant

    def forward(self, x: Tensor) -> Tensor:
        return self.constant.expand(x.shape[:-1])


# Functions with a name, as the ones that ``register_prior`` makes of a string cannot be pickled.
def _raw(mean: ScaledConstantMean) -> Tensor:
    return mean.raw_constant


def _set_raw(mean: ScaledConstantMean, value: Tensor) -> None:
    mean.initialize(raw_constant=value)
