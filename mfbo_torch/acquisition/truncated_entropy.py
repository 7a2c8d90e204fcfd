r"""Logarithm of the information, in nats, of a noisy average about the maximum; stable in value and gradient.

With ``g`` normal, ``z = g + ε`` and :math:`\gamma = (f^* - \nu) / \sigma_g`, both forms are
:math:`H[z] - H[z \mid g \le f^*]`. The information itself is below 1e-16 from ``γ = 8`` on and rounds to 0 from
``γ = 38`` on, where an optimiser still needs its gradient.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
SERIES_BELOW = -40.0
"""The ``γ`` below which asymptotic series replace differences that have lost their digits."""
CONSTANT_BELOW = -1e4
"""The ``γ`` below which the information of a noisy average is constant."""
UPPER_TAIL = 4.0
"""The argument from which on ``log Ψ`` is taken from its upper tail."""
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(16)


def _log_density(x: Tensor) -> Tensor:
    return -0.5 * x.square() - LOG_ROOT_2PI


def _excess(gamma: Tensor) -> Tensor:
    r""":math:`\psi(\gamma)/\Psi(\gamma) + \gamma`, below :data:`SERIES_BELOW` from its asymptotic series."""
    near = gamma.clamp_min(SERIES_BELOW)
    exact = torch.exp(_log_density(near) - torch.special.log_ndtr(near)) + near
    u = -1 / gamma.clamp_max(SERIES_BELOW)
    s = u.square()
    series = u * (1 - s * (2 - s * (10 - s * (74 - s * 706))))
    return torch.where(gamma < SERIES_BELOW, series, exact)


def _log_cdf_per_density(x: Tensor) -> Tensor:
    r""":math:`\log \Psi(x) / \psi(x)` at ``x`` above -4, where it neither over- nor underflows."""
    below = x.clamp(-UPPER_TAIL, UPPER_TAIL)
    left = torch.special.log_ndtr(below) * torch.exp(-_log_density(below))
    above = x.clamp_min(UPPER_TAIL)
    mills = math.sqrt(math.pi / 2) * torch.special.erfcx(above * math.sqrt(0.5))
    tail = 0.5 * torch.special.erfc(above * math.sqrt(0.5))
    right = -mills * (1 + tail * (0.5 + tail * (1 / 3 + tail * 0.25)))  # -log(1 - tail) / tail, to the fourth order
    return torch.where(x < UPPER_TAIL, left, right)


def _log_cdf_per_ratio(eta: Tensor) -> Tensor:
    r""":math:`\log \Psi(\eta) \, \Psi(\eta) / \psi(\eta)`: about ``-|η|/2`` to the left, ``-1/η`` to the right."""
    below = eta.clamp_max(0.0)
    log_cdf = torch.special.log_ndtr(below)
    left = log_cdf * torch.exp(log_cdf - _log_density(below))
    above = eta.clamp_min(0.0)
    return torch.where(eta < 0, left, _log_cdf_per_density(above) * torch.special.ndtr(above))


def log_truncated_information(gamma: Tensor) -> Tensor:
    r"""The logarithm of the information of an average without noise, in double precision,

    .. math:: \log \left[ \frac{\gamma \psi(\gamma)}{2 \Psi(\gamma)} - \log \Psi(\gamma) \right]

    [Zhang2024indirect]_ (Eq. 14), with the standard normal density and distribution function. The information falls in
    ``γ``, from :math:`\log |\gamma| + \frac12 \log 2\pi - \frac12` far below zero to 0.
    """
    dtype, gamma = gamma.dtype, gamma.double()
    below = gamma.clamp_max(0.0)  # γψ/Ψ = γ(excess - γ), log Ψ = -γ²/2 - log √2π - log(excess - γ)
    excess = _excess(below)
    lower = (0.5 * below * excess + LOG_ROOT_2PI + (excess - below).log()).log()
    above = gamma.clamp_min(0.0)
    upper = _log_density(above) + (0.5 * above / torch.special.ndtr(above) - _log_cdf_per_density(above)).log()
    return torch.where(gamma < 0, lower, upper).to(dtype)


def log_noisy_information(gamma: Tensor, share: Tensor) -> Tensor:
    r"""The logarithm of the information of an average with noise, in double precision.

    The density of ``z`` given :math:`g \le f^*` is that of [Zhang2024indirect]_ (Appendix A). Its entropy has closed
    parts and, in :math:`\eta = (f^* - u(z)) / s(z)`, one smooth expectation: the information is

    .. math::
        \tfrac12 \rho^2 \gamma r - \log \Psi(\gamma)
        + \sqrt{1 - \rho^2} \, r \, E_{\eta \sim N(\sqrt{1 - \rho^2} \gamma, \rho^2)}
        \left[ \frac{\Psi(\eta)}{\psi(\eta)} \log \Psi(\eta) \right],
        \quad r = \frac{\psi(\gamma)}{\Psi(\gamma)},

    which 16 Gauss-Hermite nodes integrate; ``share`` is :math:`\rho^2 = \sigma_g^2 / (\sigma_g^2 + \sigma^2)`,
    broadcast against ``gamma``. It is that of :func:`log_truncated_information` where there is no noise.
    """
    dtype, gamma, share = gamma.dtype, gamma.double().clamp_min(CONSTANT_BELOW), share.double()
    other = (1 - share).clamp_min(1e-30).sqrt()
    spread = share.clamp_min(1e-30).sqrt()
    nodes, weights = (torch.from_numpy(part).to(gamma) for part in (NODES, WEIGHTS / WEIGHTS.sum()))
    expected = _log_cdf_per_ratio((other * gamma).unsqueeze(-1) + spread.unsqueeze(-1) * nodes) @ weights
    below = gamma.clamp_max(0.0)
    log_cdf = torch.special.log_ndtr(below)
    ratio = torch.exp(_log_density(below) - log_cdf)
    lower = (0.5 * share * below * ratio - log_cdf + other * ratio * expected).clamp_min(1e-300).log()
    above = gamma.clamp_min(0.0)
    cdf = torch.special.ndtr(above)
    bracket = 0.5 * share * above / cdf - _log_cdf_per_density(above) + other * expected / cdf
    upper = _log_density(above) + bracket.clamp_min(1e-300).log()
    return torch.where(gamma < 0, lower, upper).to(dtype)
