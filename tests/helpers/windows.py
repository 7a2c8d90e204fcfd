"""Gaussian windows on a process and what they tell about its maximum, by plain NumPy and quadrature.

Nothing here calls the code under test, except to read the hyper-parameters that it has found.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from mfbo_torch.models import DeconditionalGP

NODES = 30


@dataclass
class Windows:
    """``t`` averages of ``f`` over normal windows; a width of 0 is ``f`` itself."""

    centres: np.ndarray
    widths: np.ndarray

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """``t x nodes x d`` points, the same quadrature along every side, and its weights."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        return self.centres[:, None] + (self.widths[:, None] * nodes)[..., None], weights / weights.sum()


def covariance(a: Windows, b: Windows, lengthscale: np.ndarray, outputscale: float) -> np.ndarray:
    """``q(a, a') = E[k(X, X') | a, a']`` of an RBF kernel, which is a product over the dimensions."""
    (A, w), (B, v) = a.points(), b.points()
    total = np.full((len(A), len(B)), outputscale)
    for j, length in enumerate(lengthscale):
        r = (A[:, None, :, None, j] - B[None, :, None, :, j]) / length
        total *= np.einsum("abij,i,j->ab", np.exp(-0.5 * r**2), w, v)
    return total


def posterior(
    model: DeconditionalGP, data: Windows, Z: np.ndarray, queries: Windows
) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and variance of the queries' averages given the data's, and the variance of the noise."""
    kernel = model.covar_module
    settings = kernel.base_kernel.lengthscale.detach().numpy().ravel(), kernel.outputscale.item()
    constant, noise = model.mean_module(model.train_A[:1, :2]).item(), model.likelihood.noise.mean().item()
    K = covariance(data, data, *settings) + noise * np.eye(len(Z))
    cross = covariance(queries, data, *settings)
    prior = covariance(queries, queries, *settings).diagonal()
    mean = constant + cross @ np.linalg.solve(K, Z - constant)
    return mean, prior - np.einsum("qt,tq->q", cross, np.linalg.solve(K, cross.T)), noise


def noisy_information(mean: np.ndarray, variance: np.ndarray, noise: float, maxima: np.ndarray) -> np.ndarray:
    """``I(z; f* | a)`` by the noise-aware form: the entropy of ``z`` less that of its density given ``g <= f*``.

    In deviations ``y`` of ``z`` the density is ``φ(y) Ψ((γ - ρ y) / s) / Ψ(γ)``, with ``ρ²`` the share of ``g`` in
    the variance of ``z`` and ``s² = 1 - ρ²``.
    """
    share = variance / (variance + noise)
    t, weights = np.polynomial.legendre.leggauss(20)
    found = []
    for f in maxima:
        gamma = ((f - mean) / np.sqrt(variance))[:, None]
        rho, s = np.sqrt(share)[:, None], np.sqrt(1 - share)[:, None]
        bends = (gamma + s * [-30, -8, -3, 0, 3, 8, 30]) / rho  # with little noise the density ends in a cliff
        smooth = np.broadcast_to([-12.0, -7.0, -4.0, -2.0, 0.0, 2.0, 4.0, 7.0, 12.0], (len(mean), 9))
        ends = np.sort(np.concatenate([smooth, bends.clip(-12, 12)], axis=1))
        half = np.diff(ends)[..., None] / 2
        y = (ends[:, :-1, None] + half * (t + 1)).reshape(len(mean), -1)
        logs = norm.logpdf(y) + norm.logcdf((gamma - rho * y) / s) - norm.logcdf(gamma)
        entropy = -(np.exp(logs) * logs * (half * weights).reshape(y.shape)).sum(-1)
        found.append(0.5 * np.log(2 * np.pi * np.e) - entropy)
    return np.mean(found, axis=0)
