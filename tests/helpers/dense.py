"""Gaussian processes by plain loops in NumPy, and models whose hyper-parameters are set by hand.

Nothing here calls the code under test, except to read the numbers that were put into it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel

from mfbo_torch.models import PerFidelityGP

KINDS = ("rbf", "matern12", "matern32", "matern52")
Point = tuple[Sequence[float], int]
"""A design and its fidelity."""


def kernel(kind: str, a: Sequence, b: Sequence, lengthscale: Sequence[float], outputscale: float) -> float:
    """Covariance of two points, by formula."""
    r = math.sqrt(sum(((p - q) / length) ** 2 for p, q, length in zip(a, b, lengthscale, strict=True)))
    match kind:
        case "rbf":
            value = math.exp(-(r**2) / 2)
        case "matern12":
            value = math.exp(-r)
        case "matern32":
            value = (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r)
        case "matern52":
            value = (1 + math.sqrt(5) * r + 5 * r**2 / 3) * math.exp(-math.sqrt(5) * r)
    return outputscale * value


def gram(kind: str, A: Sequence, B: Sequence, lengthscale: Sequence[float], outputscale: float) -> np.ndarray:
    """Covariances of every point of ``A`` with every point of ``B``."""
    return np.array([[kernel(kind, a, b, lengthscale, outputscale) for b in B] for a in A]).reshape(len(A), len(B))


@dataclass
class Fidelity:
    """One fidelity in the targets' units: ``f = constant + rho f_below + δ``, and its observations.

    The first three are of the kernel of ``δ``; ``rho`` is 0 if the fidelity is not linked. ``noise`` holds
    variances, ``pending_noise`` is that at a pending design.
    """

    kind: str
    lengthscale: list[float]
    outputscale: float
    constant: float
    rho: float
    X: np.ndarray
    y: np.ndarray
    noise: np.ndarray
    pending_noise: float

    def gram(self, A: Sequence, B: Sequence) -> np.ndarray:
        return gram(self.kind, A, B, self.lengthscale, self.outputscale)


def fidelities(model: PerFidelityGP) -> list[Fidelity]:
    """The hyper-parameters and data of a model, taken out of its standardised units."""
    found = []
    shift, scale = model.shift.tolist(), model.scale.tolist()
    for m, level in enumerate(model.levels):
        outer = level.covar_module
        base = outer.base_kernel if isinstance(outer, ScaleKernel) else outer
        kind = "rbf" if isinstance(base, RBFKernel) else {0.5: "matern12", 1.5: "matern32", 2.5: "matern52"}[base.nu]
        rows = (model.train_X[:, -1] == m).numpy()
        if model.train_Yvar is None:
            typical = level.likelihood.noise.item() * scale[m] ** 2
            noise = np.full(rows.sum(), typical)
        else:
            noise = model.train_Yvar.numpy()[rows, 0]
            typical = noise.mean() if len(noise) else model.train_Yvar.mean().item()
        rho = level.rho.item() * scale[m] / scale[m - 1] if m else 0.0
        found.append(
            Fidelity(
                kind=kind,
                lengthscale=base.lengthscale.flatten().tolist() * (model.dim // base.lengthscale.numel()),
                outputscale=(outer.outputscale.item() if isinstance(outer, ScaleKernel) else 1.0) * scale[m] ** 2,
                constant=shift[m] + scale[m] * level.constant.item() - (rho * shift[m - 1] if m else 0.0),
                rho=rho,
                X=model.train_X[:, :-1].numpy()[rows],
                y=model.train_Y.numpy()[rows, 0],
                noise=noise,
                pending_noise=typical,
            )
        )
    return found


def weight(levels: list[Fidelity], m: int, k: int) -> float:
    """How much of the residual ``k`` there is in fidelity ``m``."""
    return math.prod(level.rho for level in levels[k + 1 : m + 1]) if k <= m else 0.0


def mean(levels: list[Fidelity], x: Sequence[float], m: int) -> float:
    """Posterior mean of fidelity ``m``: each residual is taken against the mean below."""
    level = levels[m]
    prior = level.constant + (level.rho * mean(levels, x, m - 1) if level.rho else 0.0)
    if not len(level.X):
        return prior
    below = np.array([level.rho * mean(levels, u, m - 1) if level.rho else 0.0 for u in level.X])
    weights = np.linalg.solve(level.gram(level.X, level.X) + np.diag(level.noise), level.y - level.constant - below)
    return prior + (level.gram([x], level.X) @ weights).item()


def residual_covariance(level: Fidelity, A: Sequence, B: Sequence) -> np.ndarray:
    """Posterior covariance of ``δ`` given the designs of its fidelity."""
    X, prior = level.X.tolist(), level.gram(A, B)
    if not X:
        return prior
    return prior - level.gram(A, X) @ np.linalg.solve(level.gram(X, X) + np.diag(level.noise), level.gram(X, B))


def covariance(levels: list[Fidelity], a: Point, b: Point, pending: Sequence[Point] = ()) -> float:
    """Posterior covariance of two values at any fidelities, after values of unknown size at the pending points."""

    def free(a: Point, b: Point) -> float:
        total = 0.0
        for k, level in enumerate(levels):
            weights = weight(levels, a[1], k) * weight(levels, b[1], k)
            if weights:
                total += weights * residual_covariance(level, [a[0]], [b[0]]).item()
        return total

    if not pending:
        return free(a, b)
    K = np.array([[free(p, q) for q in pending] for p in pending])
    K += np.diag([levels[m].pending_noise for _, m in pending])
    left, right = ([free(end, p) for p in pending] for end in (a, b))
    return free(a, b) - np.dot(left, np.linalg.solve(K, right)).item()


def joint(levels: list[Fidelity], points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the Gaussian process over designs and fidelities given all observations at once."""

    def prior_mean(m: int) -> float:
        return levels[m].constant + (levels[m].rho * prior_mean(m - 1) if m else 0.0)

    def prior(A: Sequence[Point], B: Sequence[Point]) -> np.ndarray:
        total = np.zeros((len(A), len(B)))
        for i, (x, m) in enumerate(A):
            for j, (u, n) in enumerate(B):
                for k in range(min(m, n) + 1):
                    total[i, j] += weight(levels, m, k) * weight(levels, n, k) * levels[k].gram([x], [u]).item()
        return total

    seen = [(x, m) for m, level in enumerate(levels) for x in level.X.tolist()]
    centred = np.concatenate([level.y - prior_mean(m) for m, level in enumerate(levels)])
    K = prior(seen, seen) + np.diag(np.concatenate([level.noise for level in levels]))
    cross = prior(points, seen)
    centre = np.array([prior_mean(m) for _, m in points])
    return centre + cross @ np.linalg.solve(K, centred), prior(points, points) - cross @ np.linalg.solve(K, cross.T)


def gpytorch_kernel(kind: str, dim: int) -> Kernel:
    """A scaled kernel with its own lengthscale for each dimension."""
    nu = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
    return ScaleKernel(RBFKernel(ard_num_dims=dim) if kind == "rbf" else MaternKernel(nu=nu[kind], ard_num_dims=dim))


def data(counts: Sequence[int], dim: int = 2, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Designs and values of a smooth function whose fidelities differ by a slope and a bias."""
    generator = torch.Generator().manual_seed(seed)
    X, Y = [], []
    for m, n in enumerate(counts):
        U = torch.rand(n, dim, generator=generator, dtype=torch.double)
        X.append(torch.cat([U, torch.full((n, 1), float(m), dtype=torch.double)], dim=-1))
        Y.append(value(U, m))
    return torch.cat(X), torch.cat(Y)


def value(U: torch.Tensor, m: int) -> torch.Tensor:
    """The function behind :func:`data`."""
    return (1 + 0.3 * m) * (4 * U).sin().sum(-1, keepdim=True) + m * U[..., :1] + 2.0 * m


def set_by_hand(model: PerFidelityGP, noise: float = 1e-3, seed: int = 0) -> PerFidelityGP:
    """The model with arbitrary hyper-parameters, different at each fidelity."""
    generator = torch.Generator().manual_seed(seed)
    for m, level in enumerate(model.levels):
        outer = level.covar_module
        base = outer.base_kernel if isinstance(outer, ScaleKernel) else outer
        base.lengthscale = 0.3 + 0.4 * torch.rand(base.lengthscale.shape, generator=generator, dtype=torch.double)
        if isinstance(outer, ScaleKernel):
            outer.outputscale = 0.8 + 0.3 * m
        level.likelihood.noise = noise * (1 + m)
        level.mean_module.constant.data.fill_(0.2 - 0.3 * m)
        if model.linked[m]:
            level.mean_module.rho.data.fill_(0.9 - 0.25 * m)
    return model.train().eval()


def hand_made(
    counts: Sequence[int], dim: int = 2, link: str = "recursive", kind: str = "rbf", noise: float = 1e-3, **settings
) -> PerFidelityGP:
    """A model of :func:`data` with hyper-parameters set by hand."""
    X, Y = data(counts, dim)
    kernels = [gpytorch_kernel(kind, dim) for _ in counts]
    return set_by_hand(PerFidelityGP(X, Y, len(counts), link=link, covar_modules=kernels, **settings), noise)


def points(num_fidelities: int, n: int, dim: int = 2, seed: int = 1) -> torch.Tensor:
    """``n x (d + 1)`` points whose fidelities go round."""
    U = torch.rand(n, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    return torch.cat([U, torch.arange(n, dtype=torch.double).remainder(num_fidelities).unsqueeze(-1)], dim=-1)


def as_points(X: torch.Tensor) -> list[Point]:
    """The rows of ``n x (d + 1)`` points as plain numbers."""
    return [(row[:-1], int(row[-1])) for row in X.tolist()]
