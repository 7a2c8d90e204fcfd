"""Observations that a model can be made of, or an error that names what is wrong with them."""

from __future__ import annotations

from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor


def check_observations(Y: Tensor, Yvar: Tensor | None, inputs: Tensor, names: tuple[str, str, str], size: str) -> None:
    """See whether there is one finite observation for each input, and no negative noise variance.

    Args:
        Y: Observations.
        Yvar: Noise variances, where they are known.
        inputs: ``size x ...``.
        names: What the model calls the observations, the variances and the inputs.
        size: What it calls their number.

    Raises:
        BotorchTensorDimensionError: Not ``size x 1``.
        InputDataError: NaN, infinity, or a negative variance.
    """
    for name, data in zip(names, (Y, Yvar), strict=False):
        if data is None:
            continue
        if data.shape != (len(inputs), 1):
            wanted = f"{size} x 1 with {size} = {len(inputs)} as in {names[2]}"
            raise BotorchTensorDimensionError(f"{name} of shape {tuple(data.shape)}: must be {wanted}")
        if not data.isfinite().all():
            raise InputDataError(f"{name}: must be finite, found NaN or infinity")
    if Yvar is not None and (Yvar < 0).any():
        raise InputDataError(f"{names[1]} = {Yvar.min().item():g}: must not be negative")
