"""CMES: indirect queries that tell most about the maximum."""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition import FixedFeatureAcquisitionFunction

from mfbo_torch.history import Query
from mfbo_torch.strategies.indirect.base import Informative
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.validation import one_of

RESOLUTIONS = ("target", "all")


class CMES(Informative):
    r"""Conditional max-value entropy search, :math:`\arg\max_a I(z; f^* \mid a)` [Zhang2024indirect]_ (Eq. 13).

    The queries are those of a box, or the space's candidates.

    Args:
        resolutions: ``"target"``: every query at the finest resolution; ``"all"``: at the one that tells most
            per unit of its cost.
    """

    def __init__(self, *, resolutions: str = "target", **settings: Any) -> None:
        super().__init__(**settings)
        self.resolutions = one_of("resolutions", resolutions, RESOLUTIONS)

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        information, space = self.information(snapshot, generator), self.space
        found = []
        for m in range(space.num_fidelities) if self.resolutions == "all" else [space.target]:
            acquisition = information
            if space.num_fidelities > 1:
                acquisition = FixedFeatureAcquisitionFunction(information, space.width, [space.dim], [float(m)])
            u, value = self.maximize(acquisition, generator, num_restarts=4, raw_samples=128)
            found.append((value, m, u))
        value, fidelity, u = max(found, key=lambda one: one[0])
        return self.placed(u, fidelity, snapshot, generator, log_information_per_cost=value)
