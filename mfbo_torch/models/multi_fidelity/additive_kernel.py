r"""A kernel of fidelities that differ by independent processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from mfbo_torch.models.gp.shared_lengthscales import ard_kernel


class AdditiveFidelityKernel(Kernel):
    """Covariance of ``f^(m) = f^(m-1) + δ^(m)`` with independent ``δ`` [Huang2006mfsko]_.

    ``k((x, l), (x', l')) = Σ_{j <= min(l, l')} s_j k_j(x, x')``, with one RBF kernel ``k_j`` over ``dim`` parameters
    and one scale ``s_j`` a fidelity. The last input column is the fidelity ``0 ... M - 1``. Parameters share
    lengthscales by ``groups`` as in :func:`~mfbo_torch.models.gp.shared_lengthscales.ard_kernel`.
    """

    def __init__(self, dim: int, num_fidelities: int, groups: Sequence[int] | None = None) -> None:
        super().__init__()
        kernels = [
            ScaleKernel(
                ard_kernel(dim, groups),
                outputscale_prior=LogNormalPrior(-1.0, 1.5),
                outputscale_constraint=GreaterThan(1e-8),  # the prior has no density at 0
            )
            for _ in range(num_fidelities)
        ]
        for j, kernel in enumerate(kernels):
            kernel.outputscale = 1.0 if j == 0 else 0.1
        self.kernels = torch.nn.ModuleList(kernels)

    def parts(self) -> tuple[Tensor, Tensor]:
        """The lengthscales ``M x dim`` and the scales ``M``."""
        kernels: Sequence[Any] = [*self.kernels]
        lengthscales = torch.cat([kernel.base_kernel.lengthscale for kernel in kernels])
        return lengthscales, torch.stack([kernel.outputscale for kernel in kernels])

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """The covariances of ``... x n x (d + 1)`` and ``... x m x (d + 1)`` points, or their diagonal."""
        if diag:
            return additive_covariance(x1.unsqueeze(-2), x2.unsqueeze(-2), *self.parts()).squeeze((-1, -2))
        return additive_covariance(x1, x2, *self.parts())


def additive_covariance(X: Tensor, Z: Tensor, lengthscales: Tensor, scales: Tensor) -> Tensor:
    """The covariances ``... x n x m`` of an :class:`AdditiveFidelityKernel` with these :meth:`parts` at
    ``... x n x (d + 1)`` and ``... x m x (d + 1)`` points."""
    first = torch.arange(len(scales)).to(X).unsqueeze(-1) - 0.5
    scaled, levels = [], []
    for points in (X, Z):
        points = points.unsqueeze(-3)
        scaled.append(points[..., :-1] / lengthscales.unsqueeze(-2))
        levels.append((points[..., -1] > first).to(X))
    weights = (scales.unsqueeze(-1) * levels[0]).unsqueeze(-1) * levels[1].unsqueeze(-2)
    own = [points.square().sum(-1) for points in scaled]
    square = own[0].unsqueeze(-1) + own[1].unsqueeze(-2) - 2 * scaled[0] @ scaled[1].mT
    return (weights * (-0.5 * square.clamp_min(0.0)).exp()).sum(-3)
