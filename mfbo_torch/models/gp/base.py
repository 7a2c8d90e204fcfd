"""Models of one output whose posteriors are normal."""

from __future__ import annotations

from abc import abstractmethod

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior, Posterior
from gpytorch.distributions import MultivariateNormal
from linear_operator import to_linear_operator
from torch import Tensor


class Normal(MultivariateNormal):
    """A normal distribution in the units of the targets: no floor of 1e-10 under its variances."""

    @property
    def variance(self) -> Tensor:
        return self.lazy_covariance_matrix.diagonal(dim1=-1, dim2=-2).clamp_min(0.0).expand(self.mean.shape)


def joint_posterior(mean: Tensor, covariance: Tensor, transform: PosteriorTransform | None) -> Posterior:
    """The posterior with mean ``... x q`` and covariance ``... x q x q``, transformed if there is a transform."""
    # lazy: a dense one would be factored at once and fail where points repeat
    posterior = GPyTorchPosterior(Normal(mean, to_linear_operator(covariance)))
    return posterior if transform is None else transform(posterior)


class SingleOutputModel(Model):
    """A model of one output with a normal posterior, which a subclass gives as :meth:`joint` moments."""

    @property
    def num_outputs(self) -> int:
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        return torch.Size()

    @abstractmethod
    def joint(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Posterior mean ``... x q``, covariance ``... x q x q`` and noise variances, which broadcast against the
        mean, at ``... x q x d`` points."""

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """Joint posterior at ``b x q x d`` points; of several fidelities, in any mix, where the last column is one.

        ``observation_noise`` adds the model's noise variances (the mean one, where they are known) or is ``b x q x 1``
        variances to add; ``output_indices`` is not used, as there is one output.
        """
        if self.training:
            self.eval()
        mean, covariance, noise = self.joint(X)
        if isinstance(observation_noise, Tensor):
            covariance = covariance + torch.diag_embed(observation_noise.squeeze(-1).expand_as(mean))
        elif observation_noise:
            covariance = covariance + torch.diag_embed(noise.expand_as(mean))
        return joint_posterior(mean, covariance, posterior_transform)
