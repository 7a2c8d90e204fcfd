r"""Averages of kernels over windows, part by part: scales, sums, and products over different inputs.

.. math::
    E[s\, k] = s\, E[k], \quad E[k + k'] = E[k] + E[k'], \quad
    E[v\, X^\top X'] = v\, h(a)^\top h(a'), \quad
    E[k(X_I, X'_I)\, k'(X_J, X'_J)] = E[k]\, E[k'] \text{ for disjoint } I, J,

the last because the dimensions of a window are independent, as ``X`` and ``X'`` are given the queries. What is left
are correlations that mix RBF kernels (:mod:`~mfbo_torch.models.indirect.conditionals.closed_forms`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import torch
from botorch.exceptions import UnsupportedError
from gpytorch.kernels import (
    AdditiveKernel,
    ConstantKernel,
    Kernel,
    LinearKernel,
    MaternKernel,
    ProductKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)
from torch import Tensor

from mfbo_torch.models.indirect.conditionals import closed_forms
from mfbo_torch.ops.kernels import MATERNS, plain

CLOSED = "RBF, RQ, Matérn 1/2, 3/2, 5/2, linear or constant, scaled, added, or multiplied over different inputs"


class Independent(ABC):
    """``... x m`` distributions of inputs whose ``d`` dimensions are independent, with ``... x m x d`` centres
    ``location``."""

    location: Tensor

    @abstractmethod
    def averaged(self, distance: Tensor, squared: Tensor, j: int, other: Self | None) -> Tensor:
        """RBF correlation in dimension ``j`` averaged over these distributions (axis -2) and ``other`` ones or points
        (axis -1), whose centres are ``distance`` away; ``squared`` is the squared lengthscale."""

    @abstractmethod
    def over(self, dims: Tensor) -> Self:
        """These distributions in some of the dimensions."""


def average(
    kernel: Kernel, left: Independent, points: Tensor, right: Independent | None, chosen: bool = False
) -> Tensor:
    """Covariances ``... x m x n`` of ``... x m`` windows ``left`` with other windows ``right`` or, if ``None``, points;
    ``points`` are these or the centres, ``... x n x d``. ``chosen`` says that the kernel's ``active_dims`` are those
    that are here already. A kernel that is not :data:`CLOSED` raises an ``UnsupportedError``."""
    if kernel.active_dims is not None and not chosen:
        dims = kernel.active_dims
        left, points = left.over(dims), points.index_select(-1, dims)
        right = None if right is None else right.over(dims)
    if plain(kernel, ScaleKernel):
        return _number(kernel.outputscale) * average(kernel.base_kernel, left, points, right, chosen=True)
    if plain(kernel, AdditiveKernel):
        parts = [average(part, left, points, right) for part in kernel.kernels]
        return torch.stack(parts).sum(0)
    if plain(kernel, ProductKernel):
        _check_apart(kernel)
        parts = [average(part, left, points, right) for part in kernel.kernels]
        return torch.stack(parts).prod(0)
    if plain(kernel, LinearKernel):
        return (left.location * kernel.variance.reshape(-1)) @ points.mT
    if plain(kernel, ConstantKernel):
        return _number(kernel.constant) * points.new_ones(*left.location.shape[:-1], points.shape[-2])
    return _stationary(kernel, left, points, right)


def _stationary(kernel: Kernel, left: Independent, points: Tensor, right: Independent | None) -> Tensor:
    """A correlation that mixes RBF kernels: a sum of products over the dimensions."""
    d = left.location.shape[-1]
    parts = _mixture(kernel)
    lengthscale = kernel.lengthscale.reshape(-1)
    if len(lengthscale) not in (1, d):
        raise UnsupportedError(f"lengthscale of {type(kernel).__name__}: {len(lengthscale)} numbers, must be 1 or {d}")
    squared = lengthscale.expand(d).square()
    distances = [left.location[..., j].unsqueeze(-1) - points[..., j].unsqueeze(-2) for j in range(d)]
    total = points.new_zeros(*left.location.shape[:-1], points.shape[-2])
    for weight, factor in parts:
        product: Tensor | float = weight
        for j, distance in enumerate(distances):
            product = product * left.averaged(distance, squared[j] * factor, j, right)
        total = total + product
    return total


def _mixture(kernel: Kernel) -> list[tuple[float, float]] | list[tuple[Tensor, float]]:
    if plain(kernel, RBFKernel):
        return closed_forms.mixture("rbf")
    if plain(kernel, MaternKernel) and kernel.nu in MATERNS:
        return closed_forms.mixture(MATERNS[kernel.nu])
    if plain(kernel, RQKernel):
        return closed_forms.rational(_number(kernel.alpha))
    raise UnsupportedError(f"kernel = {type(kernel).__name__}: must be {CLOSED}")


def _check_apart(kernel: ProductKernel) -> None:
    """Raise an ``UnsupportedError`` where an input is in two factors, or a factor has all inputs."""
    seen: set[int] = set()
    for part in kernel.kernels:
        dims = None if part.active_dims is None else set(part.active_dims.tolist())
        if dims is None or seen & dims:
            raise UnsupportedError("kernel = ProductKernel: its factors must be of different inputs (active_dims)")
        seen |= dims


def _number(parameter: Tensor) -> Tensor:
    if parameter.numel() != 1:
        raise UnsupportedError(f"a parameter of {parameter.numel()} numbers: must be one, without batches")
    return parameter.reshape(())
