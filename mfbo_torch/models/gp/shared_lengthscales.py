r"""Lengthscales that several inputs share.

References:

.. [Hvarfner2024vanilla]
    C. Hvarfner, E. O. Hellsten, L. Nardi. Vanilla Bayesian Optimization Performs Great in High Dimensions. ICML 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from torch import Tensor


class Shared(Kernel):
    """A kernel whose inputs share lengthscales: ``groups`` has for each input the number of its lengthscale, from 0;
    the ``settings`` are those of the kernel for as many inputs as there are lengthscales."""

    def __init__(self, groups: Sequence[int], **settings: Any) -> None:
        super().__init__(ard_num_dims=max(groups) + 1, **settings)
        self.groups, self.ard_num_dims = list(groups), len(groups)

    @property
    def own(self) -> Tensor:
        """The lengthscales, one a group."""
        return self.raw_lengthscale_constraint.transform(self.raw_lengthscale)

    @property
    def lengthscale(self) -> Tensor:
        """The lengthscales, one an input."""
        return self.own[..., self.groups]

    def _lengthscale_param(self, m: Kernel) -> Tensor:
        """The argument of the prior: each lengthscale once."""
        return m.own if isinstance(m, Shared) else m.lengthscale


class SharedRBF(Shared, RBFKernel):
    """RBF, by the distance."""


class SharedMatern(Shared, MaternKernel):
    """Matérn-5/2, by the distance."""


def ard_kernel(dim: int, groups: Sequence[int] | None = None, smooth: bool = True) -> Kernel:
    """BoTorch's RBF kernel on the unit cube, a lengthscale for each input [Hvarfner2024vanilla]_; Matérn-5/2 if not
    ``smooth``. ``groups`` has for each input the number of its lengthscale, where some share one: the columns of a
    choice, whose kernel is then that of the Hamming distance. The prior is that of as many inputs as there are
    lengthscales."""
    if groups is None:
        return get_covar_module_with_dim_scaled_prior(dim, use_rbf_kernel=smooth)
    usual = get_covar_module_with_dim_scaled_prior(max(groups) + 1)
    return (SharedRBF if smooth else SharedMatern)(
        groups, lengthscale_prior=usual.lengthscale_prior, lengthscale_constraint=usual.raw_lengthscale_constraint
    )
