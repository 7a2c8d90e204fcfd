"""A constant mean in the units of the data, and priors that can be pickled."""

from __future__ import annotations

from functools import partial

import torch
from gpytorch.means import Mean
from gpytorch.module import Module
from gpytorch.priors import NormalPrior
from gpytorch.priors.prior import Prior
from torch import Tensor


class ScaledConstantMean(Mean):
    """The mean :math:`c = s_0 + s_1 r`, with a standard normal prior on the parameter ``r``; ``shift`` and ``scale``
    are :math:`s_0` and :math:`s_1 > 0`, such as mean and deviation of the data."""

    shift: Tensor
    scale: Tensor

    def __init__(self, shift: float, scale: float) -> None:
        super().__init__()
        self.register_buffer("shift", torch.tensor(shift, dtype=torch.double))
        self.register_buffer("scale", torch.tensor(scale, dtype=torch.double))
        self.register_parameter("raw_constant", torch.nn.Parameter(torch.zeros_like(self.shift)))
        give_prior(self, "raw_constant", NormalPrior(0.0, 1.0))

    @property
    def constant(self) -> Tensor:
        """``c``, in the units of the data."""
        return self.shift + self.scale * self.raw_constant

    def forward(self, x: Tensor) -> Tensor:
        return self.constant.expand(x.shape[:-1])


def give_prior(module: Module, parameter: str, prior: Prior) -> None:
    """Register the prior of a parameter with functions that can be pickled, unlike those GPyTorch makes of its name."""
    module.register_prior(f"{parameter}_prior", prior, partial(_value, parameter), partial(_initialize, parameter))


def _value(parameter: str, module: Module) -> Tensor:
    return getattr(module, parameter)


def _initialize(parameter: str, module: Module, value: Tensor) -> None:
    module.initialize(**{parameter: value})
