r"""Upper confidence bounds with pending points."""

from __future__ import annotations

import math

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from mfbo_torch.acquisition.fused import FLOOR, Fused, LastOutputs, bound, deviation
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.posterior import mean_variance
from mfbo_torch.utils.validation import number


class HallucinatedUpperConfidenceBound(AcquisitionFunction):
    r"""The mean given the data plus a multiple of the deviation given data and pending points.

    .. math:: \mu(x) + \beta^{1/2} \sigma(x \mid X_{pending})

    [Desautels2012gpbucb]_ (Eq. 4). The deviation is that of the model after observations with its noise
    (the mean noise, where it is known) at the pending points; it does not depend on their values. The value of
    ``q`` points is the sum of their bounds, each with the points before it pending.

    Maximised in batches by ``optimize_acqf(..., q, sequential=True)``, ``optimize_acqf_mixed``,
    ``optimize_acqf_discrete`` and ``optimize_acqf_discrete_local_search``, which append to
    :attr:`X_pending` what they have found and restore it. In a large finite set
    :func:`~mfbo_torch.acquisition.greedy_hallucinated_ucb` finds the same batch sooner.

    Args:
        model: An exact single-output GP of BoTorch, quick where :class:`~mfbo_torch.models.CachedGP` has a factor
            for it; else its joint posterior with the pending points is computed.
        beta: Squared width of the confidence band.
        X_pending: ``p x d`` pending points.
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
        self.beta = number("beta", beta, 0)
        self.weight, self.offset = scalar_of(posterior_transform)
        self._outputs = LastOutputs()
        self._hallucinated: CachedGP = self.model
        self.set_X_pending(X_pending)

    @property
    def X_pending(self) -> Tensor | None:
        """``p x d`` pending points."""
        return self._pending

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Set the ``p x d`` pending points, or none, in place of the former ones; points that these begin with cost
        nothing."""
        self._hallucinated = self.model.hallucinate(X_pending, self._hallucinated)
        self._pending: Tensor | None = None if X_pending is None else X_pending.detach().clone()

    @property
    def cache(self) -> Cache | None:
        """The model's factor extended by the pending points; ``None`` where it has none."""
        return self._hallucinated.cache

    def fused(self) -> Fused | None:
        """The bound of one point and its gradient on arrays; ``None`` where the model has no such form."""
        outputs = self._outputs(self._hallucinated)
        return None if outputs is None else Fused(outputs, bound(self._width, FLOOR, self.weight, self.offset))

    @property
    def _width(self) -> float:
        return math.sqrt(self.beta) * abs(self.weight)

    def forward(self, X: Tensor) -> Tensor:
        """The bound at ``b x q x d`` points, shape ``b``."""
        fused = self.fused()
        return fused.at(X) if fused is not None and fused.takes(X) else self._through_torch(X)

    @t_batch_mode_transform(assert_output_shape=False)
    def _through_torch(self, X: Tensor) -> Tensor:
        if X.shape[-1] != self.model.dim:
            wanted = f"the last axis must be d = {self.model.dim}"
            raise BotorchTensorDimensionError(f"X of shape {tuple(X.shape)}: {wanted}")
        cache = self.cache
        if cache is not None and X.shape[-2] == 1:
            mean, variance = mean_variance(cache, self.model.cache_points(X), floor=torch.finfo(X.dtype).tiny)
        else:
            mean, clean, noise = self._hallucinated.joint(X)
            variance = _in_turn(clean, noise)
        return (self.weight * mean + self.offset + self._width * deviation(variance)).sum(-1)


def _in_turn(covariance: Tensor, noise: Tensor) -> Tensor:
    """Variances ``... x q``, each given noisy observations of the points before it, from the joint covariance."""
    if covariance.shape[-1] == 1:
        return covariance.squeeze(-1)
    noisy = covariance + torch.diag_embed(noise)
    left = psd_safe_cholesky(noisy).diagonal(dim1=-2, dim2=-1).square()
    return left - (noisy - covariance).diagonal(dim1=-2, dim2=-1)


def scalar_of(posterior_transform: PosteriorTransform | None) -> tuple[float, float]:
    """Weight and offset that a posterior transform gives the one outcome, 1 and 0 for none; an ``UnsupportedError``
    where it is not a ``ScalarizedPosteriorTransform`` of one outcome."""
    if posterior_transform is None:
        return 1.0, 0.0
    if not isinstance(posterior_transform, ScalarizedPosteriorTransform) or len(posterior_transform.weights) != 1:
        name = type(posterior_transform).__name__
        raise UnsupportedError(f"posterior_transform = {name}: must be a ScalarizedPosteriorTransform of one outcome")
    return float(posterior_transform.weights), float(posterior_transform.offset)
