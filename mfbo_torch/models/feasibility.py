r"""The probability that the evaluation of a design does not fail."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.spatial.distance import cdist
from scipy.special import ndtr
from torch import Tensor

from mfbo_torch.ops.kernels import distances

MAX_RECORDS = 256
"""Largest number of records that the model is made of, see :func:`thinned`."""
MAX_RANKED = 128
"""The same, of those that structures are compared on."""
LENGTHSCALES, VARIANCES, SHARES = (0.1, 0.25, 0.6), (4.0, 32.0), (1.0, 0.5)
"""The values of :data:`STRUCTURES`, in the units of :class:`Structure`."""
SLOPE = 4.0
"""Variance of the slopes along each parameter, in units of the variance of the rest."""
STEPS, DAMPED = 40, 0.7
"""Number of rounds of expectation propagation, and which part of each change is made: clusters of failures swing
otherwise."""
MAX_LOG_ODDS = math.log(1e4)
"""Largest log odds of a structure against chance, so that no design is excluded for ever."""


class Structure(NamedTuple):
    """How failures correlate in space: the ``lengthscale`` of the squared exponential part, in units of the cube's
    diagonal ``d^½``; the ``variance`` of the latent function, the larger, the sharper the borders; and the ``share``
    that two fidelities have in common, the correlation of their latent functions."""

    lengthscale: float
    variance: float
    share: float


STRUCTURES = [Structure(*each) for each in itertools.product(LENGTHSCALES, VARIANCES, SHARES)]


class Feasibility:
    r"""The probability that a design can be evaluated, from those that could and those that could not.

    A mixture of chance and structure, :math:`p(x) = (1 - w) p_0 + w \, \Phi(\mu(x) / (1 + \sigma^2(x))^{1/2})`. By
    chance each evaluation fails alike, with :math:`p_0 = (s + 1) / (n + 2)` for ``s`` successes of ``n``. The structure
    is a Gaussian process classifier with a probit likelihood by expectation propagation [Rasmussen2006gpml]_ (Sec. 3.6;
    Laplace's approximation leaves 0.25 amid forty failures), whose latent function is a plane plus a squared
    exponential part; fidelities share it, wholly or in part. The weight ``w`` follows from the evidence for either, so
    failures without a pattern do not exclude a place. Near failures the probability is low and recovers with distance;
    it is never below ``1e-4 p_0``.

    The ``points`` are ``n x (d + 1)`` designs of the unit cube, then the fidelity; double, on the CPU, where they stay.
    """

    def __init__(self, points: Tensor, succeeded: Tensor, fidelity: int, structure: Structure) -> None:
        points, succeeded = thinned(points, succeeded)
        centred = points[:, :-1] - 0.5
        fitted = _propagated(centred, points[:, -1], succeeded, [structure])
        self.structure, self.mean, self.centred = structure, fitted.mean, centred.numpy()
        self.chance, evidence = _by_chance(succeeded)
        odds = fitted.evidence.item() - evidence - math.log(len(STRUCTURES))
        self.weight = 1 / (1 + math.exp(-min(odds, MAX_LOG_ODDS))) if odds > -MAX_LOG_ODDS else 0.0
        reach = structure.variance * torch.where(points[:, -1] == fidelity, 1.0, structure.share).to(points)
        self.gradient = (reach * fitted.gradient[0]).numpy()
        self.precision = (reach.outer(reach) * fitted.precision[0]).numpy()
        self.scale = 1 / (structure.lengthscale**2 * self.dim)

    def __call__(self, X: Tensor) -> Tensor:
        """The probability at ``... x d`` designs of the unit cube, ``...``; differentiable once."""
        probability: Tensor = _Probability.apply(X, self)
        return probability

    def log(self, X: Tensor) -> Tensor:
        """The logarithm of the probability."""
        return self(X).log()

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return int(self.centred.shape[-1])


def likeliest(points: Tensor, succeeded: Tensor) -> Structure:
    """The structure of :data:`STRUCTURES` with the largest evidence, from ``n x (d + 1)`` designs and fidelities and
    ``n`` booleans."""
    points, succeeded = thinned(points, succeeded, MAX_RANKED)
    levels = points[:, -1]
    several = STRUCTURES if (levels != levels[0]).any() else [s for s in STRUCTURES if s.share == 1]
    return several[int(_propagated(points[:, :-1] - 0.5, levels, succeeded, several).evidence.argmax())]


def thinned(points: Tensor, succeeded: Tensor, most: int = MAX_RECORDS) -> tuple[Tensor, Tensor]:
    """At most ``most`` records, evenly among successes and failures, each evenly over time."""
    if len(points) <= most:
        return points, succeeded
    good, bad = succeeded.nonzero().flatten(), (~succeeded).nonzero().flatten()
    few = min(len(good), len(bad), most // 2)
    kept = [some if len(some) <= few else some[_spaced(len(some), most - few)] for some in (good, bad)]
    chosen = torch.cat(kept).sort().values
    return points[chosen], succeeded[chosen]


def _spaced(count: int, most: int) -> Tensor:
    """At most ``most`` of ``count`` indices, evenly spaced."""
    return torch.linspace(0, count - 1, min(count, most)).round().long()


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


def _propagated(centred: Tensor, levels: Tensor, succeeded: Tensor, structures: list[Structure]) -> _Fit:
    """Expectation propagation [Rasmussen2006gpml]_ (Sec. 3.6), all sites at once and damped, for several structures."""
    sign = torch.where(succeeded, 1.0, -1.0).to(centred)
    lengthscale, variance, share = torch.tensor(structures, dtype=centred.dtype)[:, None, None].unbind(-1)
    same = (levels[:, None] == levels).to(centred)
    scale = 1 / (lengthscale**2 * centred.shape[-1])
    near = (-0.5 * scale * distances(centred, centred).square()).exp()
    K = variance * (share + (1 - share) * same) * (near + SLOPE * centred @ centred.mT)
    mean = torch.special.ndtri(torch.tensor(_by_chance(succeeded)[0], dtype=torch.double)).item()
    eye = torch.eye(len(sign), dtype=K.dtype)
    nu = K.new_zeros(len(structures), len(sign))
    tau = torch.full_like(nu, 0.1)
    for step in range(STEPS + 1):
        root = tau.sqrt()
        factor = torch.linalg.cholesky(eye + root.unsqueeze(-1) * K * root.unsqueeze(-2))
        half = torch.linalg.solve_triangular(factor, root.unsqueeze(-1) * K, upper=False)
        prior = (K @ nu.unsqueeze(-1)).squeeze(-1)
        mu = prior - (half.mT @ (half @ nu.unsqueeze(-1))).squeeze(-1)
        precision = 1 / (K.diagonal(dim1=-2, dim2=-1) - half.square().sum(-2))
        cavity = (precision - tau).clamp_min(1e-9)
        m, v = (mu * precision - nu) / cavity, 1 / cavity
        z = sign * (mean + m) / (1 + v).sqrt()
        log_mass = torch.special.log_ndtr(z)
        if step == STEPS:
            break
        ratio = (-0.5 * z.square() - 0.5 * math.log(2 * math.pi) - log_mass).exp()
        slope, bend = sign * ratio / (1 + v).sqrt(), ratio * (z + ratio) / (1 + v)
        left = 1 - v * bend
        tau = (tau + DAMPED * (bend / left - tau)).clamp_min(1e-12)
        nu = nu + DAMPED * ((slope + m * bend) / left - nu)
    total = tau + cavity
    evidence = log_mass.sum(-1) + 0.5 * (tau / cavity).log1p().sum(-1) + 0.5 * (nu * (mu - nu / total)).sum(-1)
    evidence += 0.5 * (m * cavity / total * (tau * m - 2 * nu)).sum(-1)
    evidence -= factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    inverse = torch.linalg.solve_triangular(factor, torch.diag_embed(root), upper=False)
    gathered = inverse.mT @ inverse
    return _Fit(mean, evidence, nu - (gathered @ prior.unsqueeze(-1)).squeeze(-1), gathered)


class _Probability(torch.autograd.Function):
    """The probability with its gradient in closed form, in NumPy, which is quicker at few points."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, model: Feasibility) -> Tensor:
        x = X.detach().reshape(-1, X.shape[-1]).to("cpu", torch.double).numpy() - 0.5
        near = np.exp(-0.5 * model.scale * cdist(x, model.centred, "sqeuclidean"))
        k = near + (SLOPE * x) @ model.centred.T
        reach = k @ model.precision
        prior = model.structure.variance * (1 + SLOPE * (x * x).sum(-1))
        total = 1 + np.maximum(prior - (k * reach).sum(-1), 0.0)
        z = (model.mean + k @ model.gradient) / np.sqrt(total)
        ctx.model, ctx.kept, ctx.shape = model, (x, near, reach, total, z), X.shape
        p = model.weight * ndtr(z) + (1 - model.weight) * model.chance
        return torch.from_numpy(p).to(X).reshape(X.shape[:-1])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        model: Feasibility = ctx.model
        x, near, reach, total, z = ctx.kept
        outer = grad.reshape(-1).to("cpu", torch.double).numpy()
        dz = outer * (model.weight / math.sqrt(2 * math.pi)) * np.exp(-0.5 * z * z)
        dmean, dvariance = (dz / np.sqrt(total))[:, None], (-0.5 * dz * z / total)[:, None]
        dk = dmean * model.gradient - 2 * dvariance * reach
        falling = dk * near
        moved = model.scale * (falling @ model.centred - falling.sum(-1, keepdims=True) * x)
        plane = SLOPE * (dk @ model.centred + 2 * model.structure.variance * dvariance * x)
        return torch.from_numpy(moved + plane).to(grad).reshape(ctx.shape), None
