r"""Functions drawn from a known Gaussian process on a finite set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial

import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from mfbo_torch.confidence.prior import Prior
from mfbo_torch.problems.synthetic.finite import FiniteProblem
from mfbo_torch.space import Space
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import several, whole


class GPSample(FiniteProblem):
    """A draw from a zero-mean Gaussian process on a grid of ``[0, 1]^d`` [Desautels2012gpbucb]_ (Sec. 5).

    The designs are the points of the grid and no others.

    Args:
        sizes: Number of evenly spaced values of each parameter, at least 2, ends included.
        prior: The process it is drawn from, which a strategy may know; its mean must be 0.
        seed: Seed of the draw.
        noisy: Whether observations carry the noise of the process.
    """

    def __init__(
        self, sizes: Sequence[int] = (1000,), prior: Prior | None = None, seed: int = 0, noisy: bool = True
    ) -> None:
        sizes = several("sizes", sizes, partial(whole, least=2), "whole numbers from 2 on, one a parameter")
        generator = torch.Generator().manual_seed(whole("seed", seed, 0))
        self.prior = prior or Prior(lengthscale=0.1, noise=0.025)
        if self.prior.mean != 0:
            raise SettingError("prior.mean", self.prior.mean, "0")
        space, factor = _factor(sizes, self.prior)
        values = factor @ torch.randn(len(factor), generator=generator, dtype=torch.double)
        super().__init__(space, values, math.sqrt(self.prior.noise) if noisy else 0.0)


@lru_cache(maxsize=2)
def _factor(sizes: tuple[int, ...], prior: Prior) -> tuple[Space, Tensor]:
    """The grid and the lower factor of its covariance, the same for every draw."""
    axes = [torch.linspace(0.0, 1.0, n, dtype=torch.double) for n in sizes]
    grid = torch.cartesian_prod(*axes).reshape(-1, len(sizes))
    return Space.finite(grid, (1.0,)), psd_safe_cholesky(prior.covariance(grid, grid))
