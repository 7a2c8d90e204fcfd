"""Conditionals that put weights on a finite set of inputs."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from mfbo_torch.models.conditionals.base import Conditional, Embedding, Function
from mfbo_torch.ops.kernels import gram


@dataclass(frozen=True)
class Weights(Embedding):
    """Weights ``... x m x n`` on ``n x d`` points; [Chau2021deconditional]_ (Section 3.2).

    Args:
        points: The inputs that are averaged over.
        weights: One row a query; they need not sum to one.
    """

    points: Tensor
    weights: Tensor

    def mean(self, mean: Function) -> Tensor:
        return self.weights @ mean(self.points)

    def cross(self, kernel: Kernel, X: Tensor) -> Tensor:
        return gram(kernel, X, self.points) @ self.weights.mT

    def covariance(self, kernel: Kernel, other: Embedding) -> Tensor:
        return self.weights @ other.cross(kernel, self.points)

    def variance(self, kernel: Kernel) -> Tensor:
        return (self.weights @ gram(kernel, self.points, self.points) * self.weights).sum(-1)

    def joined(self, other: Embedding) -> Weights:
        assert isinstance(other, Weights)
        return Weights(self.points, torch.cat([self.weights, other.weights], -2))


class WeightedConditional(Conditional):
    """A conditional that a query turns into weights on the ``n x d`` inputs ``points``."""

    points: Tensor

    @abstractmethod
    def weights(self, A: Tensor) -> Tensor:
        """``... x m x n`` weights of ``... x m x p`` queries."""

    def embed(self, A: Tensor) -> Weights:
        return Weights(self.points, self.weights(A))

    def extent(self, A: Tensor) -> Tensor:
        return self.points.amax(0) - self.points.amin(0)
