"""Random numbers for libraries that draw them from PyTorch's one generator, from a private one instead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import torch
from botorch import fit
from botorch.optim import initializers
from botorch.sampling import normal
from botorch.utils import sampling
from torch import Tensor
from torch.overrides import TorchFunctionMode

_LIKE: dict[Callable[..., Any], Callable[..., Any]] = {torch.rand_like: torch.rand, torch.randn_like: torch.randn}
_DRAWING: set[Callable[..., Any]] = {
    *_LIKE,
    *(getattr(torch, name) for name in ("rand", "randn", "randint", "randperm", "multinomial", "normal", "bernoulli")),
    *(getattr(Tensor, f"{name}_") for name in ("normal", "uniform", "random", "exponential", "bernoulli")),
    Tensor.multinomial,
}
_here = threading.local()


class PrivateDraws(TorchFunctionMode):
    """What this thread draws in the context comes from its own generators, one a device, with the numbers that
    ``torch.manual_seed(seed)`` would lead to. PyTorch's own generator is neither used nor changed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed, self._generators = seed, dict[torch.device, torch.Generator]()

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in _DRAWING or kwargs.get("generator") is not None:
            return func(*args, **kwargs)
        tensors = [value for value in args if isinstance(value, Tensor)]
        if func in _LIKE:
            like = {"dtype": tensors[0].dtype, "device": tensors[0].device, **kwargs}
            like.pop("memory_format", None)
            func, args, kwargs = _LIKE[func], (tensors[0].shape,), like
        place = kwargs.get("device") or (tensors[0].device if tensors else torch.get_default_device())
        return func(*args, **{**kwargs, "generator": self._generator(torch.device(place))})

    def __enter__(self) -> Self:
        self._outer = getattr(_here, "draws", None)
        _here.draws = self
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        _here.draws = self._outer
        super().__exit__(*error)

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[device]


@contextmanager
def _manual_seed(seed: int | None = None) -> Iterator[None]:
    """BoTorch's context of this name, which seeds PyTorch's generator; private draws it seeds instead."""
    draws: PrivateDraws | None = getattr(_here, "draws", None)
    if draws is None or seed is None:
        with _BOTORCHS(seed):
            yield
        return
    former = draws._seed, draws._generators
    draws._seed, draws._generators = seed, {}
    try:
        yield
    finally:
        draws._seed, draws._generators = former


_BOTORCHS = sampling.manual_seed
for _module in (sampling, initializers, normal):
    _module.manual_seed = _manual_seed


@contextmanager
def private_retries(seed: int) -> Iterator[None]:
    """Fits by BoTorch whose new starts, after one that failed, are drawn privately. They draw nothing else, and all
    that they compute would go through :class:`PrivateDraws`."""
    former, _here.retries = getattr(_here, "retries", None), PrivateDraws(seed)
    try:
        yield
    finally:
        _here.retries = former


def _sample_all_priors(*args: Any, **kwargs: Any) -> None:
    with getattr(_here, "retries", None) or nullcontext():
        _BOTORCHS_SAMPLES(*args, **kwargs)


_BOTORCHS_SAMPLES = fit.sample_all_priors
fit.sample_all_priors = _sample_all_priors
