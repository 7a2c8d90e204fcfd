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

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """The covariances of ``... x n x (d + 1)`` and ``... x m x (d + 1)`` points, or their diagonal."""
        levels1, levels2 = x1[..., -1].round(), x2[..., -1].round()
        parts = []
        for j, kernel in enumerate(self.kernels):
            has1, has2 = (levels1 >= j).to(x1), (levels2 >= j).to(x2)
            both = has1 * has2 if diag else has1.unsqueeze(-1) * has2.unsqueeze(-2)
            parts.append(both * kernel.forward(x1[..., :-1], x2[..., :-1], diag=diag, **params))
        return sum(parts[1:], parts[0])
