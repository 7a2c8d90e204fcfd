"""Which implementation of an operation runs, and why. The only place that asks whether Triton is there."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import TypeVar

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

BACKENDS = ("auto", "torch", "triton")
PIECES = 8
"""Parts of a call that is tried again after the device ran out of memory."""

Result = TypeVar("Result")


@cache
def triton_installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def interpreted() -> bool:
    """Whether Triton's kernels run on the CPU, which they do only to be tested."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def choose(backend: str, X: Tensor) -> str:
    """``"torch"`` or ``"triton"``: ``auto`` follows the tensor's device.

    Raises:
        UnsupportedError: An unknown backend, or Triton where it cannot run.
    """
    if backend == "torch" or (backend == "auto" and not X.is_cuda):
        return "torch"
    if backend == "auto":
        return "triton" if triton_installed() else "torch"
    if backend != "triton":
        raise UnsupportedError(f"backend = {backend!r}: must be one of {', '.join(BACKENDS)}")
    if not triton_installed():
        raise UnsupportedError("backend = 'triton': Triton is not installed (pip install mfbo-torch[triton])")
    if not X.is_cuda and not interpreted():
        raise UnsupportedError(
            f"backend = 'triton': the tensor is on {X.device}, must be on a CUDA device (or TRITON_INTERPRET=1 be set "
            "before the first import, to test the kernels on the CPU)"
        )
    return "triton"


def kernels(operation: str) -> ModuleType:
    """The Triton file of an operation."""
    return importlib.import_module(f"mfbo_torch.ops.{operation}.triton")


def retrying(call: Callable[..., Result], join: Callable[[list[Result]], Result], need: str, *parts: Tensor) -> Result:
    """``call(*parts)``; if the device runs out of memory, once more in :data:`PIECES` pieces of ``m``.

    Args:
        call: Takes tensors ``... x m x d``.
        join: Puts the results of the pieces together.
        need: What the call needs, for the error.
        parts: The tensors, cut along their last axis but one.

    Raises:
        torch.OutOfMemoryError: The pieces do not fit either; says what was needed.
    """
    try:
        return call(*parts)
    except torch.OutOfMemoryError:
        pass  # outside of the handler the failed call's tensors are free again
    if parts[0].is_cuda:
        torch.cuda.empty_cache()
    try:
        size = max(-(-parts[0].shape[-2] // PIECES), 1)
        pieces = zip(*(part.split(size, -2) for part in parts), strict=True)
        return join([call(*piece) for piece in pieces])
    except torch.OutOfMemoryError as error:
        raise torch.OutOfMemoryError(f"{need}; {PIECES} pieces one after another did not fit either: {error}") from None
