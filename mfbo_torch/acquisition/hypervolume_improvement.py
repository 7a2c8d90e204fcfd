r"""The hypervolume that an observation is expected to add to a front."""

from __future__ import annotations

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.utils.multi_objective.box_decompositions.non_dominated import FastNondominatedPartitioning
from botorch.utils.safe_math import log1mexp
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from mfbo_torch.acquisition.expected_improvement import log_gain

LEAST_VARIANCE = 1e-12
"""Smallest variance of an objective, in the square of its unit."""
LEAST_EDGE = 1e-10
"""Length of an edge, in units of the objective, below which a box is empty."""
FAR = 1e10
"""Where an edge without end ends."""


class LogExpectedHypervolumeImprovement(AcquisitionFunction):
    r"""The logarithm of the expected hypervolume improvement of a front, in closed form.

    The region that the front does not dominate, above the reference point, is a union of boxes
    :math:`\prod_k [l_{ik}, u_{ik}]`. Where the objectives are independent and normal at ``x``,

    .. math:: \alpha(x) = \log \sum_i \prod_k \bigl( g_k(l_{ik}) - g_k(u_{ik}) \bigr), \qquad
        g_k(a) = E[\max(f_k(x) - a, 0)] = \sigma_k h\bigl((\mu_k - a) / \sigma_k\bigr), \quad
        h(z) = \varphi(z) + z \Phi(z)

    [Yang2019ehvi]_ (Sec. 4), each term in logarithms as [Ament2023logei]_ has it for a single objective, so that the
    gradient does not vanish where little is gained.

    Args:
        model: A model of ``K >= 2`` outputs, to be maximised, in units of about 1.
        ref_point: ``K`` numbers: the hypervolume is counted above them.
        front: ``n x K`` values, dominated ones allowed; none is allowed too.
    """

    def __init__(self, model: Model, ref_point: Tensor, front: Tensor) -> None:
        super().__init__(model=model)
        above = front[(front > ref_point).all(-1)]
        boxes = FastNondominatedPartitioning(ref_point, above).get_hypercell_bounds()
        lower, upper = boxes.nan_to_num(posinf=FAR).clamp_max(FAR)
        kept = (upper - lower > LEAST_EDGE).all(-1)
        self.register_buffer("ref_point", ref_point)
        self.register_buffer("lower", lower[kept])
        self.register_buffer("upper", upper[kept])

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """``α`` at ``b x 1 x d`` designs, shape ``b``."""
        posterior = self.model.posterior(X)
        mean, deviation = posterior.mean, posterior.variance.clamp_min(LEAST_VARIANCE).sqrt()  # ... x 1 x K
        lower, upper = (log_gain((mean - edge) / deviation) for edge in (self.lower, self.upper))
        ratio = (upper - lower).clamp_max(-torch.finfo(mean.dtype).eps)
        return (deviation.log() + lower + log1mexp(ratio)).sum(-1).logsumexp(-1)
