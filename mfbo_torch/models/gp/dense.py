"""An exact GP of BoTorch with a kernel of its own, with its posteriors from a dense factor."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from botorch.models import SingleTaskGP
from torch import Tensor

from mfbo_torch.models.gp.conditioned import ConditionedModel
from mfbo_torch.models.input_checks import check_points
from mfbo_torch.ops.cache import grown, inverse_factor


class DenseFactor(NamedTuple):
    """``k x d`` points, pending ones included; the inverse ``k x k`` of the lower factor of their covariance with
    noise; the weights of the ``n`` observations in the mean."""

    points: Tensor
    inverse: Tensor
    weights: Tensor


class DenseGP(ConditionedModel):
    """A fitted GP of one output without transforms, with the joint posteriors of few points at a fraction of the time.

    Means and covariances follow from a factor computed once, by dense products and without GPyTorch's lazy tensors;
    they are differentiable in the points alone. A pending point has the mean noise variance.

    Args:
        model: The GP. Its kernel is of all inputs, with a ``forward`` that gives a tensor. Its parameters get no
            gradient any more.
    """

    def __init__(self, model: SingleTaskGP) -> None:
        super().__init__()
        self.model: Any = model.eval().requires_grad_(False)
        self._factor: DenseFactor | None = None

    @property
    def likelihood(self) -> Any:
        """That of the GP."""
        return self.model.likelihood

    def covariance(self, X: Tensor, Z: Tensor) -> Tensor:
        """Prior covariance ``... x m x k`` of ``... x m x d`` and ``... x k x d`` points."""
        return self.model.covar_module.forward(X, Z)

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        factor = self._with_pending(self._free())
        cross = self.covariance(X, factor.points)
        whitened = cross @ factor.inverse.mT
        mean = self.model.mean_module(X) + cross[..., : len(factor.weights)] @ factor.weights
        return mean, self.covariance(X, X) - whitened @ whitened.mT, self.likelihood.noise.mean()

    def _free(self) -> DenseFactor:
        if self._factor is None:
            X, Y = self.model.train_inputs[0], self.model.train_targets
            with torch.no_grad():
                inverse = inverse_factor(self.covariance(X, X) + torch.diag(self.likelihood.noise.expand_as(Y)))
                weights = inverse.mT @ (inverse @ (Y - self.model.mean_module(X)))
            self._factor = DenseFactor(X, inverse, weights)
        return self._factor

    def _extended(self, factor: DenseFactor, X: Tensor) -> DenseFactor:
        with torch.no_grad():
            corner = self.covariance(X, X) + self.likelihood.noise.mean() * torch.eye(len(X)).to(X)
            inverse = grown(factor.inverse, self.covariance(X, factor.points), corner)
        return DenseFactor(torch.cat([factor.points, X]), inverse, factor.weights)

    def _checked_pending(self, X: Tensor) -> Tensor:
        return check_points("X_pending", X, self.model.train_inputs[0].shape[-1])

    @property
    def _anchor(self) -> Tensor:
        return self.model.train_targets

    def _forget(self, moved: bool = False) -> None:
        self._factor = None
