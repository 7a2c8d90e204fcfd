"""Any exact single-output GP of BoTorch, with the posteriors of single points from a cached factor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior, Posterior
from botorch.settings import propagate_grads
from gpytorch import settings
from gpytorch.distributions import MultivariateNormal
from gpytorch.models import ExactGP
from torch import Tensor

from mfbo_torch.models.gp.conditioned import ConditionedModel, Extension, conditioned
from mfbo_torch.models.gp.exact import STATES, current_state
from mfbo_torch.models.input_checks import check_points
from mfbo_torch.ops._dispatch import route
from mfbo_torch.ops.cache import Cache, extend, truncate
from mfbo_torch.ops.posterior import mean_covariance, mean_variance
from mfbo_torch.ops.posterior.graphs import takes

CACHED = "q = 1 posteriors come from the cache"
FORWARDED = {"train_inputs", "train_targets", "likelihood", "input_transform", "outcome_transform"}
"""Attributes that a :class:`CachedGP` has from its model."""


class CachedPosterior(GPyTorchPosterior):
    """Mean and variance, ``b x 1 x 1`` each, at ``b x 1 x d`` points; ``compute`` gives the whole posterior at points
    when anything else is needed."""

    def __init__(
        self, mean: Tensor, variance: Tensor, compute: Callable[[Tensor], GPyTorchPosterior], X: Tensor
    ) -> None:
        self._mean, self._variance, self._compute, self._X = mean, variance, compute, X
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
        """That of the whole posterior, computed at the first call."""
        if self._whole is None:
            self._whole = self._compute(self._X)
        return self._whole.distribution


class CachedGP(ConditionedModel):
    """An exact single-output GP whose posteriors at single points (``q = 1``) cost a fraction.

    They come from a factor computed once (:mod:`mfbo_torch.ops.posterior`) and are differentiable in ``X`` alone.
    Whatever the cache cannot answer goes through the wrapped model: ``q > 1``, a posterior transform, observation
    noise, ``botorch.settings.propagate_grads``, and everything where its kernel, mean, likelihood or transforms are not
    among those supported, or it has a ``forward`` or ``posterior`` of its own; :meth:`explain` gives the reason. All
    :class:`CachedGP` of one model share its factor.

    With points pending (:meth:`hallucinate`) a posterior has the mean of the data, and deviations also conditioned on
    observations with the model's noise (the mean noise, where it is known) at these points. What the factor cannot
    answer then comes from the wrapped model's joint posterior with them, as exactly; what has no such posterior
    (:meth:`fantasize`, a call of the model itself, outcomes that are not normal, given noise variances) is refused.

    Supported are RBF and Matérn kernels on all inputs, scaled or not; constant and zero means; inferred and known
    noise; any input transform of one point to one point; ``Standardize`` or no outcome transform. The factor is renewed
    when hyper-parameters, data or transforms have changed, or the model has been in training mode; on a GPU what is
    assigned to GPyTorch's properties in evaluation mode is only seen after ``train()``, as in GPyTorch itself.

    The ``model`` is a ``SingleTaskGP`` or another exact GP of BoTorch, of one output; else an ``UnsupportedError`` is
    raised.
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

    @property
    def batch_shape(self) -> torch.Size:
        return self._wrapped.batch_shape

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name) if name in FORWARDED else super().__getattr__(name)

    @property
    def _has_transformed_inputs(self) -> bool:  # BoTorch asks for these two, where it wants the user's inputs back
        return self._wrapped._has_transformed_inputs

    @property
    def _original_train_inputs(self) -> Tensor | None:
        return self._wrapped._original_train_inputs

    @property
    def cache(self) -> Cache | None:
        """The factor, pending points included, in the units of inputs and outcomes; ``None`` where the wrapped
        model answers."""
        return self._with_pending(self._free())

    def _free(self) -> Cache | None:
        return current_state(self._wrapped).cache

    @property
    def dim(self) -> int:
        """Number of inputs of a point in the user's units."""
        return self.data_inputs.shape[-1]

    @property
    def data_inputs(self) -> Tensor:
        """``... x n x d`` inputs of the data in the user's units."""
        original = self._original_train_inputs if self._has_transformed_inputs else None
        return self.train_inputs[0] if original is None else original

    def cache_points(self, X: Tensor) -> Tensor:
        """``... x d`` points in the user's units as :attr:`cache` takes them."""
        return self._wrapped.transform_inputs(X) if current_state(self._wrapped).transforms else X

    def explain(self) -> str:
        """The path that posteriors at single points take, and why."""
        state = current_state(self._wrapped)
        if state.cache is None:
            return f"everything goes through {self._name}: {state.reason}"
        if self._pending is not None:
            return f"{CACHED}, and all others with points pending"
        backend, why = route("auto", state.cache.inputs)
        few = ", few of them as a CUDA graph" if takes(state.cache, state.cache.inputs[:1]) else ""
        through = f"{CACHED} by {backend} ({why}){few}"
        return f"{through}; q > 1, posterior transforms and observation noise go through {self._name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped model's prior or posterior, as in GPyTorch."""
        self._without_pending("a call")
        return self._wrapped(*args, **kwargs)

    def _without_pending(self, wish: str) -> None:
        if self._pending is not None:
            raise UnsupportedError(f"{wish}: must be called on the model without pending points")

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
        """Posterior at ``b x q x d`` points, from the cache where ``q = 1`` and nothing else is given. The arguments
        are the wrapped model's; with pending points ``observation_noise`` is true or false."""
        plain = posterior_transform is None and observation_noise is False
        state = current_state(self._wrapped)
        single = plain and output_indices is None and X.dim() > 1 and X.shape[-2] == 1
        if single and state.cache is not None and not propagate_grads.on():
            points = self._wrapped.transform_inputs(X) if state.transforms else X
            floor = settings.min_variance.value(points.dtype)
            mean, variance = mean_variance(self._with_pending(state.cache), points, floor=floor, keepdim=True)
            return CachedPosterior(mean, variance, self._whole, X)
        if self._pending is not None:
            self.subset_output(output_indices or [0])
            if isinstance(observation_noise, Tensor):  # BoTorch takes them in the units behind the outcome transform
                raise UnsupportedError("observation_noise = given variances: must be True or False with points pending")
            return super().posterior(X, None, observation_noise, posterior_transform)
        wishes = {} if output_indices is None else {"output_indices": output_indices}
        return self._wrapped.posterior(
            X, observation_noise=observation_noise, posterior_transform=posterior_transform, **wishes
        )

    def _whole(self, X: Tensor) -> Posterior:
        """The whole posterior at points, with its covariances."""
        return self._wrapped.posterior(X) if self._pending is None else super().posterior(X)

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean ``... x q``, covariance ``... x q x q`` and noise variances ``... x q`` at ``... x q x d`` points; an
        ``UnsupportedError`` where the outcomes are not normal."""
        cache = self.cache
        if cache is not None and not propagate_grads.on():
            mean, covariance = mean_covariance(cache, self.cache_points(X))
            return mean, covariance, cache.noise.expand_as(mean)
        mean = _normal(self._wrapped.posterior(X)).mean.squeeze(-1)
        points, p = X, 0
        if self._pending is not None:
            p = len(self._pending)
            points = torch.cat([self._pending.to(X).expand(*X.shape[:-2], *self._pending.shape), X], dim=-2)
        clean, noisy = (
            _normal(self._wrapped.posterior(points, observation_noise=noise)).distribution.covariance_matrix
            for noise in (False, True)
        )
        noise, covariance = (noisy - clean).diagonal(dim1=-2, dim2=-1)[..., p:], clean[..., p:, p:]
        if p:
            covariance = conditioned(covariance, clean[..., :p, p:], noisy[..., :p, :p])
        return mean, covariance, noise

    def factors(self) -> tuple[Cache, ...] | None:
        state = current_state(self._wrapped)
        closed = state.cache is not None and not state.transforms and not propagate_grads.on()
        return (self._with_pending(state.cache),) if closed else None

    @property
    def _anchor(self) -> Tensor | None:
        state = STATES.get(self._wrapped)
        return None if state is None else state.targets

    def _forget(self, moved: bool = False) -> None:
        STATES.pop(self._wrapped, None)

    def _checked_pending(self, X: Tensor) -> Tensor:
        return check_points("X_pending", X, self.dim)

    def _extended(self, factor: Cache, X: Tensor) -> Cache:
        with torch.no_grad():
            X = self.cache_points(X.to(factor.inputs))
            return extend(factor, X, torch.ones_like(X[:, 0]))

    def _shortened(self, extension: Extension, size: int) -> Extension:
        return Extension(extension.free, size, truncate(extension.factor, extension.free.num_points + size))

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> CachedGP:
        """The wrapped model's, wrapped again, with the same points pending; arguments as there."""
        current_state(self._wrapped)  # GPyTorch conditions only a model that has made a prediction
        clone = CachedGP(self._wrapped.condition_on_observations(X, Y, **kwargs))
        clone._pending = self._pending
        return clone

    def fantasize(self, *args: Any, **kwargs: Any) -> Model:
        """The wrapped model's."""
        self._without_pending("fantasize")
        current_state(self._wrapped)
        return self._wrapped.fantasize(*args, **kwargs)

    def subset_output(self, idcs: list[int]) -> Model:
        """This model: there is one output."""
        if list(idcs) not in ([0], [-1]):
            raise UnsupportedError(f"idcs = {idcs}: must be [0], there is one output")
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_extension": None}


def _normal(posterior: Posterior) -> GPyTorchPosterior:
    if not isinstance(posterior, GPyTorchPosterior):
        raise UnsupportedError(f"posterior = {type(posterior).__name__}: must be Gaussian in the outcome's units")
    return posterior
