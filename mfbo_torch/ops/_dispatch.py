"""Which implementation of an operation runs, and why. Only here Triton is looked for."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from types import ModuleType
from typing import TypeVar

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

BACKENDS = ("auto", "torch", "triton")
OLDEST = (3, 5)
"""Version from which on Triton's float64 products are those of tensor cores: on sm_90 by m16n8k16 instructions, from
version 3.8 on by m8n8k4, half as fast (triton issues 10313 and 10060). With the former the kernels take a
quarter of torch's time at 1,024 cached points and 0.44 of it at 4,096 on an H200: at half the speed they are ahead."""
PIECES = 8
"""Number of parts in which a call is tried again after the device ran out of memory."""

Result = TypeVar("Result")


@cache
def triton_installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def interpreted() -> bool:
    """Whether Triton's kernels run on the CPU, which is for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def triton_version() -> tuple[int, int]:
    """Major and minor version of Triton."""
    major, minor, *_ = version("triton").split(".")
    return int(major), int(minor)


def choose(backend: str, X: Tensor) -> str:
    """``"torch"`` or ``"triton"``, see :func:`route`, with its error: ``auto`` follows the tensor's device and Triton's
    version."""
    return route(backend, X)[0]


def route(backend: str, X: Tensor) -> tuple[str, str]:
    """Which implementation runs for a tensor's device, and why; an ``UnsupportedError`` for an unknown backend, or
    Triton where it cannot run."""
    if backend not in BACKENDS:
        raise UnsupportedError(f"backend = {backend!r}: must be one of {', '.join(BACKENDS)}")
    if backend == "torch" or (backend == "auto" and not X.is_cuda):
        return "torch", "requested" if backend == "torch" else f"the tensor is on {X.device}"
    if backend == "auto":
        against = _against()
        return ("torch", against) if against else ("triton", f"the tensor is on {X.device}")
    if not triton_installed():
        raise UnsupportedError("backend = 'triton': Triton is not installed (pip install mfbo-torch[triton])")
    if not X.is_cuda and not interpreted():
        raise UnsupportedError(
            f"backend = 'triton': the tensor is on {X.device}, must be on a CUDA device (or TRITON_INTERPRET=1 be set "
            "before the first import, to test the kernels on the CPU)"
        )
    return "triton", "requested"


def _against() -> str:
    """Why Triton is not taken for a tensor on a CUDA device; empty where it is."""
    if not triton_installed():
        return "Triton is not installed"
    major, minor = triton_version()
    old = (major, minor) < OLDEST
    return f"Triton {major}.{minor} has no float64 products of tensor cores; 3.5 has" if old else ""


def kernels(operation: str) -> ModuleType:
    """The Triton file of an operation."""
    return importlib.import_module(f"mfbo_torch.ops.{operation}.triton")


def retrying(call: Callable[..., Result], join: Callable[[list[Result]], Result], need: str, *parts: Tensor) -> Result:
    """``call(*parts)`` of tensors ``... x m x d``; if the device runs out of memory, once more in :data:`PIECES` pieces
    of ``m``, whose results are joined. If these do not fit either, an ``OutOfMemoryError`` says what the call needs."""
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
