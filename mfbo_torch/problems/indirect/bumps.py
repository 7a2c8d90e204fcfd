"""Sums of Gaussian bumps: smooth functions whose averages over windows have closed forms."""

from __future__ import annotations

import math

import torch
from scipy.optimize import minimize
from torch import Tensor


class Bumps:
    r""":math:`f(x) = \sum_i h_i \exp(-|x - c_i|^2 / 2 s_i^2)` with ``n`` heights, ``n x d`` centres, ``n`` scales."""

    def __init__(self, heights: Tensor, centres: Tensor, scales: Tensor) -> None:
        self.heights, self.centres, self.scales = heights.double(), centres.double(), scales.double()

    @classmethod
    def random(cls, count: int, dim: int, scale: tuple[float, float], seed: int) -> Bumps:
        """Bumps in the unit cube, with heights from 0 on and scales between two numbers."""
        drawn = torch.rand(count, dim + 2, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
        return cls(drawn[:, 0], drawn[:, 2:], scale[0] + (scale[1] - scale[0]) * drawn[:, 1])

    def __call__(self, X: Tensor) -> Tensor:
        """``f`` at ``... x d`` inputs."""
        return self.gaussian(X, 0.0)

    def gaussian(self, X: Tensor, deviation: float) -> Tensor:
        """Averages over normal windows around ``... x d`` inputs."""
        variance = self.scales.square() + deviation**2
        distance = (X.unsqueeze(-2) - self.centres).square().sum(-1)
        shrunk = self.heights * (self.scales.square() / variance) ** (X.shape[-1] / 2)
        return (shrunk * torch.exp(-0.5 * distance / variance)).sum(-1)

    def box(self, X: Tensor, half: float) -> Tensor:
        """Averages over cubes of half-width ``half`` around ``... x d`` inputs."""
        distance, scale = X.unsqueeze(-2) - self.centres, self.scales.unsqueeze(-1)
        above, below = ((distance + side) / (math.sqrt(2) * scale) for side in (half, -half))
        side = math.sqrt(math.pi / 2) * scale * (torch.erf(above) - torch.erf(below)) / (2 * half)
        return (self.heights * side.prod(-1)).sum(-1)

    def largest(self, lower: float, upper: float, points: int = 201) -> float:
        """The largest value on a cube: the best of a grid, refined."""
        d = self.centres.shape[-1]
        axis = torch.linspace(lower, upper, points, dtype=torch.double)
        grid = torch.cartesian_prod(*[axis] * d).reshape(-1, d)
        best = grid[self(grid).argmax()].numpy()
        step = (upper - lower) / (points - 1)
        bounds = [(max(lower, x - step), min(upper, x + step)) for x in best]
        found = minimize(lambda x: -self(torch.from_numpy(x)).item(), best, bounds=bounds, method="L-BFGS-B")
        return float(-found.fun)
