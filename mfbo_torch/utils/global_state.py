"""The global settings of libraries that decisions depend on, protected from objectives in the same process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


class GlobalState:
    """The settings of PyTorch, NumPy and warnings when it is made: default type and device, gradients, deterministic
    algorithms, threads, floating-point errors, filters of warnings. Random numbers are not among them: decisions have
    their own generators."""

    def __init__(self) -> None:
        self._dtype, self._device = torch.get_default_dtype(), torch.get_default_device()
        self._grad, self._deterministic = torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled()
        self._threads = torch.get_num_threads()
        self._errors = np.geterr()
        self._filters = list(warnings.filters)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """A context with these settings; afterwards those from before it are back."""
        found = GlobalState()
        with warnings.catch_warnings():
            warnings.filters[:] = self._filters  # type: ignore[index]
            self._set()
            try:
                yield
            finally:
                found._set()

    def _set(self) -> None:
        torch.set_default_dtype(self._dtype)
        if torch.get_default_device() != self._device:
            torch.set_default_device(None if self._device == torch.device("cpu") else self._device)
        torch.set_grad_enabled(self._grad)
        if torch.are_deterministic_algorithms_enabled() != self._deterministic:
            torch.use_deterministic_algorithms(self._deterministic)
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        np.seterr(**self._errors)
