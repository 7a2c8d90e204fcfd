r"""Where evaluations fail: the probability that a design can be evaluated.

References:

.. [Rasmussen2006gpml]
    C. E. Rasmussen, C. K. I. Williams. Gaussian Processes for Machine Learning. MIT Press 2006.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mfbo_torch.ops.kernels import EXACT

MOST = 256
"""So many records at most are learned from, see :func:`thinned`."""
LENGTHSCALES, VARIANCES, SHARES = (0.1, 0.25, 0.6), (4.0, 32.0), (1.0, 0.5)
SLOPE = 4.0
"""Variance of the slopes along each parameter, in units of the variance of the rest."""
STEPS = 8
"""Newton's steps to the posterior mode. The likelihood is log-concave; these reach it to about 1e-6."""
SUREST = math.log(1e4)
"""Largest log odds of failures having a structure: chance keeps a share, and no design is forbidden for ever."""


class Structure(NamedTuple):
    """How failures hang together in space.

    Args:
        lengthscale: Of the squared exponential part, in units of the cube's diagonal ``d^½``.
        variance: Of the latent function; the larger, the sharper are the borders.
        share: Correlation of the latent functions of two fidelities.
    """

    lengthscale: float
    variance: float
    share: float


STRUCTURES = [Structure(*each) for each in itertools.product(LENGTHSCALES, VARIANCES, SHARES)]


class Feasibility:
    r"""The probability that a design can be evaluated, from those that could and those that could not.

    A mixture of chance and structure,
    :math:`p(x) = (1 - w) p_0 + w \, \Phi(\mu(x) / (1 + \sigma^2(x))^{1/2})`. By chance each evaluation fails
    alike, with :math:`p_0 = (s + 1) / (n + 2)` for ``s`` successes of ``n``. The structure is a Gaussian process
    classifier with a probit likelihood under Laplace's approximation [Rasmussen2006gpml]_ (Sec. 3.4, Eq. 3.82),
    whose latent function is a plane plus a squared exponential part; fidelities share it, wholly or in part.
    The weight ``w`` follows from the evidence for either, so failures that are anywhere teach nothing of a place.
    Near failures the probability is low and recovers with distance; it is never below ``1e-4 p_0``.

    Args:
        points: ``n x (d + 1)`` designs of the unit cube, then the fidelity.
        succeeded: ``n`` booleans.
        fidelity: The one whose evaluations are spoken of.
        structure: How failures hang together; see :func:`likeliest`.
    """

    def __init__(self, points: Tensor, succeeded: Tensor, fidelity: int, structure: Structure) -> None:
        points, succeeded = thinned(points, succeeded)
        self.structure, self.centred = structure, points[:, :-1] - 0.5
        fitted = _laplace(self.centred, points[:, -1], succeeded, [structure])
        chance, evidence = _by_chance(succeeded)
        self.chance = chance
        odds = fitted.evidence.item() - evidence - math.log(len(STRUCTURES))
        self.weight = 1 / (1 + math.exp(-min(odds, SUREST))) if odds > -SUREST else 0.0
        share = torch.where(points[:, -1] == fidelity, 1.0, structure.share).to(points)
        self.mean = fitted.mean
        self.gradient = fitted.gradient[0] * share * structure.variance
        self.precision = fitted.precision[0] * (structure.variance * share).outer(structure.variance * share)
        self.scale = 1 / (structure.lengthscale**2 * self.centred.shape[-1])

    def __call__(self, X: Tensor) -> Tensor:
        """The probability at ``... x d`` designs of the unit cube, ``...``; differentiable once."""
        probability: Tensor = _Probability.apply(X, self)
        return probability

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return self.centred.shape[-1]

    def to(self, *args: Any) -> Feasibility:
        """This model on another device or in another precision, in place; arguments as for ``Tensor.to``."""
        for name in ("centred", "gradient", "precision"):
            setattr(self, name, getattr(self, name).to(*args))
        return self


def likeliest(points: Tensor, succeeded: Tensor) -> Structure:
    """The structure of :data:`STRUCTURES` with the largest evidence.

    Args:
        points: ``n x (d + 1)`` designs of the unit cube, then the fidelity.
        succeeded: ``n`` booleans.
    """
    points, succeeded = thinned(points, succeeded)
    levels = points[:, -1]
    several = STRUCTURES if (levels != levels[0]).any() else [s for s in STRUCTURES if s.share == 1]
    return several[int(_laplace(points[:, :-1] - 0.5, levels, succeeded, several).evidence.argmax())]


def thinned(points: Tensor, succeeded: Tensor) -> tuple[Tensor, Tensor]:
    """At most :data:`MOST` of the records, evenly among successes and failures, each of them evenly over time."""
    if len(points) <= MOST:
        return points, succeeded
    good, bad = succeeded.nonzero().flatten(), (~succeeded).nonzero().flatten()
    few = min(len(good), len(bad), MOST // 2)
    kept = [
        some[torch.linspace(0, len(some) - 1, min(len(some), MOST - few)).round().long()] if len(some) > few else some
        for some in (good, bad)
    ]
    chosen = torch.cat(kept).sort().values
    return points[chosen], succeeded[chosen]


class _Fit(NamedTuple):
    """Of ``B`` structures: the prior mean, log evidence ``B``, gradient ``B x n`` and precision ``B x n x n``."""

    mean: float
    evidence: Tensor
    gradient: Tensor
    precision: Tensor


def _by_chance(succeeded: Tensor) -> tuple[float, float]:
    """The probability of success under chance, and the log evidence of chance with a uniform prior."""
    n, s = len(succeeded), int(succeeded.sum())
    return (s + 1) / (n + 2), math.lgamma(s + 1) + math.lgamma(n - s + 1) - math.lgamma(n + 2)


def _near(A: Tensor, B: Tensor, scale: Tensor | float) -> Tensor:
    """The squared exponential part."""
    return (-0.5 * scale * torch.cdist(A, B, compute_mode=EXACT).square()).exp()


def _laplace(centred: Tensor, levels: Tensor, succeeded: Tensor, structures: list[Structure]) -> _Fit:
    """Laplace's approximation [Rasmussen2006gpml]_ (Algorithm 3.1), for several structures at once."""
    sign = torch.where(succeeded, 1.0, -1.0).to(centred)
    lengthscale, variance, share = torch.tensor(structures, dtype=centred.dtype)[:, None, None].unbind(-1)
    same = (levels[:, None] == levels).to(centred)
    K = _near(centred, centred, 1 / (lengthscale**2 * centred.shape[-1])) + SLOPE * centred @ centred.mT
    K = variance * (share + (1 - share) * same) * K
    mean = torch.special.ndtri(torch.tensor(_by_chance(succeeded)[0], dtype=torch.double)).item()
    f, eye = K.new_zeros(len(structures), len(sign)), torch.eye(len(sign), dtype=K.dtype)
    for step in range(STEPS + 1):
        z = sign * (mean + f)
        log_likelihood = torch.special.log_ndtr(z)
        ratio = (-0.5 * z.square() - 0.5 * math.log(2 * math.pi) - log_likelihood).exp()
        gradient, root = sign * ratio, (ratio * (ratio + z)).clamp_min(1e-12).sqrt()
        factor = torch.linalg.cholesky(eye + root.unsqueeze(-1) * K * root.unsqueeze(-2))
        if step == STEPS:
            break
        b = (root.square() * f + gradient).unsqueeze(-1)
        a = b - root.unsqueeze(-1) * torch.cholesky_solve(root.unsqueeze(-1) * (K @ b), factor)
        f = (K @ a).squeeze(-1)
    halves = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    evidence = log_likelihood.sum(-1) - 0.5 * (f * gradient).sum(-1) - halves
    inverse = torch.linalg.solve_triangular(factor, torch.diag_embed(root), upper=False)
    return _Fit(mean, evidence, gradient, inverse.mT @ inverse)


class _Probability(torch.autograd.Function):
    """The probability, its gradient by hand: an acquisition asks for it at every step of its search."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, model: Feasibility) -> Tensor:
        x = (X - 0.5).reshape(-1, X.shape[-1])
        slopes = SLOPE * x
        near = _near(x, model.centred, model.scale)
        k = near + slopes @ model.centred.mT
        reach = k @ model.precision
        prior = 1 + (slopes * x).sum(-1)
        variance = (model.structure.variance * prior - (k * reach).sum(-1)).clamp_min(0.0)
        total = 1 + variance
        z = (model.mean + k @ model.gradient) / total.sqrt()
        ctx.model, ctx.shape = model, X.shape
        ctx.save_for_backward(x, near, reach, total, z)
        structured = torch.special.ndtr(z)
        return (model.weight * structured + (1 - model.weight) * model.chance).reshape(X.shape[:-1])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        model: Feasibility = ctx.model
        x, near, reach, total, z = ctx.saved_tensors
        dz = grad.reshape(-1) * model.weight * (-0.5 * z.square()).exp() / math.sqrt(2 * math.pi)
        dmean, dvariance = (dz / total.sqrt()).unsqueeze(-1), (-0.5 * dz * z / total).unsqueeze(-1)
        dk = dmean * model.gradient - 2 * dvariance * reach
        falling = dk * near
        moved = model.scale * (falling @ model.centred - falling.sum(-1, keepdim=True) * x)
        plane = SLOPE * (dk @ model.centred + 2 * model.structure.variance * dvariance * x)
        return (moved + plane).reshape(ctx.shape), None
