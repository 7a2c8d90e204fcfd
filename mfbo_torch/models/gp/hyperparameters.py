"""Whether the hyper-parameters of a model are still those that something was made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from gpytorch.likelihoods.noise_models import FixedGaussianNoise
from torch import Tensor
from torch.nn import Module

MOST_BYTES = 2**16
"""Largest size in bytes of a tensor that is compared by value: of more, such as a network's, it would take long."""


class Hyperparameters:
    """The hyper-parameters of a module as they are now: its parameters and its known noise variances.

    GPyTorch's properties, such as ``kernel.lengthscale = 0.3``, write past PyTorch's count of changes. So small tensors
    on the processor are compared by value. On a GPU, where that would wait for the device, the count decides.
    """

    def __init__(self, module: Module) -> None:
        noises = [part for part in module.modules() if isinstance(part, FixedGaussianNoise)]
        self._watch(tuple(module.parameters()), noises)

    def _watch(self, parameters: Sequence[Tensor], noises: Sequence[FixedGaussianNoise]) -> None:
        self._parameters, self._noises = parameters, noises
        addresses = [parameter.data_ptr for parameter in parameters] + [partial(_address, noise) for noise in noises]
        tensors = [*parameters, *(noise.noise for noise in noises)]
        # the address first: the memory behind a former one may be gone
        reads = [read for pair in zip(addresses, map(_reader, tensors), strict=True) for read in pair]
        self._seen = [(read, read()) for read in reads]

    def unchanged(self) -> bool:
        """Whether they still are what they were."""
        for read, seen in self._seen:  # noqa: SIM110 - a generator takes longer
            if read() != seen:
                return False
        return True

    def __getstate__(self) -> tuple[Any, ...]:
        return self._parameters, self._noises, self.unchanged()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        parameters, noises, unchanged = state
        self._watch(parameters, noises)
        if not unchanged:
            self._seen = [(bool, True)]  # changed, whatever comes


def _address(noise: FixedGaussianNoise) -> int:
    return noise.noise.data_ptr()


def _reader(tensor: Tensor) -> Callable[[], Any]:
    """What differs after a change of a tensor: its values or the count of its changes."""
    if tensor.is_cpu and tensor.dtype in (torch.float, torch.double) and tensor.nbytes <= MOST_BYTES:
        return tensor.detach().numpy().tobytes
    return partial(getattr, tensor, "_version")
