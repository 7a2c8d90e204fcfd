"""The global settings of libraries that decisions depend on, protected from objectives in the same process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

CPU = torch.device("cpu")


class GlobalState:
    """The settings of PyTorch, NumPy and warnings when it is made: default type and device, gradients, deterministic
    algorithms, threads, floating-point errors, filters of warnings. Random numbers are not among them: decisions have
    their own generators."""

    def __init__(self) -> None:
        self._read()

    def _read(self) -> None:
        self._dtype, self._device = torch.get_default_dtype(), _default_device()
        self._grad, self._deterministic = torch.is_grad_enabled(), torch.get_deterministic_debug_mode()
        self._threads = torch.get_num_threads()
        self._errors = np.geterr()
        self._filters = list(warnings.filters)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """A context for decisions, which are the same whatever the caller has set: these settings, but with gradients
        and tensors of PyTorch's own type on the CPU unless said otherwise; afterwards those from before it are back."""
        with torch.inference_mode(False), self._entered(CPU, torch.float32, True):
            yield

    @contextmanager
    def continued(self) -> Iterator[None]:
        """A context with these settings, and what it changes in them kept for the next such context; afterwards those
        from before it are back."""
        with self._entered(self._device, self._dtype, self._grad):
            try:
                yield
            finally:
                self._read()

    def enter_thread(self) -> None:
        """Give a new thread the settings that are kept for each: default device and gradients."""
        if self._device != CPU:
            torch.set_default_device(self._device)
        torch.set_grad_enabled(self._grad)

    @contextmanager
    def _entered(self, device: torch.device, dtype: torch.dtype, grad: bool) -> Iterator[None]:
        found = GlobalState()
        with warnings.catch_warnings():
            warnings.filters[:] = self._filters  # type: ignore[index]
            self._set(device, dtype, grad)
            try:
                yield
            finally:
                found._set(found._device, found._dtype, found._grad)

    def _set(self, device: torch.device, dtype: torch.dtype, grad: bool) -> None:
        torch.set_default_dtype(dtype)
        if _default_device() != device:
            torch.set_default_device(None if device == CPU else device)
        torch.set_grad_enabled(grad)
        if torch.get_deterministic_debug_mode() != self._deterministic:
            torch.set_deterministic_debug_mode(self._deterministic)
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        np.seterr(**self._errors)


def _default_device() -> torch.device:
    """The default device as it was set; torch's own function makes a tensor on it, which fails without a GPU."""
    modes = reversed(_get_current_function_mode_stack())
    return next((mode.device for mode in modes if isinstance(mode, DeviceContext)), CPU)
