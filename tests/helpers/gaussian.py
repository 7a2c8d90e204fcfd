"""Factors of Gaussian processes with hyper-parameters set by hand, and posteriors in long double."""

import numpy as np
import torch

from mfbo_torch.ops.cache import Cache, extend, factorize
from mfbo_torch.ops.posterior.reference import mean_variance

NOISE = 1e-3


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.double) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double).to(dtype)


def factor(
    X: torch.Tensor,
    residuals: torch.Tensor | None = None,
    kind: str = "rbf",
    noise: float = NOISE,
    mask: torch.Tensor | None = None,
) -> Cache:
    """The factor with lengthscales 0.3, 0.4, ..., output scales 1.7, 2.7, ... and constant 0.4."""
    batch = X.shape[:-2]
    one = X.new_ones(batch)
    return factorize(
        kind,
        X,
        X.sin().sum(-1) if residuals is None else residuals,
        torch.full_like(X[..., 0], noise),
        (0.3 + 0.1 * torch.arange(X.shape[-1], dtype=X.dtype)).expand(*batch, -1),
        one.cumsum(-1) + 0.7 if batch else one * 1.7,
        0.4 * one,
        torch.ones_like(X[..., 0]) if mask is None else mask,
    )


def picks_by_refactoring(cache: Cache, X: torch.Tensor, width: float, q: int) -> list[int]:
    """The points of the largest bounds, each added to the factor before the next; of equals the first."""
    picks: list[int] = []
    mean, _ = mean_variance(cache, X)
    for _ in range(q):
        score = mean + width * mean_variance(cache, X)[1].sqrt()
        picks.append(int((score >= score.max() - 1e-12).nonzero()[0]))
        cache = extend(cache, X[picks[-1:]], X.new_ones(1))
    return picks


def exact(
    kind: str,
    X: torch.Tensor,
    Y: torch.Tensor,
    A: torch.Tensor,
    lengthscale: float,
    outputscale: float,
    noise: float,
    constant: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance at ``A`` given ``Y`` at ``X``, in 80-bit floats, without a library's factorisation."""
    X, Y, A = (part.detach().numpy().astype(np.longdouble) for part in (X, Y, A))
    K = _gram(kind, X, X, lengthscale, outputscale)
    K[np.diag_indices_from(K)] += np.longdouble(noise)
    B = np.concatenate([_gram(kind, X, A, lengthscale, outputscale), (Y - np.longdouble(constant))[:, None]], 1)
    for j in range(len(K)):  # the columns of the factor replace those of K, the solution replaces B
        K[j:, j] /= np.sqrt(K[j, j])
        K[j + 1 :, j + 1 :] -= np.outer(K[j + 1 :, j], K[j + 1 :, j])
        B[j] /= K[j, j]
        B[j + 1 :] -= np.outer(K[j + 1 :, j], B[j])
    V, w = B[:, :-1], B[:, -1]
    return np.longdouble(constant) + V.T @ w, np.longdouble(outputscale) - (V * V).sum(0)


def _gram(kind: str, A: np.ndarray, B: np.ndarray, lengthscale: float, outputscale: float) -> np.ndarray:
    r = np.sqrt(sum((A[:, None, j] - B[None, :, j]) ** 2 for j in range(A.shape[1]))) / np.longdouble(lengthscale)
    if kind == "rbf":
        return np.longdouble(outputscale) * np.exp(-r * r / 2)
    s = r * np.sqrt(np.longdouble({"matern12": 1, "matern32": 3, "matern52": 5}[kind]))
    polynomial = {"matern12": 1, "matern32": 1 + s, "matern52": 1 + s + s * s / 3}[kind]
    return np.longdouble(outputscale) * polynomial * np.exp(-s)
