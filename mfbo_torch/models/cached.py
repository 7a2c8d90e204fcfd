"""Any exact single-output GP of BoTorch, with the posteriors of single points from a cached factor."""

from __future__ import annotations

from dataclasses import replace
from threading import RLock
from typing import Any, NamedTuple, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
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
_RENEWING = RLock()
"""Held while a factor is renewed: the wrapped model forgets what it knows for a moment."""


class _State(NamedTuple):
    """What a model was when its factor was made.

    Attributes:
        cache: The factor; ``None`` where the wrapped model answers.
        reason: Why it does.
        transforms: Whether points need the model's input transform.
        strategy: GPyTorch's own factor, which it drops when it is out of date.
        targets: The data.
        parameters: The hyper-parameters.
        versions: How often these have been written to.
    """

    cache: Cache | None
    reason: str
    transforms: bool
    strategy: Any
    targets: Tensor
    parameters: tuple[Tensor, ...]
    versions: int

    def holds(self, model: Model) -> bool:
        """Whether nothing has changed since."""
        return (
            self.strategy is not None
            and model.prediction_strategy is self.strategy
            and model.train_targets is self.targets
            and _versions(self.parameters) == self.versions
        )


def _versions(parameters: tuple[Tensor, ...]) -> int:
    return sum([parameter._version for parameter in parameters])


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
    mean, likelihood or transforms are not among those supported, or it has a ``forward`` or ``posterior`` of
    its own. :meth:`explain` says which it is.

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
        self._state: _State | None = None

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
    def input_transform(self) -> InputTransform:
        if "input_transform" not in self._wrapped._modules:
            raise AttributeError("input_transform")
        return self._wrapped.input_transform

    @property
    def outcome_transform(self) -> OutcomeTransform:
        if "outcome_transform" not in self._wrapped._modules:
            raise AttributeError("outcome_transform")
        return self._wrapped.outcome_transform

    @property
    def _has_transformed_inputs(self) -> bool:  # BoTorch asks for these two, where it wants the user's inputs back
        return self._wrapped._has_transformed_inputs

    @property
    def _original_train_inputs(self) -> Tensor | None:
        return self._wrapped._original_train_inputs

    @property
    def cache(self) -> Cache | None:
        """The factor, in the units of inputs and outcomes; ``None`` where the wrapped model answers."""
        return self._current().cache

    @property
    def dim(self) -> int:
        """Number of inputs of a point in the user's units."""
        original = self._original_train_inputs if self._has_transformed_inputs else None
        return (self.train_inputs[0] if original is None else original).shape[-1]

    def cache_points(self, X: Tensor) -> Tensor:
        """``... x d`` points in the user's units as :attr:`cache` takes them."""
        return self._wrapped.transform_inputs(X) if self._current().transforms else X

    def explain(self) -> str:
        """Which path posteriors at single points take, and why."""
        state = self._current()
        if state.cache is not None:
            return f"{CACHED}; q > 1, posterior transforms and observation noise go through {self._name}"
        return f"everything goes through {self._name}: {state.reason}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped model's."""
        return self._wrapped(*args, **kwargs)

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
            state = self._current()
            if state.cache is not None and not propagate_grads.on():
                points = self._wrapped.transform_inputs(X) if state.transforms else X
                floor = settings.min_variance.value(points.dtype)
                mean, variance = mean_variance(state.cache, points, floor=floor, keepdim=True)
                return CachedPosterior(mean, variance, self._wrapped, X)
        wishes = {} if output_indices is None else {"output_indices": output_indices}
        return self._wrapped.posterior(
            X, observation_noise=observation_noise, posterior_transform=posterior_transform, **wishes
        )

    def _current(self) -> _State:
        """The factor, renewed if anything it came from has changed."""
        state = self._state
        return state if state is not None and state.holds(self._wrapped) else self._renewed()

    def _renewed(self) -> _State:
        model = self._wrapped
        with _RENEWING:
            if self._state is not None and self._state.holds(model):  # another thread was quicker
                return self._state
            model.eval()
            model._clear_cache()
            X = model._original_train_inputs if model._has_transformed_inputs else model.train_inputs[0]
            model.posterior(X[:1])
            cache, transforms, reason = None, False, ""
            try:
                cache, transforms = _factor(model)
            except UnsupportedError as error:
                reason = str(error)
            parameters = tuple(model.parameters())
            made = (model.prediction_strategy, model.train_targets, parameters, _versions(parameters))
            self._state = _State(cache, reason, transforms, *made)
            return self._state

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
        if self._state is not None:
            targets = self._state.targets
            if fn(targets) is targets and not targets.is_shared():
                return self
        self._forget()
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_state": None}


def _factor(model: ExactGP) -> tuple[Cache, bool]:
    """The factor of a model in evaluation mode, in the outcomes' units, and whether points need its input transform.

    Raises:
        UnsupportedError: Whatever of the model is not supported, by name.
    """
    for name in ("forward", "posterior"):
        if getattr(type(model), name) is not getattr(SingleTaskGP, name):
            raise UnsupportedError(f"{name} of {type(model).__name__}: must be that of SingleTaskGP")
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
