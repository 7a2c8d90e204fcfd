"""Checks of points and observations.

All raise a ``BotorchTensorDimensionError`` for a wrong shape, and an ``InputDataError`` for NaN, infinity, a negative
variance, or a fidelity that is no whole number in ``0 .. M - 1``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from mfbo_torch.utils.errors import SettingError


def check_observations(Y: Tensor, Yvar: Tensor | None, inputs: Tensor, names: tuple[str, str, str], size: str) -> None:
    """Check for one finite observation and no negative variance for each of ``size x ...`` inputs; ``names`` are the
    model's names of observations, noise variances and inputs, ``size`` is its name of their number."""
    for name, data in zip(names, (Y, Yvar), strict=False):
        if data is None:
            continue
        if data.shape != (len(inputs), 1):
            wanted = f"{size} x 1 with {size} = {len(inputs)} as in {names[2]}"
            raise BotorchTensorDimensionError(f"{name} of shape {tuple(data.shape)}: must be {wanted}")
        _finite(name, data)
    if Yvar is not None and (Yvar < 0).any():
        raise InputDataError(f"{names[1]} = {Yvar.min().item():g}: must not be negative")


def check_data(X: Tensor, Y: Tensor, Yvar: Tensor | None, num_fidelities: int) -> None:
    """Check the data of a model of ``M`` fidelities: at least one row, ``n x (d + 1)`` and ``n x 1``."""
    if X.dim() != 2 or X.shape[-1] < 2:
        raise BotorchTensorDimensionError(f"train_X of shape {tuple(X.shape)}: must be n x (d + 1), d at least 1")
    check_observations(Y, Yvar, X, ("train_Y", "train_Yvar", "train_X"), "n")
    if len(X) == 0:
        raise InputDataError("train_X: must have at least one row, found none")
    check_fidelities("train_X", X, X.shape[-1], num_fidelities)


def check_points(name: str, X: Tensor, width: int) -> Tensor:
    """``n x width`` finite points; ``name`` is that of the argument."""
    if X.dim() != 2 or X.shape[-1] != width:
        raise BotorchTensorDimensionError(f"{name} of shape {tuple(X.shape)}: must be n x {width}")
    return _finite(name, X)


def check_fidelities(name: str, X: Tensor, width: int, num_fidelities: int) -> Tensor:
    """``... x n x width`` finite points whose last column is a fidelity; ``width`` is ``d + 1``."""
    if X.dim() < 2 or X.shape[-1] != width:
        raise BotorchTensorDimensionError(f"{name} of shape {tuple(X.shape)}: the last axis must be d + 1 = {width}")
    fidelity = _finite(name, X)[..., -1]
    wrong = (fidelity != fidelity.round()) | (fidelity < 0) | (fidelity >= num_fidelities)
    if wrong.any():
        raise InputDataError(
            f"{name}: fidelity {fidelity[wrong][0].item():g} in the last column must be a whole number in "
            f"0..{num_fidelities - 1}"
        )
    return X


def most_of(X: Tensor) -> int:
    """One more than the largest fidelity in the last column of points; 1 where there is none."""
    return int(X[..., -1].nan_to_num().max()) + 1 if X.numel() else 1


def _finite(name: str, X: Tensor) -> Tensor:
    if not X.isfinite().all():
        raise InputDataError(f"{name}: must be finite, found NaN or infinity")
    return X


def of_dataset(
    training_data: SupervisedDataset, fidelity_features: Sequence[int] | None, num_fidelities: int | None
) -> dict[str, Any]:
    """Data of a model of several fidelities from a BoTorch dataset of one outcome whose last feature is the fidelity,
    or a ``SettingError``; ``num_fidelities`` is by default one more than the largest fidelity in the data."""
    X = training_data.X
    if fidelity_features and [f % X.shape[-1] for f in fidelity_features] != [X.shape[-1] - 1]:
        raise SettingError("fidelity_features", list(fidelity_features), f"[{X.shape[-1] - 1}], the last column")
    inputs = {"train_X": X, "train_Y": training_data.Y}
    inputs["num_fidelities"] = num_fidelities or most_of(X)
    return inputs if training_data.Yvar is None else {**inputs, "train_Yvar": training_data.Yvar}
