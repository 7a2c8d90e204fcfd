r"""CMES: indirect queries that tell most about the maximum.

References:

.. [Zhang2024indirect]
    M. Zhang, S. Bouabid, C. S. Ong, S. Flaxman, D. Sejdinovic. Indirect Query Bayesian
    Optimization with Integrated Feedback. 2024.
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition import FixedFeatureAcquisitionFunction
from torch import Tensor

from mfbo_torch.errors import SettingError
from mfbo_torch.history import History
from mfbo_torch.strategies.indirect import Informative

RESOLUTIONS = ("target", "all")


class CMES(Informative):
    r"""Conditional max-value entropy search, :math:`\arg\max_a I(z; f^* \mid a)` [Zhang2024indirect]_ (Eq. 13).

    The queries are those of a box, or the space's choices.

    Args:
        resolutions: ``"target"``: every query at the finest resolution; ``"all"``: at the one that tells most
            per unit of its cost.
        **settings: Those of :class:`~mfbo_torch.strategies.indirect.Informative`.

    Raises:
        SettingError: Unknown ``resolutions``.
    """

    def __init__(self, *, resolutions: str = "target", **settings: Any) -> None:
        super().__init__(**settings)
        if resolutions not in RESOLUTIONS:
            raise SettingError("resolutions", resolutions, " or ".join(map(repr, RESOLUTIONS)))
        self.resolutions = resolutions

    def propose(self, history: History, generator: torch.Generator) -> tuple[Tensor, int, dict[str, Any]]:
        information, space = self.information(history, generator), self.space
        found = []
        for m in range(space.num_fidelities) if self.resolutions == "all" else [space.target]:
            acquisition = information
            if space.num_fidelities > 1:
                acquisition = FixedFeatureAcquisitionFunction(information, space.width, [space.dim], [float(m)])
            u, value = self.maximize(acquisition, generator, num_restarts=4, raw_samples=128)
            found.append((value, m, u))
        value, fidelity, u = max(found, key=lambda one: one[0])
        return u, fidelity, {"log_information_per_cost": value}
