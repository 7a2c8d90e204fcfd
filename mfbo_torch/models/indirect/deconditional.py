r"""A Gaussian process on inputs, learned from averages of it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import gpytorch
import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.posteriors import Posterior
from gpytorch.constraints import GreaterThan
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import Mean
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.models import GP
from gpytorch.priors import LogNormalPrior
from linear_operator import to_linear_operator
from torch import Tensor

from mfbo_torch.models.gp.base import joint_posterior
from mfbo_torch.models.gp.conditioned import ConditionedModel
from mfbo_torch.models.gp.likelihood import maximize
from mfbo_torch.models.gp.means import ScaledConstantMean
from mfbo_torch.models.indirect.conditionals import Conditional
from mfbo_torch.models.indirect.conditionals.base import Embedding, Features, check_queries
from mfbo_torch.models.input_checks import check_observations, check_points
from mfbo_torch.ops.factor import Factor, factorize, hallucinated, observed
from mfbo_torch.ops.kernels import gram
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.standardize import shift_scale

EXACT_SIZE = 4096
"""Largest number of queries for which GPyTorch solves by Cholesky; its iterative solves are approximate."""
LEAST_NOISE = 1e-8
"""Smallest noise variance in a fit, relative to the averages' variance."""


@dataclass(frozen=True)
class Solved:
    """The factor of noisy averages, from which the posteriors of ``f`` and ``g`` follow, without a gradient; with the
    ``t`` embedded queries, pending ones last, and, where the conditional has features, these and the queries'
    ``t x r``."""

    embedding: Embedding
    features: Features | None
    known: Tensor | None
    factor: Factor


class DeconditionalGP(ConditionedModel, GP):
    r"""A Gaussian process ``f`` on inputs, and its averages :math:`g(a) = E[f(X) \mid a]` on queries.

    From noisy averages :math:`z_i = g(a_i) + \epsilon_i` and :math:`f \sim GP(m, k)`,

    .. math::
        m_t(x) = m(x) + \Upsilon(x) (Q + S)^{-1} (z - \nu), \quad
        k_t(x, x') = k(x, x') - \Upsilon(x) (Q + S)^{-1} \Upsilon(x')^\top

    with :math:`\nu`, ``Q`` and :math:`\Upsilon` the prior mean and covariance of the averages and the
    covariance of ``f`` with them, as the conditional gives them, and ``S`` the noise
    [Chau2021deconditional]_, [Zhang2024indirect]_ (Eqs. 10-12). The posterior of ``g``
    follows from the same factor; further queries extend it. There is one output and no batch.

    The default kernel (RBF with a lengthscale per dimension, scaled), mean (constant) and noise scale with
    the extent of the inputs and the deviation of ``train_Z``, so that nothing needs to be standardised.
    Hyper-parameters assigned by hand in evaluation mode are only seen after ``train()``, as in GPyTorch.

    Args:
        train_A: ``t x p`` queries; ``t`` may be 0.
        train_Z: ``t x 1`` noisy averages.
        conditional: What a query averages over.
        train_Zvar: ``t x 1`` known noise variances. One variance is inferred if omitted.
        covar_module: The kernel ``k`` on inputs, in the units of ``train_Z``.
        mean_module: The mean ``m`` on inputs, in the units of ``train_Z``.

    Raises:
        BotorchTensorDimensionError: Wrong shapes, or queries that the conditional cannot embed.
        InputDataError: NaN or infinity, or a negative variance.
        UnsupportedError: A kernel that the conditional cannot average.
    """

    train_A: Tensor
    train_Z: Tensor
    train_Zvar: Tensor | None

    def __init__(
        self,
        train_A: Tensor,
        train_Z: Tensor,
        conditional: Conditional,
        train_Zvar: Tensor | None = None,
        *,
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(conditional, Conditional):
            raise SettingError("conditional", type(conditional).__name__, "third: what a query averages over")
        if train_A.dim() != 2:
            raise BotorchTensorDimensionError(f"train_A of shape {tuple(train_A.shape)}: must be t x p")
        check_queries(train_A)
        check_observations(train_Z, train_Zvar, train_A, ("train_Z", "train_Zvar", "train_A"), "t")
        self.register_buffer("train_A", train_A.detach())
        self.register_buffer("train_Z", train_Z.detach())
        self.register_buffer("train_Zvar", None if train_Zvar is None else train_Zvar.detach())
        self.conditional = conditional if _alike(conditional, train_A) else copy.deepcopy(conditional).to(train_A)
        self._caught: Embedding | None = None
        self._solution: Solved | None = None
        shift, scale = shift_scale(train_Z)
        self.covar_module = default_kernel(conditional.extent(train_A), scale) if covar_module is None else covar_module
        self.mean_module = ScaledConstantMean(shift, scale) if mean_module is None else mean_module
        known = self.train_Zvar
        self.likelihood = default_likelihood(scale) if known is None else known_likelihood(known, scale)
        for module in (self.covar_module, self.mean_module, self.likelihood):
            module.to(train_A)

    @property
    def train_targets(self) -> Tensor:
        return self.train_Z.squeeze(-1)

    @property
    def train_inputs(self) -> tuple[Tensor]:
        return (self.train_A,)

    @property
    def noise(self) -> Tensor:
        """The noise variance of one more average (the mean one, where they are known)."""
        if self.train_Zvar is None:
            return self.likelihood.noise.detach().reshape(())
        return self.train_Zvar.mean() if len(self.train_Zvar) else self.train_Z.new_zeros(())

    @property
    def _embedding(self) -> Embedding:
        """The queries of the data, embedded once."""
        if self._caught is None:
            with torch.no_grad():
                self._caught = self.conditional.embed(self.train_A)
        return self._caught

    def forward(self, A: Tensor) -> MultivariateNormal:
        """The prior of ``g`` at ``... x m x p`` queries, differentiable in the hyper-parameters."""
        embedding = self._embedding if A is self.train_A else self.conditional.embed(A)
        covariance = embedding.covariance(self.covar_module, embedding)
        return MultivariateNormal(embedding.mean(self.mean_module), to_linear_operator(covariance))

    def fit(self, **kwargs: Any) -> Self:
        """Fit kernel, mean and noise by marginal likelihood, priors included; ``kwargs`` go to
        ``botorch.fit.fit_gpytorch_mll``."""
        if len(self.train_A) == 0:
            return self.eval()
        mll = ExactMarginalLogLikelihood(self.likelihood, self)
        with gpytorch.settings.max_cholesky_size(EXACT_SIZE):
            maximize(mll, **kwargs)
        return self.eval()

    @property
    def _solved(self) -> Solved:
        return self._with_pending(self._free())

    def _free(self) -> Solved:
        if self._solution is None:
            with torch.no_grad():
                self._solution = self._solve()
        return self._solution

    def _solve(self) -> Solved:
        embedding = self._embedding
        features = self.conditional.features(self.covar_module, self.mean_module)
        known, prior = None, embedding.mean(self.mean_module)
        if features is None:
            covariance = embedding.covariance(self.covar_module, embedding)
        else:
            _, known = features(self.train_A)
            covariance = known @ known.mT
        noise = self.noise.expand(len(prior)) if self.train_Zvar is None else self.train_Zvar.squeeze(-1)
        factor = factorize(covariance + torch.diag(noise), self.train_targets - prior)
        return Solved(embedding, features, known, factor)

    def _checked_pending(self, X: Tensor) -> Tensor:
        return check_points("X_pending", X, self.train_A.shape[-1])

    def _extended(self, factor: Solved, X: Tensor) -> Solved:
        with torch.no_grad():
            embedding, known, cross, corner, _ = self._further(factor, X.to(self.train_A))
            return Solved(embedding, factor.features, known, hallucinated(factor.factor, cross, corner))

    def _further(
        self, solved: Solved, A: Tensor, noise: Tensor | None = None
    ) -> tuple[Embedding, Tensor | None, Tensor, Tensor, Tensor]:
        """Further queries: all embedded, all features, and their noisy covariances and prior means."""
        new = self.conditional.embed(A)
        noise = self.noise.expand(len(A)) if noise is None else noise
        if solved.features is None or solved.known is None:
            cross = new.covariance(self.covar_module, solved.embedding)
            corner, known = new.covariance(self.covar_module, new), None
            prior = new.mean(self.mean_module)
        else:
            prior, own = solved.features(A)
            cross, corner, known = own @ solved.known.mT, own @ own.mT, torch.cat([solved.known, own])
        return solved.embedding.joined(new), known, cross, corner + torch.diag(noise), prior

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **kwargs: Any) -> Self:
        """This model with ``n x p`` more queries and ``n x 1`` averages and the same hyper-parameters; the factor
        grows, which is quick. ``noise`` is ``n x 1`` known noise variances; by default the mean one, where they are
        known."""
        if X.dim() != 2 or Y.shape != (len(X), 1):
            raise BotorchTensorDimensionError(
                f"X of shape {tuple(X.shape)} and Y of shape {tuple(Y.shape)}: must be n x p and n x 1, without batches"
            )
        if self._pending is not None:
            raise UnsupportedError("condition_on_observations: must be called on the model without pending queries")
        if noise is not None and self.train_Zvar is None:
            raise SettingError("noise", noise, "left out where a model was given no train_Zvar: it infers its noise")
        self.eval()
        clone = self._twin()
        A, Z = X.detach().to(self.train_A), Y.detach().to(self.train_Z)
        variance = self.noise.expand(len(A), 1)
        if self.train_Zvar is not None:
            variance = variance if noise is None else noise.to(self.train_Z)
            clone.train_Zvar = torch.cat([self.train_Zvar, variance])
            clone.likelihood = known_likelihood(clone.train_Zvar, shift_scale(torch.cat([self.train_Z, Z]))[1])
        with torch.no_grad():
            solved = self._solved
            embedding, known, cross, corner, prior = self._further(solved, A, variance.squeeze(-1))
            factor = observed(solved.factor, cross, corner, Z.squeeze(-1) - prior)
        clone.train_A, clone.train_Z = torch.cat([self.train_A, A]), torch.cat([self.train_Z, Z])
        clone._caught, clone._solution = embedding, Solved(embedding, solved.features, known, factor)
        return clone

    def _prior(self, A: Tensor, joint: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Prior covariances with the data, prior means, and prior variances or covariances of ``g``."""
        solved, kernel = self._solved, self.covar_module
        if solved.features is None or solved.known is None:
            new = self.conditional.embed(A)
            own = new.covariance(kernel, new) if joint else new.variance(kernel)
            return new.covariance(kernel, solved.embedding), new.mean(self.mean_module), own
        mean, features = solved.features(A)
        own = features @ features.mT if joint else features.square().sum(-1)
        return features @ solved.known.mT, mean, own

    def mean_variance(self, A: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of ``g`` at single ``... x p`` queries, two ``...`` tensors in the units of
        ``train_Z`` and their square. Differentiable."""
        cross, mean, own = self._prior(A.reshape(-1, A.shape[-1]), joint=False)
        mean, variance = self._solved.factor.mean_variance(cross, mean, own)
        return mean.view(A.shape[:-1]), variance.view(A.shape[:-1])

    def latent_mean_variance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of ``f`` at single ``... x d`` inputs, two ``...`` tensors. Differentiable."""
        solved, flat = self._solved, X.reshape(-1, X.shape[-1])
        cross = solved.embedding.cross(self.covar_module, flat)
        own = self.covar_module(flat, diag=True)
        mean, variance = solved.factor.mean_variance(cross, self.mean_module(flat), own)
        return mean.view(X.shape[:-1]), variance.view(X.shape[:-1])

    def latent_covariances(self, X: Tensor) -> tuple[Tensor, Tensor, Callable[[int], Tensor]]:
        """Posterior of ``f`` at ``n x d`` inputs whose joint covariance is too large: ``n`` means, ``n`` variances, and
        a function from ``j`` to the ``n`` covariances with the ``j``-th input."""
        solved, kernel = self._solved, self.covar_module
        cross = solved.embedding.cross(kernel, X)
        V = solved.factor.whitened(cross)
        variance = (kernel(X, diag=True) - V.square().sum(-1)).clamp_min(0.0)

        def column(j: int) -> Tensor:
            return gram(kernel, X, X[j : j + 1]).squeeze(-1) - V @ V[j]

        return solved.factor.mean(cross, self.mean_module(X)), variance, column

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moments of ``g`` at ``b x q x p`` queries, see :meth:`posterior`."""
        cross, mean, own = self._prior(X, joint=True)
        return *self._solved.factor.mean_covariance(cross, mean, own), self.noise

    def latent_posterior(self, X: Tensor, posterior_transform: PosteriorTransform | None = None) -> Posterior:
        """Joint posterior of ``f`` at ``b x q x d`` inputs, transformed if there is a transform."""
        self.eval()
        solved = self._solved
        cross = solved.embedding.cross(self.covar_module, X)
        own = gram(self.covar_module, X, X)
        mean, covariance = solved.factor.mean_covariance(cross, self.mean_module(X), own)
        return joint_posterior(mean, covariance, posterior_transform)

    @property
    def _anchor(self) -> Tensor:
        return self.train_A

    def _forget(self, moved: bool = False) -> None:
        self._solution = None
        if moved:
            self._caught = None


def default_kernel(extent: Tensor, scale: float) -> Kernel:
    """RBF with a lengthscale prior that scales with extent and dimension, and an output scale near the averages'."""
    extent = torch.where(extent > 0, extent, torch.ones_like(extent))
    d, variance = len(extent), scale**2
    width = torch.full_like(extent, math.sqrt(3))  # a number would be expanded, and a fit that fails not be undone
    prior = LogNormalPrior(math.sqrt(2) + 0.5 * math.log(d) + extent.log(), width)
    above = GreaterThan(1e-3 * extent.min().item(), transform=torch.exp, inv_transform=torch.log)
    base = RBFKernel(ard_num_dims=d, lengthscale_prior=prior, lengthscale_constraint=above)
    base.lengthscale = 0.3 * math.sqrt(d) * extent
    positive = GreaterThan(1e-6 * variance, transform=torch.exp, inv_transform=torch.log)
    outer = LogNormalPrior(math.log(variance), 1.5)
    kernel = ScaleKernel(base, outputscale_prior=outer, outputscale_constraint=positive)
    kernel.outputscale = variance
    return kernel


def known_likelihood(variance: Tensor, scale: float) -> FixedNoiseGaussianLikelihood:
    """The likelihood of ``t x 1`` known noise variances, of at least :data:`LEAST_NOISE` as those inferred: in whatever
    unit, GPyTorch would raise them to 1e-6."""
    with gpytorch.settings.min_fixed_noise(0.0, 0.0, 0.0):
        return FixedNoiseGaussianLikelihood(variance.squeeze(-1).clamp_min(LEAST_NOISE * scale**2))


def default_likelihood(scale: float) -> GaussianLikelihood:
    """A likelihood whose prior noise variance is small against that of the averages."""
    variance = scale**2
    least, usual = LEAST_NOISE * variance, 1e-2 * variance
    above = GreaterThan(least, transform=torch.exp, inv_transform=torch.log, initial_value=usual)
    return GaussianLikelihood(noise_prior=LogNormalPrior(math.log(variance) - 6.0, 3.0), noise_constraint=above)


def _alike(conditional: Conditional, other: Tensor) -> bool:
    """Whether the numbers of a conditional are of the type and on the device of a tensor, so that it can be shared."""
    parts = [*conditional.parameters(), *conditional.buffers()]
    return all(part.device == other.device and part.dtype == other.dtype for part in parts if part.is_floating_point())
