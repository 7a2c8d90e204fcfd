r"""Covariances of many points as products of few columns, to a known error.

References:

.. [Harbrecht2012pivoted]
    H. Harbrecht, M. Peters, R. Schneider. On the low-rank approximation by the pivoted Cholesky
    decomposition. Applied Numerical Mathematics 62(4), 2012.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

START = 64
"""Columns that are allocated at first."""


def pivoted_cholesky(
    column: Callable[[int], Tensor], diagonal: Tensor, tolerance: float, max_rank: int
) -> tuple[Tensor, Tensor]:
    r"""Columns ``F`` with :math:`K \approx F F^\top`, and the diagonal of what is left [Harbrecht2012pivoted]_.

    :math:`E = K - F F^\top` is positive semi-definite, so no entry of it is larger than the largest of its
    diagonal, :math:`0 \le w^\top E w \le |w|_1^2 \max_i E_{ii}`, and its norm is at most the sum of its diagonal.

    Args:
        column: The ``j``-th column of ``K``, ``n`` numbers.
        diagonal: That of ``K``, ``n`` numbers.
        tolerance: Largest entry of the diagonal that may be left.
        max_rank: Most columns.

    Returns:
        ``n x r`` columns, and the ``n`` numbers left on the diagonal, none negative.
    """
    left = diagonal.clone()
    n, rank = len(left), 0
    rows = left.new_empty(min(START, max_rank, n), n)
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
        left = (left - rows[rank].square()).clamp_min_(0.0)
        left[j] = 0.0
        rank += 1
    return rows[:rank].mT.contiguous(), left


class RidgeSolver:
    r"""Solves with :math:`C = L + \rho I`, for a covariance ``L`` of ``n`` points, factored once.

    Many points of a smooth process: from ``r`` columns :math:`G G^\top \approx L`, by
    :math:`C^{-1} B \approx (B - G (\rho I + G^\top G)^{-1} G^\top B) / \rho`, in ``O(n r)`` a right-hand side,
    if that changes no solution by more than :data:`ERROR` of its size. Else by a dense factor.

    Args:
        column: The ``j``-th column of ``L``.
        matrix: The whole of ``L``; only called if it is needed.
        diagonal: ``n`` numbers.
        ridge: :math:`\rho > 0`.
    """

    ERROR = 1e-10
    DENSE = 1000
    """Up to this many points the dense factor is as quick."""

    def __init__(
        self, column: Callable[[int], Tensor], matrix: Callable[[], Tensor], diagonal: Tensor, ridge: float
    ) -> None:
        self.ridge, n = ridge, len(diagonal)
        self.columns: Tensor | None = None
        if n > self.DENSE:
            wanted = self.ERROR * ridge
            columns, left = pivoted_cholesky(column, diagonal, wanted / n, n // 4)
            if left.sum() <= wanted:
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
