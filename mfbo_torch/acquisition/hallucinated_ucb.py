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
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from mfbo_torch.errors import SettingError
from mfbo_torch.models.cached import CachedGP
from mfbo_torch.ops.cache import extend
from mfbo_torch.ops.posterior import mean_variance


class HallucinatedUpperConfidenceBound(AcquisitionFunction):
    r"""Mean from the data, deviation also from the points whose values are still out.

    .. math:: \mu(x) + \beta^{1/2} \sigma(x \mid X_{pending})

    [Desautels2012gpbucb]_ (Eq. 4).

    Args:
        model: An exact single-output GP.
        beta: Squared width of the confidence band.
        X_pending: ``p x d`` points whose values are still out.
    """

    def __init__(self, model: Model, beta: float, X_pending: Tensor | None = None) -> None:
        super().__init__(model=model if isinstance(model, CachedGP) else CachedGP(model))
        self.beta = float(beta)
        if not 0 <= self.beta < math.inf:
            raise SettingError("beta", beta, "a number from 0 on")
        self._pending: Tensor | None = None
        self.set_X_pending(X_pending)

    @property
    def X_pending(self) -> Tensor | None:
        """The points whose values are still out."""
        return self._pending

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Set the points whose values are still out, in place of the former ones."""
        cache = self.model.cache
        if cache is None:
            raise UnsupportedError(self.model.explain())
        if X_pending is not None:
            X_pending = X_pending.detach().clone()
            width = self.model.train_inputs[0].shape[-1]
            if X_pending.dim() != 2 or X_pending.shape[-1] != width:
                raise BotorchTensorDimensionError(f"X_pending of shape {tuple(X_pending.shape)}: must be p x {width}")
            if not X_pending.isfinite().all():
                raise InputDataError("X_pending: must be finite, found NaN or infinity")
            if len(X_pending):
                points = self.model.model.transform_inputs(X_pending) if self.model._transforms else X_pending
                cache = extend(cache, points, torch.ones_like(points[:, 0]))
        self._cache, self._pending = cache, X_pending

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """The bound at ``b x 1 x d`` points, shape ``b``."""
        points = self.model.model.transform_inputs(X) if self.model._transforms else X
        mean, variance = mean_variance(self._cache, points.squeeze(-2), floor=1e-30)
        return mean + math.sqrt(self.beta) * variance.sqrt()
