"""Gradients in closed form, which have no gradient themselves."""

from __future__ import annotations

from typing import Any

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor


class Once(torch.autograd.Function):
    """A gradient that cannot be differentiated itself: that raises an ``UnsupportedError``."""

    @staticmethod
    def forward(ctx: Any, of: str, gradient: Tensor, *causes: Tensor) -> Tensor:
        ctx.of = of
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise UnsupportedError(f"{ctx.of}: has a first derivative in X only, a second one was requested")
