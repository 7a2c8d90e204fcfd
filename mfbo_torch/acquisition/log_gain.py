"""The logarithm of what a normal variable is expected to exceed a threshold by.

.. [Ament2023logei]
    S. Ament, S. Daulton, D. Eriksson, M. Balandat, E. Bakshy. Unexpected Improvements to Expected Improvement for
    Bayesian Optimization. NeurIPS 2023.
"""

import math

import torch
from torch import Tensor


def log_gain(u: Tensor) -> Tensor:
    r"""``log E[max(u + z, 0)]`` of a standard normal ``z``, elementwise: expected improvement by deviations, as a log.

    It is :math:`\log(\phi(u) + u \Phi(u))` above -1; below, where that cancels,
    :math:`\log \phi(u) + \log(1 + u \Phi(u) / \phi(u))` by the scaled complementary error function
    [Ament2023logei]_ (Eq. 9), and where that cancels too the first two terms of its expansion,
    :math:`u^{-2} (1 - 3 u^{-2})`.
    """
    far = -(torch.finfo(u.dtype).eps ** -0.25)
    above, below = u.clamp(min=-1.0), u.clamp(max=-1.0)
    near = below.clamp(min=far)
    closed = (near * math.sqrt(math.pi / 2) * torch.special.erfcx(-near / math.sqrt(2))).log1p()
    expanded = (-3 / below.square()).clamp(min=-0.5).log1p() - 2 * (-below).log()
    density = -0.5 * torch.stack([above, below]).square() - 0.5 * math.log(2 * math.pi)
    direct = (density[0].exp() + above * torch.special.ndtr(above)).log()
    return torch.where(u > -1, direct, density[1] + torch.where(below > far, closed, expanded))
