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

    Args:
        acquisition: Of ``b x q x d'`` points whose first ``d`` columns are the design; ``q = 1``.
        feasibility: The probability, of designs.
        reference: ``r``; ``None`` for an acquisition that is the logarithm of a gain.
    """

    def __init__(
        self, acquisition: AcquisitionFunction, feasibility: Feasibility, reference: float | None = None
    ) -> None:
        super().__init__(acquisition.model)
        self.acquisition, self.feasibility, self.reference = acquisition, feasibility, reference

    def forward(self, X: Tensor) -> Tensor:
        """Values ``b`` at ``b x 1 x d'`` points."""
        value = self.acquisition(X)
        probability = self.feasibility(X[..., 0, : self.feasibility.dim])
        if self.reference is None:
            return value + probability.log()
        gain = value - self.reference
        return torch.where(gain > 0, probability * gain, (2 - probability) * gain)
