r"""Expected improvement: its logarithm by deviations, and that of the target by a query at another fidelity."""

from __future__ import annotations

import math

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from mfbo_torch.models.multi_fidelity.base import at_fidelity


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


class LogAugmentedExpectedImprovement(AcquisitionFunction):
    """Logarithm of the augmented expected improvement at one fidelity ``l`` of a model over ``d`` parameters and the
    fidelity [Huang2006mfsko]_.

    ``EI(x) α_1(x, l) α_2(x, l) α_3(l)``, where ``EI`` is the expected improvement of the target ``f^(M)`` over
    ``best_f``, its posterior mean at the effective best design; ``α_1`` is the posterior correlation of ``f^(l)(x)``
    and ``f^(M)(x)``; ``α_2 = 1 - σ_ε / √(σ_l²(x) + σ_ε²)`` discounts repetitions; and ``α_3 = λ^(M) / λ^(l)`` is
    ``cost_ratio``.
    """

    def __init__(self, model: Model, best_f: float, fidelity: int, target: int, cost_ratio: float) -> None:
        super().__init__(model=model)
        self.best_f, self.fidelity, self.target = best_f, fidelity, target
        self.log_cost_ratio = math.log(cost_ratio)

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """Values ``b`` of ``b x 1 x d`` designs."""
        pair = torch.cat([at_fidelity(X, self.fidelity), at_fidelity(X, self.target)], dim=-2)
        posterior = self.model.posterior(pair).distribution
        variance = posterior.variance.clamp_min(1e-10)
        correlation = posterior.covariance_matrix[..., 0, 1] / variance.prod(dim=-1).sqrt()
        noise = self.model.likelihood.noise.mean()
        repetition = 1.0 - (noise / (variance[..., 0] + noise)).sqrt()
        discounts = correlation.clamp(1e-6, 1.0).log() + repetition.clamp_min(1e-6).log()
        deviation = variance[..., 1].sqrt()
        improvement = log_gain((posterior.mean[..., 1] - self.best_f) / deviation) + deviation.log()
        return improvement + discounts + self.log_cost_ratio
