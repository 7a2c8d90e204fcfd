r"""Acquisitions where evaluations may fail.

References:

.. [Schonlau1998constrained]
    M. Schonlau, W. Welch, D. Jones. Global versus Local Search in Constrained Optimization of Computer Models.
    New Developments and Applications in Experimental Design, IMS 1998.
"""

from __future__ import annotations

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from mfbo_torch.models.feasibility import Feasibility


class Feasible(AcquisitionFunction):
    r"""An acquisition times the probability that the design can be evaluated.

    The logarithm of a gain becomes :math:`a(x) + \log p(x)` [Schonlau1998constrained]_. Another acquisition gains
    :math:`v(x) = a(x) - r` over its value ``r`` where nothing is gained, the best known mean for an upper bound:
    :math:`v(x) - (1 - p(x)) |v(x)|`, that is :math:`p(x) v(x)` where there is a gain. Both grow with ``a`` and
    with ``p``, and where ``p`` is the same everywhere the maximiser is that of ``a``.

    Where a failure shows at a share ``c`` of the cost, as a cheaper fidelity fails too, asking it first makes the
    mean cost ``c + p`` instead of 1: the gain for its cost is that with :math:`p / \min(1, c + p)` in place of ``p``.

    Args:
        acquisition: Of ``b x q x d'`` points whose first ``d`` columns are the design; ``q = 1``.
        feasibility: The probability, of designs.
        reference: ``r``; ``None`` for an acquisition that is the logarithm of a gain.
        probe: ``c``; 1 where a failure costs as much as a success.
    """

    def __init__(
        self,
        acquisition: AcquisitionFunction,
        feasibility: Feasibility,
        reference: float | None = None,
        probe: float = 1.0,
    ) -> None:
        super().__init__(acquisition.model)
        self.acquisition, self.feasibility, self.reference, self.probe = acquisition, feasibility, reference, probe

    def forward(self, X: Tensor) -> Tensor:
        """Values ``b`` at ``b x 1 x d'`` points."""
        value = self.acquisition(X)
        probability = self.feasibility(X[..., 0, : self.feasibility.dim])
        if self.probe < 1:
            probability = probability / (self.probe + probability).clamp_max(1.0)
        if self.reference is None:
            return value + probability.log()
        gain = value - self.reference
        return torch.where(gain > 0, probability * gain, (2 - probability) * gain)
