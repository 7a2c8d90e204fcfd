"""Any exact single-output GP of BoTorch, with the posteriors of single points from a cached factor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from botorch.models.transforms.input import InputTransform, Normalize
from botorch.models.transforms.outcome import OutcomeTransform, Standardize
from botorch.posteriors import GPyTorchPosterior, Posterior
from botorch.settings import propagate_grads
from gpytorch import settings
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import ConstantMean, ZeroMean
from gpytorch.models import ExactGP
from torch import Tensor

from mfbo_torch.ops.cache import Cache, factorize
from mfbo_torch.ops.kernels import describe
from mfbo_torch.ops.posterior import mean_variance

CACHED = "q = 1 posteriors come from the cache"


class CachedPosterior(GPyTorchPosterior):
    """Mean and variance at single points; everything else is asked of the wrapped model when needed.

    Args:
        mean: ``b x 1 x 1``.
        variance: ``b x 1 x 1``.
        model: The wrapped model.
        X: ``b x 1 x d``.
    """

    def __init__(self, mean: Tensor, variance: Tensor, model: Model, X: Tensor) -> None:
        self._mean, self._variance, self._model, self._X = mean, variance, model, X
        self._is_mt = False
        self._whole: GPyTorchPosterior | None = None

    @property
    def mean(self) -> Tensor:
        return self._mean

    @property
    def variance(self) -> Tensor:
        return self._variance

    @property
    def device(self) -> torch.device:
        return self._mean.device

    @property
    def dtype(self) -> torch.dtype:
        return self._mean.dtype

    @property
    def distribution(self) -> MultivariateNormal:
        """The wrapped model's own, computed when it is first asked for."""
        if self._whole is None:
            self._whole = self._model.posterior(self._X)
        return self._whole.distribution


class CachedGP(Model):
    """An exact single-output GP whose posteriors at single points (``q = 1``) cost a fraction.

    They come from a factor computed once (:mod:`mfbo_torch.ops.posterior`) and are differentiable in
    ``X`` alone. Whatever the cache cannot answer goes through the wrapped model: ``q > 1``, a posterior
    transform, observation noise, ``botorch.settings.propagate_grads``, and everything where its kernel,
    mean, likelihood or transforms are not among those supported. :meth:`explain` says which it is.

    Supported are RBF and Matérn kernels on all inputs, scaled or not; constant and zero means; inferred
    and known noise; any input transform of one point to one point; ``Standardize`` or no outcome
    transform. The factor is renewed when parameters, data or transforms have changed, or the model has
    been in training mode; hyper-parameters assigned by hand in evaluation mode are only seen after
    ``train()``, as in GPyTorch itself.

    Args:
        model: A single-output ``SingleTaskGP`` or another exact GP of BoTorch.

    Raises:
        UnsupportedError: A model with several outputs, or one that is not an exact GP.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        name = type(model).__name__
        if not isinstance(model, ExactGP) or not isinstance(model, Model):
            raise UnsupportedError(f"model = {name}: must be an exact GP of BoTorch, such as SingleTaskGP")
        if model.num_outputs != 1:
            raise UnsupportedError(f"model = {name} with {model.num_outputs} outputs: must have a single one")
        self.model = model
        self.__dict__["_wrapped"] = model  # found without the search through the submodules
        self._forget()

    def _forget(self) -> None:
        self._cache: Cache | None = None
        self._reason = ""
        self._transforms = False
        self._strategy: Any = None
        self._targets: Tensor | None = None
        self._parameters_seen: tuple[Tensor, ...] = ()
        self._versions = 0

    @property
    def num_outputs(self) -> int:
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        return self._wrapped.batch_shape

    @property
    def train_inputs(self) -> tuple[Tensor, ...]:
        return self._wrapped.train_inputs

    @property
    def train_targets(self) -> Tensor:
        return self._wrapped.train_targets

    @property
    def likelihood(self) -> torch.nn.Module:
        return self._wrapped.likelihood

    @property
    def cache(self) -> Cache | None:
        """The factor, in the units of inputs and outcomes; ``None`` where the wrapped model answers."""
        return self._current()

    def cache_points(self, X: Tensor) -> Tensor:
        """``... x d`` points in the user's units as :attr:`cache` takes them."""
        self._current()
        return self._wrapped.transform_inputs(X) if self._transforms else X

    def explain(self) -> str:
        """Which path posteriors at single points take, and why."""
        if self._current() is not None:
            return f"{CACHED}; q > 1, posterior transforms and observation noise go through {self._name}"
        return f"everything goes through {self._name}: {self._reason}"

    @property
    def _name(self) -> str:
        return type(self._wrapped).__name__

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """Posterior at ``b x q x d`` points; ``q = 1`` without further wishes comes from the cache.

        Args:
            X: Points in the user's units.
            output_indices: Passed on; there is one output.
            observation_noise: Passed on.
            posterior_transform: Passed on.
        """
        if (
            posterior_transform is None
            and observation_noise is False
            and output_indices is None
            and X.dim() > 1
            and X.shape[-2] == 1
        ):
            cache = self._current()
            if cache is not None and not propagate_grads.on():
                points = self._wrapped.transform_inputs(X) if self._transforms else X
                floor = settings.min_variance.value(points.dtype)
                mean, variance = mean_variance(cache, points, floor=floor, keepdim=True)
                return CachedPosterior(mean, variance, self._wrapped, X)
        wishes = {} if output_indices is None else {"output_indices": output_indices}
        return self._wrapped.posterior(
            X, observation_noise=observation_noise, posterior_transform=posterior_transform, **wishes
        )

    def _current(self) -> Cache | None:
        """The factor, renewed if anything it came from has changed."""
        model = self._wrapped
        if (
            self._strategy is None
            or model.prediction_strategy is not self._strategy  # GPyTorch drops its own when it is out of date
            or model.train_targets is not self._targets
            or self._version_sum() != self._versions
        ):
            self._renew()
        return self._cache

    def _version_sum(self) -> int:
        return sum([parameter._version for parameter in self._parameters_seen])

    def _renew(self) -> None:
        self._forget()
        model = self._wrapped
        model.eval()
        model._clear_cache()
        model.posterior((model._original_train_inputs if model._has_transformed_inputs else model.train_inputs[0])[:1])
        try:
            self._cache, self._transforms = _factor(model)
        except UnsupportedError as error:
            self._reason = str(error)
        self._strategy, self._targets = model.prediction_strategy, model.train_targets
        self._parameters_seen = tuple(model.parameters())
        self._versions = self._version_sum()

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> CachedGP:
        """The wrapped model's, wrapped again; arguments as there."""
        self._current()  # GPyTorch conditions only a model that has been asked before
        return CachedGP(self._wrapped.condition_on_observations(X, Y, **kwargs))

    def fantasize(self, *args: Any, **kwargs: Any) -> Model:
        """The wrapped model's."""
        self._current()
        return self._wrapped.fantasize(*args, **kwargs)

    def subset_output(self, idcs: list[int]) -> Model:
        """This model: there is one output."""
        if list(idcs) not in ([0], [-1]):
            raise UnsupportedError(f"idcs = {idcs}: must be [0], there is one output")
        return self

    def train(self, mode: bool = True) -> Self:
        torch.nn.Module.train(self, mode)
        return self

    def eval(self) -> Self:
        return self.train(False)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        # BoTorch's acquisition functions move their model at every call, nearly always to where it is
        if self._targets is not None and fn(self._targets) is self._targets and not self._targets.is_shared():
            return self
        self._forget()
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict[str, Any]:
        clone = self.__dict__.copy()
        clone.update(_strategy=None, _targets=None, _cache=None, _parameters_seen=())
        return clone


def _factor(model: ExactGP) -> tuple[Cache, bool]:
    """The factor of a model in evaluation mode, in the outcomes' units, and whether points need its input transform.

    Raises:
        UnsupportedError: Whatever of the model is not supported, by name.
    """
    if model.batch_shape:
        raise UnsupportedError(f"batch_shape = {tuple(model.batch_shape)}: must be empty")
    X, Y = model.train_inputs[0], model.train_targets
    if X.requires_grad or Y.requires_grad:
        raise UnsupportedError("training data: must not require a gradient")
    with torch.no_grad():
        kind, lengthscale, outputscale = describe(model.covar_module, X.shape[-1])
        constant, noise = _constant(model), _noise(model)
        parts = (X, Y - constant, noise, lengthscale, outputscale, constant, torch.ones_like(Y))
        cache = factorize(kind, *(part.detach() for part in parts))
        cache, transforms = _in_input_units(cache, getattr(model, "input_transform", None))
        return _in_outcome_units(cache, getattr(model, "outcome_transform", None)), transforms


def _constant(model: ExactGP) -> Tensor:
    mean = model.mean_module
    if type(mean) is ConstantMean:
        return mean.constant.reshape(())
    if type(mean) is ZeroMean:
        return model.train_targets.new_zeros(())
    raise UnsupportedError(f"mean = {type(mean).__name__}: must be ConstantMean or ZeroMean")


def _noise(model: ExactGP) -> Tensor:
    likelihood = model.likelihood
    if type(likelihood) not in (GaussianLikelihood, FixedNoiseGaussianLikelihood):
        name = type(likelihood).__name__
        raise UnsupportedError(f"likelihood = {name}: must be GaussianLikelihood or FixedNoiseGaussianLikelihood")
    return likelihood.noise.reshape(-1).expand_as(model.train_targets)


def _in_input_units(cache: Cache, transform: InputTransform | None) -> tuple[Cache, bool]:
    """A factor at points in the user's units, where that costs no digits; else they need the transform."""
    if transform is None:
        return cache, False
    if transform.is_one_to_many:
        raise UnsupportedError(f"input_transform = {type(transform).__name__}: must make one point of one point")
    plain = type(transform) is Normalize and not hasattr(transform, "indices") and transform.transform_on_eval
    if not plain or transform.reverse or (transform.offset.abs() > transform.coefficient).any():
        return cache, True
    scale, offset = transform.coefficient.reshape(-1), transform.offset.reshape(-1)
    inputs = cache.inputs + offset / (scale * cache.lengthscale)
    return replace(cache, inputs=inputs, lengthscale=cache.lengthscale * scale), False


def _in_outcome_units(cache: Cache, transform: OutcomeTransform | None) -> Cache:
    if transform is None:
        return cache
    if type(transform) is not Standardize:
        raise UnsupportedError(f"outcome_transform = {type(transform).__name__}: must be Standardize or None")
    shift, scale = transform.means.reshape(()), transform.stdvs.reshape(())
    return replace(
        cache,
        inverse=cache.inverse / scale,
        alpha=cache.alpha / scale,
        outputscale=cache.outputscale * scale.square(),
        constant=cache.constant * scale + shift,
        noise=cache.noise * scale.square(),
    )
