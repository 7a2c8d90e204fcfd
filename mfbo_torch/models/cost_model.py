r"""A model of the cost of an evaluation over designs and fidelities.

References:

.. [Snoek2012practical]
    J. Snoek, H. Larochelle, R. P. Adams. Practical Bayesian Optimization of Machine Learning Algorithms. NeurIPS 2012.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mfbo_torch.ops.kriging import KrigingData, krige, mean_variance

MIN_RECORDS = 10
"""Smallest number of records with which the model predicts better than their mean."""
MAX_RECORDS = 128
"""Largest number of records that the model is made of, evenly spaced over time."""
OUTPUTSCALES, LENGTHSCALES, NOISES = (1e-4, 1e-2, 1e-1, 1.0), (0.2, 0.6), (1e-6, 1e-3, 1e-2, 1e-1, 1.0)
"""The grid of variances and lengthscales of the nonlinear part, in units of the cube's diagonal, and of the scatter."""
OFFSET, SLOPE, GROWTH = 4.0, 4.0, 0.25
"""Prior variances: of the level, of the slope along each parameter, of the power of the nominal cost less 1."""
MIN_COST = 1e-9
"""Smallest cost, in its unit."""


class CostModel:
    r"""A model of the logarithm of cost over designs and fidelities.

    With the nominal costs :math:`\lambda^{(m)}`, ``M`` numbers,

    .. math:: \log c(x, m) = \log \lambda^{(m)} + b_0 + b^\top (x - \tfrac12)
        + b_f \log (\lambda^{(m)} / \lambda^{(M)}) + \delta(x, m) + \varepsilon,

    linear in the unit cube, that is in the logarithms of parameters on a log scale, with a Gaussian process
    :math:`\delta` for the rest (that the duration of an evaluation be modelled beside its value: [Snoek2012practical]_,
    Sec. 3.2). The coefficients are integrated out, the hyper-parameters of :math:`\delta` and :math:`\varepsilon`
    averaged over a grid by their evidence [Rasmussen2006gpml]_ (Eqs. 2.40 - 2.43): nothing is fitted by iteration, and
    the same records give the same model. A fidelity that never ran follows from its nominal cost.

    The predicted cost is the mean over the scatter of evaluations at one design,
    :math:`e^{\mu + \sigma_\varepsilon^2 / 2}`. The records are ``n x (d + 1)`` designs of the unit cube, then the
    fidelity, double, with ``n`` positive costs.
    """

    def __init__(self, points: Tensor, costs: Tensor, nominal: Sequence[float]) -> None:
        some = torch.linspace(0, len(points) - 1, min(len(points), MAX_RECORDS)).round().long()
        points, costs = points[some], costs[some]
        self.log_nominal = torch.tensor(nominal, dtype=torch.double).log()
        self.log_nominal_target = self.log_nominal[-1].item()
        X, basis = self._features(points[:, :-1], points[:, -1])
        Y = costs.clamp_min(MIN_COST).log() - self.log_nominal[points[:, -1].long()]
        grid = torch.cartesian_prod(*(Y.new_tensor(axis) for axis in (OUTPUTSCALES, LENGTHSCALES, NOISES)))
        outputscale, lengthscale, noise = grid.unbind(-1)
        mean = basis.new_zeros(basis.shape[-1])
        mean[0] = Y.mean()
        variance = torch.full_like(mean, SLOPE)
        variance[0], variance[-1] = OFFSET, GROWTH
        root = math.sqrt(X.shape[-1])
        wide = (root * lengthscale).unsqueeze(-1).expand(-1, X.shape[-1])
        noises = noise.unsqueeze(-1).expand(-1, len(Y))
        kriging = krige("matern52", KrigingData(X, Y, basis, mean, variance), wide, outputscale, noises)
        weights = kriging.evidence.softmax(-1)
        kept = weights > 1e-3 * weights.max()
        self.kriging, self.weights = kriging[kept], weights[kept] / weights[kept].sum()
        self.scatter = (self.weights @ noise[kept]).item()

    def __call__(self, u: Tensor) -> Tensor:
        """Costs ``n x M`` at ``n x d`` designs of the unit cube."""
        count = len(self.log_nominal)
        levels = torch.arange(count, dtype=torch.double).repeat(len(u))
        X, basis = self._features(u.to(self.log_nominal).repeat_interleave(count, 0), levels)
        with torch.no_grad():
            means, _ = mean_variance(self.kriging, X, basis)
        logs = self.log_nominal + (self.weights @ means).view(len(u), count) + 0.5 * self.scatter
        return logs.exp().clamp_min(MIN_COST)

    def _features(self, designs: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs of the process, ``n x (d + 1)``, and the basis ``n x (d + 2)``."""
        below = self.log_nominal[levels.long()] - self.log_nominal_target
        extent = max(self.log_nominal_target - self.log_nominal[0].item(), 1.0)
        X = torch.cat([designs, 1 + below.unsqueeze(-1) / extent], dim=-1)
        basis = torch.cat([torch.ones_like(X[:, :1]), designs - 0.5, below.unsqueeze(-1)], dim=-1)
        return X, basis
