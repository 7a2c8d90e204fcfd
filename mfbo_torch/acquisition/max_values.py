r"""Samples of the maximum of ``f`` from its posterior."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mfbo_torch.models.indirect.deconditional import DeconditionalGP
from mfbo_torch.ops.low_rank import pivoted_cholesky

LEFT_OUT = 1e-10
"""Largest variance of ``f`` that draws leave to independent numbers, as a share of its prior variance."""
LEAST = 1e-30
"""Smallest variance that a draw or a query is taken to have, as such a share: it is divided by."""
MAX_RANK = 1000
"""Largest number of columns of a draw's covariance."""


def thompson(model: DeconditionalGP, X: Tensor, num_samples: int) -> Tensor:
    """Maxima of joint draws of ``f`` over ``n x d`` inputs, ``num_samples`` of them."""
    draws, _ = joint_draws(model, X, num_samples)
    return draws.amax(-1)


def joint_draws(model: DeconditionalGP, X: Tensor, num_samples: int) -> tuple[Tensor, float]:
    r"""``num_samples x n`` draws of ``f`` at ``n x d`` inputs from its posterior without the covariance of all inputs
    with each other, and the largest deviation that is left out, in the units of ``f``.

    The posterior covariance is :math:`F F^\top + E`, ``F`` a few columns by pivoted Cholesky. A draw is the mean, ``F``
    times normal numbers, and independent normal numbers with the variances on the diagonal of ``E``, so that each value
    has its own distribution exactly; only the covariances in ``E``, none larger than its largest variance, are left
    out.
    """
    with torch.no_grad():
        mean, variance, column = model.latent_covariances(X)
        tolerance = LEFT_OUT * model.covar_module(X, diag=True).max().item()
        F, left, _ = pivoted_cholesky(column, variance, tolerance, MAX_RANK)
        deviation = left.sqrt()
        shared = torch.randn(num_samples, F.shape[-1], dtype=X.dtype, device=X.device)
        own = torch.randn(num_samples, len(X), dtype=X.dtype, device=X.device)
        return mean + shared @ F.mT + deviation * own, deviation.max().item()


def gumbel(model: DeconditionalGP, X: Tensor, num_samples: int) -> Tensor:
    r"""Draws from a Gumbel distribution with the quartiles of the largest of independent values: those of
    :math:`P(f^* < y) \approx \prod_x \Psi((y - m(x)) / s(x))` over ``n x d`` inputs, found by bisection
    [Wang2017mes]_ (Section 3.1)."""
    with torch.no_grad():
        mean, variance = model.latent_mean_variance(X)
        least = LEAST * model.covar_module(X, diag=True).max()
        deviation = variance.clamp_min(least).sqrt()
        levels = mean.new_tensor([0.25, 0.5, 0.75]).log()
        low = (mean - 5 * deviation).amax().expand(3)
        high = (mean + (5 + math.sqrt(2 * math.log(len(X) + 1))) * deviation).amax().expand(3)
        for _ in range(60):
            middle = 0.5 * (low + high)
            reached = torch.special.log_ndtr((middle.unsqueeze(-1) - mean) / deviation).sum(-1) >= levels
            low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
        q1, q2, q3 = high
        scale = (q1 - q3) / (math.log(math.log(4 / 3)) - math.log(math.log(4)))
        location = q2 + scale * math.log(math.log(2))
        uniform = torch.rand(num_samples, dtype=mean.dtype, device=mean.device).clamp(1e-12, 1 - 1e-7)
        return location - scale * (-uniform.log()).log()
