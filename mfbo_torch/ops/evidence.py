r"""The log marginal likelihood of a Gaussian process, with its gradient in closed form."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from mfbo_torch.ops.kernels import EXACT, FALLS, ROOTS, with_fall


class Evidence(NamedTuple):
    """A log marginal likelihood and its gradient in ``n`` residuals, ``d`` lengthscales, one output scale and ``n``
    noise variances."""

    value: Tensor
    residuals: Tensor
    lengthscale: Tensor
    outputscale: Tensor
    noise: Tensor


def log_evidence(
    kernel: str, X: Tensor, residuals: Tensor, lengthscale: Tensor, outputscale: Tensor, noise: Tensor
) -> Evidence:
    r"""The log density of ``n`` residuals at ``n x d`` points under a stationary process with mean 0, one output scale,
    ``d`` lengthscales and ``n`` noise variances, and its gradient in all but ``X``.

    :math:`-\tfrac12 r^\top \alpha - \sum_i \log L_{ii} - \tfrac n2 \log 2\pi` with :math:`K + S = L L^\top` and
    :math:`\alpha = (K + S)^{-1} r`; its gradient in a hyper-parameter is
    :math:`\tfrac12 \mathrm{tr}\bigl((\alpha \alpha^\top - (K + S)^{-1}) \partial K\bigr)`
    [Rasmussen2006gpml]_ (Eqs. 2.30, 5.9).
    """
    with torch.no_grad():
        scaled = X / lengthscale
        scaled = scaled - scaled.mean(0)
        distance = torch.cdist(scaled, scaled, compute_mode=EXACT).mul_(ROOTS[kernel])
        pole = 1 / distance if kernel == "matern12" else None
        value, fall = with_fall(kernel, distance)
        if pole is not None:
            fall = torch.where(pole.isinf(), 0.0, fall * pole)
        covariance = outputscale * value
        covariance.diagonal().add_(noise)
        root, failed = torch.linalg.cholesky_ex(covariance)
        if failed:
            root = psd_safe_cholesky(covariance)
        weights = torch.cholesky_solve(residuals.unsqueeze(-1), root)
        w = weights.squeeze(-1)
        pull = torch.cholesky_inverse(root).mT.neg_().addr_(w, w)  # symmetric; row-major, as the others are
        scale = 0.5 * torch.dot(pull.reshape(-1), value.reshape(-1))
        curved = fall.mul_(pull)  # may be in the place of the correlations
        sides = curved @ torch.cat([scaled, torch.ones_like(scaled[:, :1])], -1)
        moments = sides[:, -1] @ scaled.square() - (scaled * sides[:, :-1]).sum(0)
        slopes = outputscale * (ROOTS[kernel] ** 2 / FALLS[kernel]) * moments / lengthscale
        total = -0.5 * (residuals @ w) - root.diagonal().log().sum() - 0.5 * len(residuals) * math.log(2 * math.pi)
        return Evidence(total, -w, slopes, scale, 0.5 * pull.diagonal())
