r"""The contract of a conditional: means and covariances of queries under a kernel."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from gpytorch.kernels import Kernel
from torch import Tensor

Function = Callable[[Tensor], Tensor]
"""From ``... x n x d`` points to ``... x n`` values, as GPyTorch's means are."""
Features = Callable[[Tensor], tuple[Tensor, Tensor]]
r"""From ``... x m x p`` queries to ``... x m`` prior means and ``... x m x r`` features whose products are
the prior covariances."""


class Embedding(ABC):
    """``... x m`` queries as what they average over, for any kernel ``k`` and mean ``m`` on the inputs
    [Zhang2024indirect]_ (Eqs. 2, 3)."""

    @abstractmethod
    def mean(self, mean: Function) -> Tensor:
        r""":math:`\nu(a) = E[m(X) \mid a]`, ``... x m``."""

    @abstractmethod
    def cross(self, kernel: Kernel, X: Tensor) -> Tensor:
        r""":math:`E[k(x, X) \mid a]`, ``... x n x m`` at ``... x n x d`` inputs."""

    @abstractmethod
    def covariance(self, kernel: Kernel, other: Embedding) -> Tensor:
        r""":math:`q(a, a') = E[k(X, X') \mid a, a']`, ``... x m x p``."""

    @abstractmethod
    def variance(self, kernel: Kernel) -> Tensor:
        """``q(a, a)``, ``... x m``."""

    @abstractmethod
    def joined(self, other: Embedding) -> Embedding:
        """These queries and ``other`` ones of the same kind behind them."""


class Conditional(torch.nn.Module, ABC):
    r"""The distribution of the input ``X`` that a query ``a`` averages over, :math:`p(x \mid a)`.

    A subclass embeds queries (:meth:`embed`); means and covariances under a kernel follow. Nothing of a
    conditional is fitted together with the kernel.
    """

    @abstractmethod
    def embed(self, A: Tensor) -> Embedding:
        """``... x m x p`` queries as what they average over."""

    def features(self, kernel: Kernel, mean: Function) -> Features | None:
        r"""Means and features under one kernel, where many queries are quicker that way; else ``None``."""
        return None

    @abstractmethod
    def extent(self, A: Tensor) -> Tensor:
        """The extent of the inputs in each of the ``d`` dimensions, given some ``m x p`` queries."""

    def mean(self, mean_module: Function, A: Tensor) -> Tensor:
        r"""Prior mean :math:`\nu(a) = E[m(X) \mid a]` [Zhang2024indirect]_ (Eq. 2), ``... x m``."""
        return self.embed(A).mean(mean_module)

    def cross(self, kernel: Kernel, X: Tensor, A: Tensor) -> Tensor:
        r"""Covariance :math:`E[k(x, X) \mid a]` of ``f`` at ``... x n x d`` inputs with ``g``, ``... x n x m``."""
        return self.embed(A).cross(kernel, X)

    def covariance(self, kernel: Kernel, A: Tensor, other: Tensor | None = None) -> Tensor:
        r"""Prior covariance :math:`q(a, a')` [Zhang2024indirect]_ (Eq. 3), ``... x m x p``."""
        embedding = self.embed(A)
        return embedding.covariance(kernel, embedding if other is None else self.embed(other))

    def variance(self, kernel: Kernel, A: Tensor) -> Tensor:
        """Prior variance ``q(a, a)``, ``... x m``."""
        return self.embed(A).variance(kernel)


E = TypeVar("E", bound=Embedding)


def of_kind(kind: type[E], other: Embedding) -> E:
    """``other``, if it is of that kind; else an ``UnsupportedError``: queries of two kinds have no covariance."""
    if not isinstance(other, kind):
        raise UnsupportedError(f"other = {type(other).__name__}: must be {kind.__name__}, from the same conditional")
    return other


def frozen(module: Any) -> Any:
    """A copy of a module without free parameters and priors; anything else as it is."""
    if not isinstance(module, torch.nn.Module):
        return module
    module = copy.deepcopy(module).requires_grad_(False)
    for part in module.modules():
        if hasattr(part, "_priors"):
            part._priors.clear()
    return module


def check_queries(A: Tensor, width: int | None = None) -> None:
    """``... x m x p`` finite queries, ``p`` as wide as ``width`` if given; else a ``BotorchTensorDimensionError`` for
    the shape, an ``InputDataError`` for NaN and infinity."""
    if A.dim() < 2 or width not in (None, A.shape[-1]):
        wanted = "... x m x p" if width is None else f"... x m x {width}, as wide as those of D1"
        raise BotorchTensorDimensionError(f"queries of shape {tuple(A.shape)}: must be {wanted}")
    if not A.isfinite().all():
        raise InputDataError("queries: must be finite, found NaN or infinity")
