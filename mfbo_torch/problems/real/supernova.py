"""Cosmological parameters from supernovae, by integration on coarse or fine grids."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.real.data import load
from mfbo_torch.space import Parameter, Space

SPEED_OF_LIGHT = 299_792.458
"""The speed of light, in kilometres per second."""


class Supernova(Problem):
    r"""Log-likelihood of 192 type Ia supernovae under the Robertson-Walker metric, maximised.

    For the Hubble constant ``H0`` (60 to 80 km/s/Mpc), the matter fraction ``omega_m`` and the dark-energy fraction
    ``omega_lambda`` (each 0 to 1), with the curvature :math:`\Omega_k = 1 - \Omega_M - \Omega_\Lambda`,

    .. math::
        E(z)^2 = \Omega_M (1 + z)^3 + \Omega_k (1 + z)^2 + \Omega_\Lambda, \quad
        D(z) = \int_0^z \frac{dz'}{E(z')}, \quad
        d_L = \frac{c (1 + z)}{H_0 \sqrt{|\Omega_k|}} S_k(\sqrt{|\Omega_k|} D(z)), \quad
        \mu = 5 \log_{10} \frac{d_L}{\mathrm{Mpc}} + 25

    (``S_k`` is sinh, the identity or sin for a positive, zero or negative curvature term), and the observed moduli are
    independent normals around ``mu`` with their standard errors.

    A fidelity is a grid from 0 to the largest redshift of 1e2, 1e4 or 1e6 points: ``D(z)`` is the trapezoidal rule on
    the grid points below ``z`` and ``z`` itself. Nominal costs are 1, 10 and 100: the work outside the integral is the
    same, so they grow less than the grids.

    Models without a big bang (``E(z)^2 <= 0`` at a redshift in use) or with a distance that is not positive are given
    ``worst``, -10,000. Inside the bounds there is none, and the least likelihood on the published data is -1,377.5, at
    ``(80, 1, 0)``.

    The data are those of Davis et al., ApJ 666 (2007); the problem is [Kandasamy2016mfgpucb]'s.

    Args:
        measured: Whether a query costs the seconds it takes.
    """

    grids = (10**2, 10**4, 10**6)
    worst: float = -1e4

    def __init__(self, measured: bool = False) -> None:
        self.redshift, self.modulus, self.error = load("supernovae").T
        bounds = (("H0", 60.0, 80.0), ("omega_m", 0.0, 1.0), ("omega_lambda", 0.0, 1.0))
        self.space = Space(tuple(Parameter(*bound) for bound in bounds), (1.0, 10.0, 100.0), measured)

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        """The log-likelihood, the normal densities' constants included."""
        (hubble, omega_m, omega_lambda), level = self.checked(x, fidelity)
        distance = luminosity_distance(self.redshift, hubble, omega_m, omega_lambda, self.grids[level])
        if distance is None:
            return self.worst
        deviation = (self.modulus - 5 * np.log10(distance) - 25) / self.error
        constants = np.log(self.error).sum() + len(self.error) * math.log(2 * math.pi) / 2
        return float(-0.5 * (deviation**2).sum() - constants)


def luminosity_distance(
    redshift: np.ndarray, hubble: float, omega_m: float, omega_lambda: float, points: int
) -> np.ndarray | None:
    """``d_L`` in megaparsecs at each redshift, by the trapezoidal rule on ``points`` points; ``None`` where the model
    has no such distance."""
    curvature = 1 - omega_m - omega_lambda

    def squared_rate(z: np.ndarray) -> np.ndarray:
        return (1 + z) ** 2 * (omega_m * (1 + z) + curvature) + omega_lambda

    grid, step = np.linspace(0, redshift.max(), points, retstep=True)
    on_grid, at_data = squared_rate(grid), squared_rate(redshift)
    if min(on_grid.min(), at_data.min()) <= 0:
        return None
    inverse = 1 / np.sqrt(on_grid)
    integral = np.concatenate([[0.0], np.cumsum((inverse[1:] + inverse[:-1]) * (step / 2))])
    below = np.minimum((redshift / step).astype(int), points - 1)
    rest = (redshift - grid[below]) * (inverse[below] + 1 / np.sqrt(at_data)) / 2
    path = integral[below] + rest
    root = math.sqrt(abs(curvature))
    if root > 1e-6:
        path = (np.sinh if curvature > 0 else np.sin)(root * path) / root
    if path.min() <= 0:
        return None
    return (1 + redshift) * path * SPEED_OF_LIGHT / hubble
