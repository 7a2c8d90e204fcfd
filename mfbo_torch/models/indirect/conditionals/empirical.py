r"""A conditional learned from samples: the conditional mean operator."""

from __future__ import annotations

import copy
import warnings
from typing import Any, Self

import torch
from botorch.exceptions import BotorchTensorDimensionError, BotorchWarning, InputDataError
from gpytorch.kernels import Kernel, RBFKernel
from torch import Tensor

from mfbo_torch.models.indirect.conditionals.base import check_queries, frozen
from mfbo_torch.models.indirect.conditionals.leave_one_out import choose, subset
from mfbo_torch.models.indirect.conditionals.weighted import WeightedConditional
from mfbo_torch.ops.kernels import gram
from mfbo_torch.ops.low_rank import RidgeSolver
from mfbo_torch.utils.validation import number

LEAST_SAMPLES = 1.0
"""Smallest effective sample size of a query without a warning."""


class EmpiricalConditional(WeightedConditional):
    r"""The conditional estimated from ``N`` samples :math:`(x_j, a_j)` by the conditional mean operator.

    .. math:: W(a) = (L_{aa} + N \lambda I)^{-1} \ell(\mathbf a, a)

    are the weights of the samples' inputs in the average at ``a`` [Chau2021deconditional]_,
    [Zhang2024indirect]_ (Eq. 12). The kernel :math:`\ell` and :math:`\lambda` are those with the least leave-one-out
    error unless they are given; of many samples some hundreds are used, which keeps :math:`N \lambda`.

    Where there are no samples the weights vanish and the average is unknown: a query with an effective sample size
    :math:`\sum_j \ell(a, a_j) / \ell(a, a)` below one gets a warning.

    Args:
        X: ``N x d`` inputs.
        A: ``N x p`` queries that they came from.
        covar_module: The kernel :math:`\ell` on queries; by default RBF with a lengthscale per dimension. It is copied
            and stays as it is.
        regularization: :math:`\lambda`.

    Raises:
        BotorchTensorDimensionError: Wrong shapes, or a query of another width than ``A``.
        InputDataError: No samples, NaN or infinity.
        SettingError: ``regularization`` is not positive.
    """

    points: Tensor
    queries: Tensor
    regularization: Tensor

    def __init__(
        self, X: Tensor, A: Tensor, *, covar_module: Kernel | None = None, regularization: float | None = None
    ) -> None:
        super().__init__()
        _check_samples(X, A)
        if regularization is not None:
            regularization = number("regularization", regularization, above=0)
        kernel = RBFKernel(ard_num_dims=A.shape[-1]) if covar_module is None else frozen(covar_module)
        self.register_buffer("points", X.detach())
        self.register_buffer("queries", A.detach())
        self.covar_module = kernel.to(A).requires_grad_(False)
        self._solver: RidgeSolver | None = None
        chosen = self._choose(covar_module is None, regularization)
        self.register_buffer("regularization", torch.tensor(chosen, dtype=torch.double, device=A.device))

    def _choose(self, free: bool, regularization: float | None) -> float:
        """Set the kernel if it is free; lambda."""
        n = len(self.queries)
        if not free and regularization is not None:
            return regularization
        some = subset(n, self.queries.device)
        X, A = self.points[some].double(), self.queries[some].double()
        known = None if free else gram(self.covar_module.double(), A, A).detach()
        lengthscale, ridge = choose(X, A, known, None if regularization is None else regularization * n)
        self.covar_module.to(self.queries)
        if lengthscale is not None:
            self.covar_module.lengthscale = lengthscale.to(self.queries)
        return ridge / n

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        if fn(self.queries) is not self.queries:
            self._solver = None
        return super()._apply(fn, recurse)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._solver = None
        super()._load_from_state_dict(*args, **kwargs)

    def solved(self, columns: Tensor) -> Tensor:
        r""":math:`(L_{aa} + N \lambda I)^{-1}` times ``N x c`` columns, in double precision."""
        if self._solver is None:
            with torch.no_grad():
                A, kernel = self.queries.double(), copy.deepcopy(self.covar_module).double()
                self._solver = RidgeSolver(
                    lambda j: gram(kernel, A, A[j : j + 1]).squeeze(-1),
                    lambda: gram(kernel, A, A),
                    kernel(A, diag=True),
                    self.regularization.item() * len(A),
                )
        return self._solver(columns.double())

    def rows(self, A: Tensor) -> Tensor:
        r""":math:`\ell(a, \mathbf a)`, ``... x m x N``, in double precision; warns of queries without samples near."""
        check_queries(A, self.queries.shape[-1])
        values = self._similarities(A)
        with torch.no_grad():
            size = self._sizes(A, values)
            if size.numel() and size.min() < LEAST_SAMPLES:
                where = A.reshape(-1, A.shape[-1])[size.flatten().argmin()]
                message = (
                    f"The query {[round(v, 4) for v in where.tolist()]} is far outside D1: its effective sample size "
                    f"is {size.min().item():.2g}, must be at least {LEAST_SAMPLES:g} for its average to be known."
                )
                warnings.warn(message, BotorchWarning, stacklevel=4)
        return values

    def _similarities(self, A: Tensor) -> Tensor:
        return gram(self.covar_module, A, self.queries).double()

    def _sizes(self, A: Tensor, values: Tensor) -> Tensor:
        return values.sum(-1) / self.covar_module(A, diag=True)

    def effective_sample_size(self, A: Tensor) -> Tensor:
        r""":math:`\sum_j \ell(a, a_j) / \ell(a, a)`, ``... x m``: the number of samples near each query."""
        check_queries(A, self.queries.shape[-1])
        return self._sizes(A, self._similarities(A)).to(A)


def _check_samples(X: Tensor, A: Tensor) -> None:
    for name, data in (("X", X), ("A", A)):
        if data.dim() != 2:
            raise BotorchTensorDimensionError(f"{name} of shape {tuple(data.shape)}: must be N x its dimension")
    if len(X) != len(A):
        raise BotorchTensorDimensionError(f"A of {len(A)} rows: must have one a row of X, which has {len(X)}")
    if len(X) == 0:
        raise InputDataError("D1: must have at least one sample, found none")
    for name, data in (("X", X), ("A", A)):
        if not data.isfinite().all():
            raise InputDataError(f"{name}: must be finite, found NaN or infinity")
