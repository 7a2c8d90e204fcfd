r"""Conditionals that put weights on a finite set of inputs."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from mfbo_torch.models.indirect.conditionals.base import Conditional, Embedding, Function, of_kind
from mfbo_torch.ops.kernels import CHUNK_BYTES, gram, gram_columns, gram_product
from mfbo_torch.ops.low_rank import pivoted_cholesky, quadratic

DENSE_POINTS = 500
"""Largest number of points whose covariances with a gradient are dense; of more they come from few columns."""
VARIANCE_ERROR = 1e-12
"""Largest error of a prior variance of the inputs, as a share of the largest of them."""


@dataclass(frozen=True)
class Weights(Embedding):
    """Weights ``... x m x n`` on ``n x d`` points, a row a query, which need not sum to one
    [Chau2021deconditional]_ (Section 3)."""

    points: Tensor
    weights: Tensor

    def mean(self, mean: Function) -> Tensor:
        return self.weights @ mean(self.points)

    def cross(self, kernel: Kernel, X: Tensor) -> Tensor:
        return gram_product(kernel, X, self.points, self.weights.mT)

    def covariance(self, kernel: Kernel, other: Embedding) -> Tensor:
        if other is self and self.weights.dim() == 2 and len(self.points) > DENSE_POINTS and torch.is_grad_enabled():
            product = quadratic(kernel, self.points, self.weights)
            if product is not None:
                return product
        return self.weights @ other.cross(kernel, self.points)

    def variance(self, kernel: Kernel) -> Tensor:
        return (self.cross(kernel, self.points) * self.weights.mT).sum(-2)

    def joined(self, other: Embedding) -> Weights:
        other = of_kind(Weights, other)
        return Weights(self.points, torch.cat([self.weights, other.weights], -2))


class WeightedConditional(Conditional):
    r"""A conditional that a query turns into weights :math:`C^{-1} c(a)` on the ``n x d`` inputs ``points``, with rows
    :math:`c(a)^\top` and a fixed matrix ``C``."""

    points: Tensor

    @abstractmethod
    def rows(self, A: Tensor) -> Tensor:
        """``... x m x n`` rows of ``... x m x p`` queries."""

    def solved(self, columns: Tensor) -> Tensor:
        r""":math:`C^{-1}` times ``n x c`` columns; ``C`` is the identity unless a subclass has another."""
        return columns

    def weights(self, A: Tensor) -> Tensor:
        """``... x m x n`` weights of ``... x m x p`` queries."""
        rows = self.rows(A)
        flat = rows.reshape(-1, rows.shape[-1])
        return self.solved(flat.mT).mT.reshape(rows.shape).to(A)

    def embed(self, A: Tensor) -> Weights:
        return Weights(self.points, self.weights(A))

    def features(self, kernel: Kernel, mean: Function) -> WeightedFeatures:
        r"""With :math:`K_{xx} \approx F F^\top` the features are :math:`F^\top W(a)`, few for a smooth kernel. The
        variance of a query is too small by at most :math:`|W(a)|_1^2` times :data:`VARIANCE_ERROR` times the largest
        variance of an input."""
        with torch.no_grad():
            kernel = copy.deepcopy(kernel).double()
            X = self.points.double()
            diagonal = kernel(X, diag=True)
            tolerance = VARIANCE_ERROR * diagonal.max().item()
            F, left, _ = pivoted_cholesky(gram_columns(kernel, X), diagonal, tolerance, max(len(X) // 4, 400))
            if left.max() > tolerance:
                F = _dense(gram(kernel, X, X), tolerance)
            means = mean(self.points).double().reshape(-1, 1)
            return WeightedFeatures(self, self.solved(torch.cat([means, F], -1)))

    def extent(self, A: Tensor) -> Tensor:
        return self.points.amax(0) - self.points.amin(0)


@dataclass(frozen=True)
class WeightedFeatures:
    """Prior means and features of queries under one kernel, see :meth:`WeightedConditional.features`: the rows of a
    conditional times a matrix ``n x (1 + r)``, the first column for the mean."""

    conditional: WeightedConditional
    matrix: Tensor

    def __call__(self, A: Tensor) -> tuple[Tensor, Tensor]:
        flat = A.reshape(-1, A.shape[-1])
        step = len(flat) if A.requires_grad and torch.is_grad_enabled() else CHUNK_BYTES // (8 * len(self.matrix))
        product = torch.cat([self.conditional.rows(part) @ self.matrix for part in flat.split(max(step, 1))])
        product = product.to(A).reshape(*A.shape[:-1], self.matrix.shape[-1])
        return product[..., 0], product[..., 1:]


def _dense(covariance: Tensor, tolerance: float) -> Tensor:
    """A square factor of ``n x n`` covariances plus a diagonal of ``tolerance``, or as much more as it takes."""
    factor, failed = torch.linalg.cholesky_ex(covariance + tolerance * torch.eye(len(covariance)).to(covariance))
    return factor if not failed else _dense(covariance, 10 * tolerance)
