r"""Upper confidence bounds that know which values are still out.

References:

.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian
    Process Bandit Optimization. ICML 2012.
"""

from __future__ import annotations

import math

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.transforms import t_batch_mode_transform
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from mfbo_torch.acquisition._settings import checked_beta, checked_points, scalar_of
from mfbo_torch.models.cached import CachedGP
from mfbo_torch.ops.cache import Cache, extend, truncate
from mfbo_torch.ops.posterior import mean_covariance, mean_variance

FLOOR = 1e-30
"""Least variance: a square root of zero has no slope."""


class HallucinatedUpperConfidenceBound(AcquisitionFunction):
    r"""Mean from the data, deviation also from the points whose values are still out.

    .. math:: \mu(x) + \beta^{1/2} \sigma(x \mid X_{pending})

    [Desautels2012gpbucb]_ (Eq. 4). The deviation is that of the model after observations with its noise
    (the mean noise, where it is known) at the pending points; which values they have plays no part. Of
    ``q`` points it is the sum of the bounds they have in turn, each with those before it pending.

    Maximised in batches by ``optimize_acqf(..., q, sequential=True)``, ``optimize_acqf_mixed``,
    ``optimize_acqf_discrete`` and ``optimize_acqf_discrete_local_search``, which append to
    :attr:`X_pending` what they have found and restore it. In a large finite set
    :func:`~mfbo_torch.acquisition.greedy_hallucinated_ucb` finds the same batch sooner.

    Args:
        model: An exact single-output GP of BoTorch. :class:`~mfbo_torch.models.CachedGP` says which
            are fast; another one is asked for its joint posterior with the pending points.
        beta: Squared width of the confidence band.
        X_pending: ``p x d`` points whose values are still out.
        posterior_transform: A ``ScalarizedPosteriorTransform`` of the one outcome: weight -1 minimises.

    Raises:
        UnsupportedError: A model with several outputs or one that is not an exact GP, or another transform.
        SettingError: A ``beta`` that is negative or not finite.
        BotorchTensorDimensionError: ``X_pending`` of another shape.
        InputDataError: NaN in ``X_pending``.
    """

    def __init__(
        self,
        model: Model,
        beta: float,
        X_pending: Tensor | None = None,
        *,
        posterior_transform: PosteriorTransform | None = None,
    ) -> None:
        super().__init__(model=model if isinstance(model, CachedGP) else CachedGP(model))
        self.beta = checked_beta(beta)
        self.weight, self.offset = scalar_of(posterior_transform)
        self._base: Cache | None = None
        self._cache: Cache | None = None
        self._conditioned: Tensor | None = None  # the pending points that _cache has
        self.set_X_pending(X_pending)

    @property
    def X_pending(self) -> Tensor | None:
        """``p x d`` points whose values are still out."""
        return self._pending

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Set the points whose values are still out, in place of the former ones.

        Only those behind the points that were pending before, in the same place, cost anything.

        Args:
            X_pending: ``p x d``, or ``None`` for no point.
        """
        if X_pending is not None:
            X_pending = checked_points("X_pending", X_pending, self.model.dim).detach().clone()
        self._pending: Tensor | None = X_pending

    @property
    def cache(self) -> Cache | None:
        """The model's factor extended by the pending points; ``None`` where it has none."""
        base, pending = self.model.cache, self._pending
        if base is not self._base:
            self._base, self._cache, self._conditioned = base, base, None
        if base is None or self._cache is None or pending is self._conditioned:
            return self._cache
        k = _alike(self._conditioned, pending)
        cache = truncate(self._cache, base.num_points + k) if k else base
        if pending is not None and len(pending) > k:
            with torch.no_grad():
                X = self.model.cache_points(pending[k:].to(cache.inputs))
                cache = extend(cache, X, torch.ones_like(X[:, 0]))
        self._cache, self._conditioned = cache, pending
        return cache

    @t_batch_mode_transform()
    def forward(self, X: Tensor) -> Tensor:
        """The bound at ``b x q x d`` points, shape ``b``."""
        if X.shape[-1] != self.model.dim:
            wanted = f"the last axis must be d = {self.model.dim}"
            raise BotorchTensorDimensionError(f"X of shape {tuple(X.shape)}: {wanted}")
        cache = self.cache
        if cache is None:
            mean, variance = self._from_model(X)
        elif X.shape[-2] == 1:
            mean, variance = mean_variance(cache, self.model.cache_points(X), floor=FLOOR)
        else:
            mean, clean = mean_covariance(cache, self.model.cache_points(X))
            noise = cache.noise * torch.eye(X.shape[-2]).to(clean)
            variance = _in_turn(clean, clean + noise)
        width = math.sqrt(self.beta) * abs(self.weight)
        return (self.weight * mean + self.offset + width * variance.clamp_min(FLOOR).sqrt()).sum(-1)

    def _from_model(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean, and variance in turn, of a model without a factor."""
        free = _gaussian(self.model.posterior(X))
        if X.shape[-2] == 1 and not (self._pending is not None and len(self._pending) > 0):
            return free.mean.squeeze(-1), free.variance.squeeze(-1)
        points = X
        if self._pending is not None:
            pending = self._pending.to(X).expand(*X.shape[:-2], *self._pending.shape)
            points = torch.cat([pending, X], dim=-2)
        clean, noisy = (
            _gaussian(self.model.posterior(points, observation_noise=noise)).distribution.covariance_matrix
            for noise in (False, True)
        )
        return free.mean.squeeze(-1), _in_turn(clean, noisy)[..., -X.shape[-2] :]


def _alike(A: Tensor | None, B: Tensor | None) -> int:
    """How many points two lists begin with alike."""
    if A is None or B is None:
        return 0
    k = min(len(A), len(B))
    return int((A[:k] == B[:k]).all(-1).long().cumprod(0).sum())


def _in_turn(clean: Tensor, noisy: Tensor) -> Tensor:
    """Variances ``... x q``, each given noisy observations of the points before it, from the joint covariance of ``q``
    values without and with noise."""
    left = psd_safe_cholesky(noisy).diagonal(dim1=-2, dim2=-1).square()
    return left - (noisy - clean).diagonal(dim1=-2, dim2=-1)


def _gaussian(posterior: GPyTorchPosterior) -> GPyTorchPosterior:
    if not isinstance(posterior, GPyTorchPosterior):
        raise UnsupportedError(f"posterior = {type(posterior).__name__}: must be Gaussian in the outcome's units")
    return posterior
