r"""Covariances of many points as products of few columns, to a known error.

References:

.. [Harbrecht2012pivoted]
    H. Harbrecht, M. Peters, R. Schneider. On the low-rank approximation by the pivoted Cholesky
    decomposition. Applied Numerical Mathematics 62(4), 2012.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from mfbo_torch.ops.kernels import gram, gram_columns

FIRST_COLUMNS = 64
"""Number of columns that are allocated at first."""
ROUNDING_UNITS = 4.0
"""Smallest tolerance, in units of rounding of the largest entry."""
QUADRATIC_ERROR = 1e-10
"""Largest error of :func:`quadratic`, as a share of the largest variance and of the squared sum of the weights."""


def pivoted_cholesky(
    column: Callable[[int], Tensor], diagonal: Tensor, tolerance: float, max_rank: int
) -> tuple[Tensor, Tensor, list[int]]:
    r"""Columns ``F`` with :math:`K \approx F F^\top`, ``n x r``, the diagonal of the rest, ``n``, and the ``r`` pivots,
    whose rows of ``F`` are a lower triangle [Harbrecht2012pivoted]_.

    :math:`E = K - F F^\top` is positive semi-definite, so no entry of it is larger than the largest of its diagonal,
    :math:`0 \le w^\top E w \le |w|_1^2 \max_i E_{ii}`, and its norm is at most the sum of its diagonal. It ends where
    no entry of that is above ``tolerance``, which is at least some units of rounding, or at ``max_rank`` columns.
    """
    left = diagonal.clone()
    tolerance = (
        max(tolerance, ROUNDING_UNITS * torch.finfo(left.dtype).eps * left.max().item()) if len(left) else tolerance
    )
    n, rank = len(left), 0
    pivots: list[int] = []
    rows = left.new_empty(min(FIRST_COLUMNS, max_rank, n), n)
    while rank < min(max_rank, n):
        largest, pivot = left.max(0)
        if largest <= tolerance:
            break
        j = int(pivot)
        if rank == len(rows):
            rows = torch.cat([rows, rows.new_empty(min(len(rows), n - rank), n)])
        done = rows[:rank]
        row = column(j) - done.mT @ done[:, j]
        torch.mul(row, largest.rsqrt(), out=rows[rank])
        rows[rank, pivots] = 0.0
        left = (left - rows[rank].square()).clamp_min_(0.0)
        left[j] = 0.0
        pivots.append(j)
        rank += 1
    return rows[:rank].mT.contiguous(), left, pivots


def quadratic(kernel: Kernel, X: Tensor, W: Tensor) -> Tensor | None:
    r""":math:`W K W^\top`, ``t x t``, with the covariances of ``n x d`` points and ``t x n`` weights, differentiable in
    the kernel, from few columns; ``None`` where a quarter of the points is not enough for :data:`QUADRATIC_ERROR`.

    With pivots ``P`` and :math:`U = K_{PP}^{-1} K_{PX} W^\top` held fixed, the value and the gradient are those of
    :math:`W K_{XP} U + (W K_{XP} U)^\top - U^\top K_{PP} U`. The value is short by at most :data:`QUADRATIC_ERROR`
    times the largest variance and :math:`|w|_1^2`; the gradient's error is of the order of the root of that, since the
    rest is positive semi-definite.
    """
    with torch.no_grad():
        diagonal = kernel(X, diag=True)
        tolerance = QUADRATIC_ERROR * diagonal.max().item()
        F, left, pivots = pivoted_cholesky(gram_columns(kernel, X), diagonal, tolerance, len(X) // 4)
        if left.max() > tolerance:
            return None
        U = torch.linalg.solve_triangular(F[pivots].mT, (W @ F).mT, upper=True)
    half = W @ gram(kernel, X, X[pivots]) @ U
    return half + half.mT - U.mT @ gram(kernel, X[pivots], X[pivots]) @ U


class RidgeSolver:
    r"""Solves with :math:`C = L + \rho I`, for a covariance ``L`` of ``n`` points, factored once.

    Many points of a smooth process: from ``r`` columns :math:`G G^\top \approx L`, by
    :math:`C^{-1} B \approx (B - G (\rho I + G^\top G)^{-1} G^\top B) / \rho`, in ``O(n r)`` a right-hand side, if that
    changes no solution by more than :data:`ERROR` of its size. Else by a dense factor: only then ``matrix`` gives all
    of ``L``.
    """

    ERROR = 1e-9
    DENSE = 1000
    """Up to this many points the dense factor is as quick."""

    def __init__(
        self, column: Callable[[int], Tensor], matrix: Callable[[], Tensor], diagonal: Tensor, ridge: float
    ) -> None:
        self.ridge, n = ridge, len(diagonal)
        self.columns: Tensor | None = None
        if n > self.DENSE:
            wanted = self.ERROR * ridge / n
            columns, left, _ = pivoted_cholesky(column, diagonal, 0.1 * wanted, n // 4)
            if left.max() <= wanted and ROUNDING_UNITS * torch.finfo(diagonal.dtype).eps * diagonal.max() <= wanted:
                self.columns = columns
        if self.columns is None:
            covariance = matrix()
            covariance.diagonal().add_(ridge)
        else:
            covariance = self.columns.mT @ self.columns
            covariance.diagonal().add_(ridge)
        self.factor = torch.linalg.cholesky(covariance)

    def __call__(self, B: Tensor) -> Tensor:
        r""":math:`C^{-1} B` for ``n x m`` right-hand sides. Differentiable in them."""
        if self.columns is None:
            return torch.cholesky_solve(B, self.factor)
        inner = torch.cholesky_solve(self.columns.mT @ B, self.factor)
        return (B - self.columns @ inner) / self.ridge
