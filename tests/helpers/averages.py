"""Averages of a Gaussian process by plain NumPy: kernels, windows by quadrature, equations (10)-(12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from dense import gpytorch_kernel
from gpytorch.kernels import Kernel
from gpytorch.means import LinearMean

LENGTHSCALE = np.array([0.3, 0.45])
OUTPUTSCALE = 1.7
SLOPE, OFFSET = np.array([0.8, -0.5]), 0.6
NODES = 80


def kernel(kind: str = "rbf", lengthscale: np.ndarray = LENGTHSCALE, outputscale: float = OUTPUTSCALE) -> Kernel:
    """GPyTorch's kernel with the hyper-parameters above."""
    scaled = gpytorch_kernel(kind, len(lengthscale)).double()
    scaled.base_kernel.lengthscale = torch.as_tensor(lengthscale)
    scaled.outputscale = torch.tensor(outputscale, dtype=torch.double)
    return scaled


def gram(A: np.ndarray, B: np.ndarray, kind: str = "rbf", lengthscale: np.ndarray = LENGTHSCALE) -> np.ndarray:
    """Covariances of that kernel."""
    r = np.sqrt((((A[:, None] - B[None]) / lengthscale) ** 2).sum(-1))
    s = r * {"rbf": 1.0, "matern12": 1.0, "matern32": np.sqrt(3), "matern52": np.sqrt(5)}[kind]
    if kind == "rbf":
        return OUTPUTSCALE * np.exp(-0.5 * r**2)
    return OUTPUTSCALE * {"matern12": 1, "matern32": 1 + s, "matern52": 1 + s + s**2 / 3}[kind] * np.exp(-s)


def linear_mean() -> LinearMean:
    """An affine mean."""
    mean = LinearMean(2).double()
    mean.weights.data = torch.as_tensor(SLOPE)[:, None].clone()
    mean.bias.data = torch.tensor([OFFSET], dtype=torch.double)
    return mean


def mean(X: np.ndarray) -> np.ndarray:
    return X @ SLOPE + OFFSET


def embed(rows: list[tuple[np.ndarray, np.ndarray]]) -> Prior:
    """Queries that are weights on points, each with its own."""
    points = np.concatenate([x for x, _ in rows])
    ends = np.cumsum([len(w) for _, w in rows])
    W = np.zeros((len(rows), len(points)))
    for i, (end, (_, w)) in enumerate(zip(ends, rows, strict=True)):
        W[i, end - len(w) : end] = w
    return Prior(points, W)


@dataclass
class Prior:
    """``t`` queries as weights ``W`` on ``n`` points."""

    points: np.ndarray
    W: np.ndarray

    def mean(self) -> np.ndarray:
        return self.W @ mean(self.points)

    def cross(self, X: np.ndarray, kind: str = "rbf") -> np.ndarray:
        return gram(X, self.points, kind) @ self.W.T

    def covariance(self, other: Prior, kind: str = "rbf") -> np.ndarray:
        return self.W @ gram(self.points, other.points, kind) @ other.W.T


def window(centre: np.ndarray, width: np.ndarray, shape: str, nodes: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """One window as points and weights: a product of Gauss rules, exact for smooth kernels."""
    if shape == "gaussian":
        t, w = np.polynomial.hermite_e.hermegauss(nodes)
    else:
        t, w = np.polynomial.legendre.leggauss(nodes)
    w = w / w.sum()
    points = np.stack(np.meshgrid(*[c + s * t for c, s in zip(centre, width, strict=True)], indexing="ij"), -1)
    return points.reshape(-1, len(centre)), (np.multiply.outer(w, w) if len(centre) == 2 else w).reshape(-1)


def empirical(X: np.ndarray, A: np.ndarray, ell: Callable, regularization: float) -> Callable[[np.ndarray], Prior]:
    """Equation (12)'s weights by a dense solve."""
    C = ell(A, A) + len(A) * regularization * np.eye(len(A))
    return lambda queries: Prior(X, np.linalg.solve(C, ell(A, queries)).T)


def posterior(
    data: Prior, Z: np.ndarray, noise: np.ndarray, X: np.ndarray, queries: Prior, kind: str = "rbf"
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance of ``f`` at ``X`` and of ``g`` at queries, by equations (10)-(12)."""
    M = np.linalg.inv(data.covariance(data, kind) + np.diag(noise))
    U, Q = data.cross(X, kind), queries.covariance(data, kind)
    residuals = Z - data.mean()
    return (
        mean(X) + U @ M @ residuals,
        gram(X, X, kind) - U @ M @ U.T,
        queries.mean() + Q @ M @ residuals,
        queries.covariance(queries, kind) - Q @ M @ Q.T,
    )
