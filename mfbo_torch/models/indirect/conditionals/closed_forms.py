r"""Averages of a kernel over Gaussian and uniform windows, one dimension after the other.

An RBF kernel is a product over the dimensions, and so are its averages. A Matérn kernel is a mixture of RBF kernels,

.. math:: k_\nu(r) = E_u[e^{-r^2 / 2u}], \quad u \sim \text{Gamma}(\nu, \nu)

[Rasmussen2006gpml]_ (Section 4.2.1), so that one quadrature over ``u`` serves every window and every dimension, and the
average is as positive definite as the kernel is.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from mfbo_torch.ops.kernels import MATERNS

MIXTURE_ERROR = 1e-10
"""Largest difference between a Matérn correlation and its mixture, hence between their averages."""
STEP = 0.3
"""Step of the quadrature of a mixture, in ``log u``."""
NARROW = 0.5
"""Largest half-width in lengthscales of a uniform window that is averaged by quadrature: differences of
antiderivatives lose digits there."""
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)


@lru_cache
def mixture(kind: str) -> list[tuple[float, float]]:
    """Weights, which sum to one, and squared lengthscales, relative to the kernel's own, of the RBF kernels that make
    up a correlation: the trapezoidal rule in ``log u``, which converges exponentially."""
    if kind == "rbf":
        return [(1.0, 1.0)]
    nu = next(nu for nu, name in MATERNS.items() if name == kind)
    logs = np.arange(math.log(MIXTURE_ERROR) / nu - 1.0, 4.0, STEP)
    u = np.exp(logs)
    weights = np.exp(nu * logs - nu * u)
    keep = weights > 1e-16 * weights.max()
    weights = weights / weights.sum()
    return list(zip(weights[keep].tolist(), u[keep].tolist(), strict=True))


def rational(alpha: Tensor) -> list[tuple[Tensor, float]]:
    r"""As :func:`mixture`, of the rational quadratic :math:`(1 + r^2 / 2\alpha)^{-\alpha} = E_u[e^{-u r^2 / 2}]` with
    :math:`u \sim \text{Gamma}(\alpha, \alpha)`; the nodes follow ``α``, the weights are differentiable in it."""
    a = alpha.item()
    lowest = (math.log(MIXTURE_ERROR) + math.lgamma(a + 1)) / a - math.log(a) - 1.0
    highest = math.log(1.0 + 60.0 / a + math.sqrt(90.0 / a))
    logs = torch.arange(lowest, highest, min(STEP, 0.8 / math.sqrt(a)), dtype=alpha.dtype, device=alpha.device)
    weights = torch.softmax(alpha * (logs - logs.exp()), 0)
    squared = (-logs).exp().tolist()
    return [(w, s) for w, s in zip(weights.unbind(), squared, strict=True) if w > 1e-16]


def gaussian(distance: Tensor, variance: Tensor, squared: Tensor) -> Tensor:
    r"""Average of :math:`e^{-(u/l)^2/2}` over :math:`u \sim N(D, \tau^2)`,
    :math:`\sqrt{l^2 / (l^2 + \tau^2)} \, e^{-D^2 / 2(l^2 + \tau^2)}`: ``distance`` is ``D``, ``variance`` is
    :math:`\tau^2` of both windows together, ``squared`` is :math:`l^2`."""
    total = squared + variance
    return (squared / total).sqrt() * torch.exp(-0.5 * distance.square() / total)


def uniform(distance: Tensor, first: Tensor, second: Tensor | None) -> Tensor:
    """Average of :math:`e^{-u^2/2}` over one or two uniform windows, in lengthscales: the distance ``D`` of the
    centres, the half-width of one and that of the other, a point if ``None``."""
    if second is None:
        return _one(distance, first)
    wide, narrow = torch.maximum(first, second), torch.minimum(first, second)
    is_narrow = narrow <= NARROW
    if not is_narrow.any():
        return _two(distance, wide, narrow)
    small = torch.where(is_narrow, narrow, NARROW)
    value = torch.zeros_like(distance)
    for t, w in _nodes():
        value = value + 0.5 * w * _one(distance + t * small, wide)
    if is_narrow.all():
        return value
    return torch.where(is_narrow, value, _two(distance, wide, torch.where(is_narrow, NARROW, narrow)))


def _nodes() -> list[tuple[float, float]]:
    return list(zip(NODES.tolist(), NODE_WEIGHTS.tolist(), strict=True))


def _one(distance: Tensor, half: Tensor) -> Tensor:
    r"""Average of :math:`e^{-u^2/2}` over :math:`u \in [D - \delta, D + \delta]`."""
    is_narrow = half <= NARROW
    root = math.sqrt(0.5)
    big = torch.where(is_narrow, 1.0, half)
    wide = math.sqrt(math.pi / 8) / big * (torch.erf((distance + big) * root) - torch.erf((distance - big) * root))
    if not is_narrow.any():
        return wide
    small = torch.where(is_narrow, half, NARROW)
    narrow = torch.zeros_like(distance)
    for t, w in _nodes():
        narrow = narrow + 0.5 * w * torch.exp(-0.5 * (distance + t * small).square())
    return torch.where(is_narrow, narrow, wide)


def _two(distance: Tensor, wide: Tensor, narrow: Tensor) -> Tensor:
    r"""Average over two windows, from the second antiderivative
    :math:`\sqrt{\pi/2} \, u \, \mathrm{erf}(u / \sqrt 2) + e^{-u^2/2}`."""

    def antiderivative(u: Tensor) -> Tensor:
        return math.sqrt(math.pi / 2) * u * torch.erf(u * math.sqrt(0.5)) + torch.exp(-0.5 * u.square())

    outer, inner = wide + narrow, wide - narrow
    right = antiderivative(distance + outer) - antiderivative(distance + inner)
    left = antiderivative(distance - inner) - antiderivative(distance - outer)
    return (right - left) / (4 * wide * narrow)
