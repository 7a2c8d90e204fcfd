"""The factor of an exact GP of BoTorch, made once for each model."""

from __future__ import annotations

from dataclasses import replace
from threading import RLock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms.input import InputTransform, Normalize
from botorch.models.transforms.outcome import OutcomeTransform, Standardize
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import ConstantMean, ZeroMean
from gpytorch.models import ExactGP
from torch import Tensor

from mfbo_torch.models.gp.hyperparameters import Hyperparameters
from mfbo_torch.ops.cache import Cache, factorize
from mfbo_torch.ops.kernels import describe

_RENEWING = RLock()
"""Held while a factor is renewed, since its model has no prediction strategy meanwhile."""


class FactorState(NamedTuple):
    """The factor of a model in the units of inputs and outcomes, ``None`` with a reason where it is not supported;
    whether points need its input transform; and what the factor was made of: GPyTorch's own factor, dropped when out of
    date, the data and the hyper-parameters."""

    cache: Cache | None
    reason: str
    transforms: bool
    strategy: Any
    targets: Tensor
    hyperparameters: Hyperparameters

    def holds(self, model: Model) -> bool:
        """Whether nothing has changed since."""
        return (
            self.strategy is not None
            and model.prediction_strategy is self.strategy
            and model.train_targets is self.targets
            and self.hyperparameters.unchanged()
        )


STATES: WeakKeyDictionary[Model, FactorState] = WeakKeyDictionary()
"""The last state of each model; copies of a model have their own, and nothing of it is saved with one."""


def current_state(model: Model) -> FactorState:
    """The state of a model with its factor, renewed if anything that it follows from has changed."""
    state = STATES.get(model)
    return state if state is not None and state.holds(model) else _renewed(model)


def _renewed(model: Model) -> FactorState:
    with _RENEWING:
        state = STATES.get(model)
        if state is not None and state.holds(model):  # another thread was quicker
            return state
        model.eval()
        model._clear_cache()
        X = model._original_train_inputs if model._has_transformed_inputs else model.train_inputs[0]
        model.posterior(X[:1])
        cache, transforms, reason = None, False, ""
        try:
            cache, transforms = _factor(model)
        except UnsupportedError as error:
            reason = str(error)
        made = (model.prediction_strategy, model.train_targets, Hyperparameters(model))
        state = STATES[model] = FactorState(cache, reason, transforms, *made)
        return state


def _factor(model: ExactGP) -> tuple[Cache, bool]:
    """The factor of a model in evaluation mode, in the outcomes' units, and whether points need its input transform; an
    ``UnsupportedError`` names what of the model is not supported."""
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
    """A factor at points in the user's units, where the transform is ``Normalize``; else they need the transform."""
    if transform is None:
        return cache, False
    if transform.is_one_to_many:
        raise UnsupportedError(f"input_transform = {type(transform).__name__}: must make one point of one point")
    plain = type(transform) is Normalize and not hasattr(transform, "indices") and transform.transform_on_eval
    if not plain or transform.reverse:
        return cache, True
    scale, offset = transform.coefficient.reshape(-1), transform.offset.reshape(-1)
    inputs = cache.inputs + cache.center / cache.lengthscale  # points less the offset keep their digits
    return replace(cache, inputs=inputs, lengthscale=cache.lengthscale * scale, center=offset), False


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
