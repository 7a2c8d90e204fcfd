"""One Gaussian process of observations in the unit cube, fitted to them or known beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ZeroMean
from torch import Tensor

from mfbo_torch.confidence.prior import Prior
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.models.gp.shared_lengthscales import ard_kernel
from mfbo_torch.models.multi_fidelity.level import NOISE_FLOOR, little_noise
from mfbo_torch.models.multi_fidelity.per_fidelity import PerFidelityGP
from mfbo_torch.strategies.common.fit_schedule import Build, Surrogate, predicted, quiet, standardized
from mfbo_torch.utils.memo import Memo
from mfbo_torch.utils.standardize import shift_scale

Groups = tuple[int, ...] | None


def single_task_gp(X: Tensor, Y: Tensor, Yvar: Tensor | None = None, groups: Groups = None) -> Model:
    """BoTorch's default model on the unit cube, for targets that are standardized already, with little noise."""
    return _gp(X, Y, Yvar, groups, little_noise() if Yvar is None else None)


def rough_gp(X: Tensor, Y: Tensor, Yvar: Tensor | None = None, groups: Groups = None) -> Model:
    """The same with a Matérn-5/2 kernel, which bends and cliffs surprise less."""
    return _gp(X, Y, Yvar, groups, little_noise() if Yvar is None else None, smooth=False)


def outcome_gp(X: Tensor, Y: Tensor, Yvar: Tensor | None = None, groups: Groups = None) -> Model:
    """:func:`single_task_gp` with BoTorch's noise: a limit needs no last digits, a model too sure of it keeps away."""
    return _gp(X, Y, Yvar, groups, None)


def _gp(
    X: Tensor,
    Y: Tensor,
    Yvar: Tensor | None,
    groups: Groups,
    likelihood: GaussianLikelihood | None,
    smooth: bool = True,
) -> Model:
    kernel = ard_kernel(X.shape[-1], groups, smooth)
    return SingleTaskGP(X, Y, Yvar, likelihood=likelihood, covar_module=kernel, outcome_transform=None)


@dataclass(frozen=True)
class Grouped:
    """A build for columns some of which share a lengthscale; two of the same are equal."""

    build: Callable[..., Model]
    groups: tuple[int, ...]

    def __call__(self, X: Tensor, Y: Tensor, Yvar: Tensor | None = None) -> Model:
        return self.build(X, Y, Yvar, self.groups)


def known_gp(prior: Prior, X: Tensor, Y: Tensor, Yvar: Tensor | None = None) -> Model:
    """A GP with the covariance of a prior, in units of its deviation, and mean 0; with its noise where not given."""
    noise = prior.noise / prior.outputscale
    constraint = GreaterThan(0.0, transform=None, initial_value=noise)
    with quiet():
        kernel = replace(prior, outputscale=1.0).covar_module(X.shape[-1])
        likelihood = GaussianLikelihood(noise_constraint=constraint) if Yvar is None else None
        return SingleTaskGP(
            X, Y, Yvar, likelihood=likelihood, covar_module=kernel, mean_module=ZeroMean(), outcome_transform=None
        ).to(X)


def known_fidelities(
    prior: Prior, X: Tensor, Y: Tensor, num_fidelities: int, Yvar: Tensor | None = None
) -> PerFidelityGP:
    """Separate processes of one prior, a fidelity each, of ``n x (d + 1)`` points, the last column the fidelity."""
    kernels = [replace(prior, outputscale=1.0).covar_module(X.shape[-1] - 1).to(X) for _ in range(num_fidelities)]
    model = PerFidelityGP(X, Y, num_fidelities, Yvar, link="independent", covar_modules=kernels)
    model.shift, model.scale = (
        torch.full_like(model.shift, prior.mean),
        torch.full_like(model.scale, prior.outputscale**0.5),
    )
    for level in model._levels:
        level.likelihood.noise = max(prior.noise / prior.outputscale, NOISE_FLOOR)
    return model.eval()


class UnitCubeGP:
    """A GP of designs in the unit cube, in units of its own.

    Args:
        surrogate: Fits it.
        prior: Its hyper-parameters, where they are known; nothing is fitted then.
        build: Makes the model that is fitted otherwise.
        groups: Which columns share a lengthscale, see :func:`~mfbo_torch.models.gp.shared_lengthscales.ard_kernel`.
    """

    def __init__(
        self,
        surrogate: Surrogate,
        prior: Prior | None = None,
        build: Callable[..., Model] = single_task_gp,
        groups: Groups = None,
    ) -> None:
        self.surrogate, self.prior, self.groups = surrogate, prior, groups
        self.build: Build = build if groups is None else Grouped(build, groups)
        if prior is not None and groups is not None and len(prior.lengthscales) == max(groups) + 1:
            self.prior = replace(prior, lengthscale=[prior.lengthscales[i] for i in groups])
        self._model: Memo[CachedGP] = Memo()

    def model(self, X: Tensor, Y: Tensor, Yvar: Tensor | None = None) -> CachedGP:
        """The model of ``n x d`` designs with ``n x 1`` values, and the variances of their noise where known; the last
        one is kept for the rest of a batch."""
        key = (X.tolist(), Y.tolist(), None if Yvar is None else Yvar.tolist())
        return self._model(key, lambda: CachedGP(self._made(X, Y, Yvar)))

    def _made(self, X: Tensor, Y: Tensor, Yvar: Tensor | None) -> Model:
        to = self.surrogate.to
        if self.prior is None:
            return self.surrogate.model(self.build, X, Y, Yvar)
        shift, scale = self.units(Y)
        noise = None if Yvar is None else to(Yvar / scale**2)
        return known_gp(self.prior, to(X), to((Y - shift) / scale), noise).eval()

    def posterior(self, X: Tensor, Y: Tensor, Yvar: Tensor | None, X_pending: Tensor) -> tuple[CachedGP, Tensor]:
        """The model, and which of ``p x d`` pending designs it has to be conditioned on.

        Where the prior alone is known, the first of these stands in for the data, at the prior's mean.
        """
        if len(X) or self.prior is None:
            return self.model(X, Y, Yvar), self.surrogate.to(X_pending)
        first = X_pending[:1]
        return self.model(first, torch.full_like(first[:, :1], self.prior.mean)), self.surrogate.to(X_pending[1:])

    def best(self, Y: Tensor, among: list[int] | None = None) -> float:
        """The largest value in the units of the model, 0 where there is none; of some of them, if given."""
        if not len(Y):
            return 0.0
        chosen = slice(None) if among is None else among
        if self.prior is None:
            return standardized(Y)[chosen].max().item()
        shift, scale = self.units(Y)
        return (Y[chosen].max().item() - shift) / scale

    def predict(
        self, X: Tensor, Y: Tensor, Yvar: Tensor | None, at: Tensor, observed: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Mean and deviation at ``n x d`` designs, ``n`` each, in the units of ``Y``; with noise if ``observed``."""
        return predicted(self.model(X, Y, Yvar), self.surrogate.to(at), *self.units(Y), observed)

    def noise(self, X: Tensor, Y: Tensor, Yvar: Tensor | None) -> float:
        """The standard deviation of the noise in the values: known, on the average, or inferred."""
        if Yvar is not None:
            return math.sqrt(Yvar.mean().item())
        if self.prior is not None:
            return math.sqrt(self.prior.noise)
        likelihood: GaussianLikelihood = self.model(X, Y).likelihood
        return self.units(Y)[1] * math.sqrt(likelihood.noise.item())

    def units(self, Y: Tensor) -> tuple[float, float]:
        """What the model's zero and one are in the units of the values."""
        if self.prior is None:
            return shift_scale(Y)  # of constants the size says most
        return self.prior.mean, math.sqrt(self.prior.outputscale)
