r"""Branin's function seen through windows on its box, fixed or of several resolutions."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from mfbo_torch.problems.indirect.base import IndirectProblem
from mfbo_torch.space import IndirectSpace, Parameter, Samples, Window
from mfbo_torch.utils.validation import number, one_of, whole

LOWER, UPPER = (-5.0, 0.0), (10.0, 15.0)
MEAN, DEVIATION, MINIMUM = 54.30719827, 51.25121767, 0.39788735772973816
"""Mean, standard deviation and minimum of Branin's function on its box."""
INPUTS = 41
"""Number of inputs along each side, among which the maximiser is searched."""
NODES, WEIGHTS = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(48))


def branin(X: Tensor) -> Tensor:
    """Branin's function of ``... x 2`` inputs, turned upside down, with mean 0 and deviation 1 on its box."""
    x, y = X.unbind(-1)
    value = (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6).square()
    return (MEAN - value - 10 * (1 - 1 / (8 * math.pi)) * x.cos() - 10) / DEVIATION


def linear(A: Tensor) -> Tensor:
    r""":math:`h(a) = (15 a_1 - 5, 15 a_2)`."""
    return 15 * A - A.new_tensor([5.0, 0.0])


def nonlinear(A: Tensor) -> Tensor:
    r""":math:`h(a) = (15 \cos(\pi a_1 / 2) - 5, 15 \cos(\pi a_2 / 2))`."""
    return 15 * (0.5 * math.pi * A).cos() - A.new_tensor([5.0, 0.0])


TRANSFORMATIONS = {"linear": linear, "nonlinear": nonlinear}


class IndirectBranin(IndirectProblem):
    r"""Branin's function upside down on [-5, 10] x [0, 15], observed as normal averages around :math:`h(a)`.

    Queries :math:`a \in [0, 1]^2` average over :math:`N(h(a), \tau^2 I)` truncated to the box [Zhang2024indirect]_
    (Section 7), with the linear or the nonlinear ``h``. ``f`` is standardised: its mean over the box is 0 and its
    deviation 1.

    With one resolution :math:`\tau^2 = 1/2`, every query costs 1 and has the same noise. With several, height ``l`` has
    the radius :math:`d = 2^{-(l+1)}`, costs :math:`\lambda = \frac12 \log_2 (1/d)` and has noise of deviation
    :math:`0.5 / \lambda`. The paper says "noise" of the draw around :math:`h(a)` as well as of the answer; here it is
    both, :math:`\tau` and, in the units of Branin's function, :math:`\sigma`.

    Args:
        transformation: ``"linear"`` or ``"nonlinear"``.
        resolutions: Number of heights, 7 in the paper's Figure 2.
        grid: Number of choices along each side; with ``None`` the whole box is allowed.
        noise: Standard deviation of the noise where there is one resolution; the model does not know it.
        num_samples: Size of ``D1`` (at each height).
        known: Tell the model the windows in place of ``D1``.
        seed: Of ``D1``.
    """

    def __init__(
        self,
        transformation: str = "linear",
        resolutions: int = 1,
        grid: int | None = None,
        noise: float = 0.1,
        num_samples: int = 200,
        known: bool = False,
        seed: int = 0,
    ) -> None:
        self.location = TRANSFORMATIONS[one_of("transformation", transformation, TRANSFORMATIONS)]
        self.resolutions = resolutions = whole("resolutions", resolutions)
        noise, count, seed = number("noise", noise, 0), whole("num_samples", num_samples), whole("seed", seed, 0)
        radii = [0.5 ** (height + 1) for height in range(resolutions)]
        costs = tuple(0.5 * math.log2(1 / radius) for radius in radii) if resolutions > 1 else (1.0,)
        self.noise = tuple(0.5 / cost / DEVIATION for cost in costs) if resolutions > 1 else (noise,)
        self.widths = tuple(0.5 / cost for cost in costs) if resolutions > 1 else (math.sqrt(0.5),)
        choices = None
        if grid is not None:
            side = (torch.arange(whole("grid", grid), dtype=torch.double) + 0.5) / grid
            choices = torch.cartesian_prod(side, side)
        axes = [torch.linspace(a, b, INPUTS, dtype=torch.double) for a, b in zip(LOWER, UPPER, strict=True)]
        samples = None if known else self.samples(count, torch.Generator().manual_seed(seed))
        self.space = IndirectSpace(
            (Parameter("a1", 0.0, 1.0), Parameter("a2", 0.0, 1.0)),
            costs,
            inputs=torch.cartesian_prod(*axes),
            feedback=samples or Window(self.widths, self.location),
            choices=choices,
            noise_std=self.noise if resolutions > 1 else None,
        )
        self.latent_optimum = (MEAN - MINIMUM) / DEVIATION

    def samples(self, count: int, generator: torch.Generator) -> Samples:
        """``count`` random queries at each height and a draw from the window of each."""
        drawn = torch.rand(self.resolutions, count, 4, generator=generator, dtype=torch.double)
        A, uniform = drawn[..., :2], drawn[..., 2:]
        rows = []
        for height, width in enumerate(self.widths):
            centre = self.location(A[height])
            below, above = (torch.special.ndtr((edge - centre) / width) for edge in self._edges(centre))
            chance = (below + (above - below) * uniform[height]).clamp(1e-300, 1 - 1e-16)
            lower, upper = self._edges(centre)
            rows.append(torch.minimum(torch.maximum(centre + width * torch.special.ndtri(chance), lower), upper))
        X = torch.cat(rows)
        if self.resolutions == 1:
            return Samples(X, A[0])
        heights = torch.arange(self.resolutions).repeat_interleave(count).double().unsqueeze(-1)
        return Samples(X, torch.cat([A.reshape(-1, 2), heights], -1))

    @staticmethod
    def _edges(like: Tensor) -> tuple[Tensor, Tensor]:
        return like.new_tensor(LOWER), like.new_tensor(UPPER)

    def latent(self, X: Tensor) -> Tensor:
        return branin(X)

    def averages(self, A: Tensor, fidelity: int) -> Tensor:
        """By Gauss-Legendre quadrature over the truncated windows."""
        centre, width = self.location(A).unsqueeze(-1), self.widths[fidelity]
        lower, upper = (edge.unsqueeze(-1) for edge in self._edges(A))
        low, high = torch.maximum(lower, centre - 8 * width), torch.minimum(upper, centre + 8 * width)
        points = low + 0.5 * (high - low) * (NODES + 1)
        density = WEIGHTS * torch.exp(-0.5 * ((points - centre) / width).square())
        density = density / density.sum(-1, keepdim=True)
        x, y = points[:, 0].unsqueeze(-1), points[:, 1].unsqueeze(-2)
        values = branin(torch.stack(torch.broadcast_tensors(x, y), -1))
        return torch.einsum("ni,nj,nij->n", density[:, 0], density[:, 1], values)
