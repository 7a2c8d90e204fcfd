"""The normal distribution of a posterior."""

from __future__ import annotations

from gpytorch.distributions import MultivariateNormal
from torch import Tensor


class Normal(MultivariateNormal):
    """A normal distribution in the units of the targets: no floor of 1e-10 under its variances."""

    @property
    def variance(self) -> Tensor:
        return self.lazy_covariance_matrix.diagonal(dim1=-1, dim2=-2).clamp_min(0.0).expand(self.mean.shape)
