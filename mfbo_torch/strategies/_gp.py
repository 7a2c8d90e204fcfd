"""What the strategies with a BoTorch model share: scaled targets, sparse refits, conditioning."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import gpytorch
import torch
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.utils.sampling import manual_seed
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor

from mfbo_torch.prior import Prior

EXACT_SIZE = 4096
"""Up to this many observations GPyTorch solves by Cholesky; its iterative solves are approximate."""

LARGE = 1000
"""From so many observations on, hyper-parameters are fitted to so many, and anew only when the data have grown by a
tenth: with new ones a factor is made from scratch, in ``O(n^3)``, with the former ones it is extended in ``O(n^2)``."""

Build = Callable[[Tensor, Tensor], Model]
"""From ``n x d`` inputs and ``n x 1`` standardized targets to an untrained model."""


def standardized(Y: Tensor) -> Tensor:
    """Targets with mean 0 and deviation 1; zeros where they are equal up to rounding.

    BoTorch's ``Standardize`` leaves deviations below 1e-8 alone, which loses targets around 1e-9.
    """
    scale = Y.abs().max()
    if scale == 0:
        return Y
    centred = Y / scale
    centred = centred - centred.mean()
    spread = centred.abs().max()
    if spread < 1e-14:
        return torch.zeros_like(Y)
    centred = centred / spread
    return centred / centred.std() if len(Y) > 1 else centred


def known_gp(prior: Prior, X: Tensor, Y: Tensor) -> Model:
    """A GP with the covariance and noise of a prior, in units of its deviation, and mean 0."""
    noise = prior.noise / prior.outputscale
    constraint = GreaterThan(0.0, transform=None, initial_value=noise)
    with quiet():
        kernel = replace(prior, outputscale=1.0).covar_module(X.shape[-1])
        likelihood = GaussianLikelihood(noise_constraint=constraint)
        return SingleTaskGP(
            X, Y, likelihood=likelihood, covar_module=kernel, mean_module=ZeroMean(), outcome_transform=None
        ).to(X)


def refit_size(n: int, every: int) -> int:
    """On how many of ``n >= 1`` observations the hyper-parameters are fitted.

    The largest number ``<= n`` of the schedule ``1, 2, ...`` that goes by :func:`refit_step`.
    """
    size = 1
    while (following := size + refit_step(size, every)) <= n:
        size = following
    return size


def refit_step(size: int, every: int) -> int:
    """How many observations after ``size`` the hyper-parameters are fitted again.

    A tenth of them, at least 1, and up to :data:`LARGE` of them at most ``every``: each observation counts at
    first, each ``every`` later.
    """
    tenth = max(1, size // 10)
    return min(every, tenth) if size < LARGE else tenth


@contextmanager
def quiet(seed: int = 0) -> Iterator[None]:
    """A reproducible torch random state, restored afterwards, exact solves, and no warnings of the libraries."""
    with warnings.catch_warnings(), manual_seed(seed), gpytorch.settings.max_cholesky_size(EXACT_SIZE):
        warnings.simplefilter("ignore")
        yield


class Surrogate:
    """Builds models whose hyper-parameters follow a sparse schedule.

    The last fit is kept: it depends on nothing but the data it was made of, so forgetting it costs
    time and changes no result.

    Args:
        refit_every: Most observations between two fits, see :func:`refit_size`.
        device: Where the models live.
        dtype: Their precision.
    """

    def __init__(self, refit_every: int, device: torch.device, dtype: torch.dtype) -> None:
        self.refit_every, self.device, self.dtype = refit_every, device, dtype
        self._last: tuple[Any, dict[str, Tensor]] | None = None

    def to(self, X: Tensor) -> Tensor:
        """A tensor on the models' device in their precision."""
        return X.to(self.device, self.dtype)

    def model(self, build: Build, X: Tensor, Y: Tensor, X_believed: Tensor | None = None) -> Model:
        """A model of all the data, with hyper-parameters fitted to the first part of it.

        The targets are standardized over the part that is used in each case, so the
        hyper-parameters are relative to the spread of the data.

        Args:
            build: Makes a model.
            X: ``n x d`` inputs.
            Y: ``n x 1`` targets.
            X_believed: ``p x d`` pending inputs. The model is conditioned on its own posterior mean
                there (the "kriging believer"): the deviation falls and the mean stays.

        Returns:
            The model, in evaluation mode, with standardized targets.
        """
        X = self.to(X)
        state = self._state(build, X, Y)
        return self._believing(lambda X, Y: self._with(build, state, X, Y), X, self.to(standardized(Y)), X_believed)

    def known(self, prior: Prior, X: Tensor, Y: Tensor, X_believed: Tensor | None = None) -> Model:
        """A model of all the data whose hyper-parameters are known; its unit is the prior deviation.

        Args:
            prior: Mean, covariance and noise.
            X: ``n x d`` inputs.
            Y: ``n x 1`` targets in the units of the prior.
            X_believed: As for :meth:`model`.
        """
        Y = (Y - prior.mean) / math.sqrt(prior.outputscale)
        return self._believing(lambda X, Y: known_gp(prior, X, Y).eval(), self.to(X), self.to(Y), X_believed)

    def _believing(self, make: Build, X: Tensor, Y: Tensor, X_believed: Tensor | None) -> Model:
        model = make(X, Y)
        if X_believed is not None and len(X_believed):
            X_believed = self.to(X_believed)
            with torch.no_grad(), quiet():
                believed = model.posterior(X_believed).mean
            model = make(torch.cat([X, X_believed]), torch.cat([Y, believed]))
        return model

    def predict(self, build: Build, X: Tensor, Y: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of the noise-free value at ``n x d`` inputs, ``n`` each, in the units of ``Y``."""
        model = self.model(build, X, Y)
        with torch.no_grad(), quiet():
            posterior = model.posterior(self.to(at))
            mean, deviation = posterior.mean.squeeze(-1).to(Y), posterior.variance.sqrt().squeeze(-1).to(Y)
        varies = bool(standardized(Y).any()) and len(Y) > 1
        scale = Y.std() if varies else Y.abs().max()  # of constants the size says most
        scale = scale if scale > 0 else Y.new_ones(())
        return Y.mean() + scale * mean, scale * deviation

    def _state(self, build: Build, X: Tensor, Y: Tensor) -> dict[str, Tensor]:
        size = refit_size(len(Y), self.refit_every)
        key = (build, X[:size].cpu().numpy().tobytes(), Y[:size].numpy().tobytes())
        last = self._last
        if last is None or last[0] != key:
            some = torch.linspace(0, size - 1, min(size, LARGE)).round().long()
            last = self._last = (key, self._fit(build, X[some], self.to(standardized(Y[some]))))
        return last[1]

    @staticmethod
    def _fit(build: Build, X: Tensor, Y: Tensor) -> dict[str, Tensor]:
        with quiet():
            model = build(X, Y)
            try:
                mll = ExactMarginalLogLikelihood(model.likelihood, model)
                fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 100}})
            except (ModelFittingError, NanError, NotPSDError):
                model = build(X, Y)  # the priors' modes are better than no decision
        return {name: value.detach().clone() for name, value in model.state_dict().items()}

    @staticmethod
    def _with(build: Build, state: dict[str, Tensor], X: Tensor, Y: Tensor) -> Model:
        with quiet():
            model = build(X, Y)
        model.load_state_dict(state)
        return model.eval()
