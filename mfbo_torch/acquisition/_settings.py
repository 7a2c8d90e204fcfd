"""Settings that several acquisition functions check alike."""

from __future__ import annotations

import math

import torch
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from torch import Tensor

from mfbo_torch.errors import SettingError


def checked_beta(beta: float) -> float:
    """The squared width of a confidence band.

    Raises:
        SettingError: It is negative or not finite.
    """
    beta = float(beta)
    if not 0 <= beta < math.inf:
        raise SettingError("beta", beta, "a number from 0 on")
    return beta


def checked_points(name: str, X: Tensor, dim: int) -> Tensor:
    """``n x dim`` points.

    Raises:
        BotorchTensorDimensionError: Another shape.
        InputDataError: NaN or infinity.
    """
    if X.dim() != 2 or X.shape[-1] != dim:
        raise BotorchTensorDimensionError(f"{name} of shape {tuple(X.shape)}: must be n x {dim}")
    if not torch.isfinite(X).all():
        raise InputDataError(f"{name}: must be finite, found NaN or infinity")
    return X


def scalar_of(posterior_transform: PosteriorTransform | None) -> tuple[float, float]:
    """Weight and offset that a posterior transform gives the one outcome; 1 and 0 for none.

    Raises:
        UnsupportedError: It is not a ``ScalarizedPosteriorTransform`` of one outcome.
    """
    if posterior_transform is None:
        return 1.0, 0.0
    if not isinstance(posterior_transform, ScalarizedPosteriorTransform) or len(posterior_transform.weights) != 1:
        name = type(posterior_transform).__name__
        raise UnsupportedError(f"posterior_transform = {name}: must be a ScalarizedPosteriorTransform of one outcome")
    return float(posterior_transform.weights), float(posterior_transform.offset)
