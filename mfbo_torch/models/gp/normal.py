"""The normal distribution of a posterior."""

from __future__ import annotations

from collections.abc import Callable

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.posteriors import GPyTorchPosterior, Posterior
from gpytorch.distributions import MultivariateNormal
from linear_operator import to_linear_operator
from torch import Tensor


class Normal(MultivariateNormal):
    """A normal distribution in the units of the targets: no floor of 1e-10 under its variances."""

    @property
    def variance(self) -> Tensor:
        return self.lazy_covariance_matrix.diagonal(dim1=-1, dim2=-2).clamp_min(0.0).expand(self.mean.shape)


def joint_posterior(
    mean: Tensor,
    covariance: Tensor,
    transform: PosteriorTransform | None,
    observation_noise: bool | Tensor = False,
    noise: Callable[[], Tensor] | None = None,
) -> Posterior:
    """The posterior of ``q`` values.

    Args:
        mean: ``... x q``.
        covariance: ``... x q x q``, without noise.
        transform: Applied to the posterior, if there is one.
        observation_noise: Whether to add the noise, or ``... x q x 1`` variances to add.
        noise: Gives the noise variances, which broadcast against ``mean``.
    """
    if isinstance(observation_noise, Tensor):
        covariance = covariance + torch.diag_embed(observation_noise.squeeze(-1).expand_as(mean))
    elif observation_noise and noise is not None:
        covariance = covariance + torch.diag_embed(noise().expand_as(mean))
    # lazy: a dense one would be factored at once and fail where points repeat
    posterior = GPyTorchPosterior(Normal(mean, to_linear_operator(covariance)))
    return posterior if transform is None else transform(posterior)
