"""A Gaussian process that is given before any observation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from gpytorch.kernels import Kernel, LinearKernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, one_of, several

SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
"""Smoothness ``ν`` of the Matérn kernels, by name."""
KERNELS = ("rbf", *SMOOTHNESS, "linear")


@dataclass(frozen=True)
class Prior:
    r"""Mean, covariance and noise of a process on the unit cube.

    Args:
        kernel: ``"rbf"``, ``"matern12"``, ``"matern32"``, ``"matern52"``, or ``"linear"`` for
            :math:`\sum_i x_i x_i' / \ell_i^2`.
        lengthscale: One number, or one for each parameter, as shares of the parameters' ranges.
        outputscale: Prior variance, in the squared units of the values.
        noise: Variance of the observation noise, in the same units.
        mean: Prior mean, in the units of the values.

    Raises:
        SettingError: An unknown kernel, or a number that is not finite or not positive (``mean`` may be anything).
    """

    kernel: str = "matern52"
    lengthscale: float | Sequence[float] = 0.2
    outputscale: float = 1.0
    noise: float = 1e-4
    mean: float = 0.0

    def __post_init__(self) -> None:
        one_of("prior.kernel", self.kernel, KERNELS)
        positive, wanted = partial(number, above=0), "positive numbers, one or one a parameter"
        given: float | tuple[float, ...]
        if isinstance(self.lengthscale, Iterable):
            given = several("prior.lengthscale", self.lengthscale, positive, wanted)
        else:
            given = positive("prior.lengthscale", self.lengthscale, wanted=wanted)
        object.__setattr__(self, "lengthscale", given)
        for name in ("outputscale", "noise"):
            object.__setattr__(self, name, positive(f"prior.{name}", getattr(self, name)))
        object.__setattr__(self, "mean", number("prior.mean", self.mean))

    @property
    def lengthscales(self) -> tuple[float, ...]:
        """One or ``d`` lengthscales."""
        return self.lengthscale if isinstance(self.lengthscale, tuple) else (float(self.lengthscale),)  # type: ignore

    def covar_module(self, dim: int) -> Kernel:
        """The covariance on ``d`` inputs, in double precision; ``SettingError`` if the lengthscales do not fit."""
        if len(self.lengthscales) not in (1, dim):
            raise SettingError("prior.lengthscale", list(self.lengthscales), f"one number, or {dim}")
        lengthscale = torch.tensor(self.lengthscales, dtype=torch.double).expand(1, dim)
        nu, base = SMOOTHNESS.get(self.kernel), LinearKernel(ard_num_dims=dim)
        if self.kernel != "linear":
            base = RBFKernel(ard_num_dims=dim) if nu is None else MaternKernel(nu, ard_num_dims=dim)
        kernel = ScaleKernel(base).double()
        if self.kernel == "linear":
            base.variance = lengthscale.pow(-2).unsqueeze(-2)
        else:
            base.lengthscale = lengthscale
        kernel.outputscale = torch.tensor(self.outputscale, dtype=torch.double)
        return kernel

    def covariance(self, A: Tensor, B: Tensor) -> Tensor:
        """Prior covariance ``m x n`` between ``m x d`` and ``n x d`` points of the unit cube."""
        with torch.no_grad():
            return self.covar_module(A.shape[-1])(A, B).to_dense()
