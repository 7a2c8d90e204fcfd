"""CMES: indirect queries that tell most about the maximum."""

from __future__ import annotations

import math
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, FixedFeatureAcquisitionFunction
from torch import Tensor

from mfbo_torch.history import Query
from mfbo_torch.strategies.common.fit_schedule import draw_seed, quiet
from mfbo_torch.strategies.common.initial_design import allowed, sobol
from mfbo_torch.strategies.indirect.base import Informative
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.validation import one_of

RESOLUTIONS = ("target", "all")
NEARLY = 0.8
"""The part of the most information from which on a query may be asked."""
DRAWN = 128
"""Number of designs of a box among which such queries are looked for."""


class CMES(Informative):
    r"""Conditional max-value entropy search, :math:`\arg\max_a I(z; f^* \mid a)` [Zhang2024indirect]_ (Eq. 13).

    The queries are those of a box, or the space's candidates. Many of them tell nearly as much as the best one, which
    often lies in a corner: what is asked is any of those that tell at least four fifths as much, at random.

    Args:
        resolutions: ``"target"``: every query at the finest resolution; ``"all"``: at the one that tells most
            per unit of its cost.
        strict: Ask the very query that tells most, as the paper has it.
    """

    def __init__(self, *, resolutions: str = "target", strict: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.resolutions = one_of("resolutions", resolutions, RESOLUTIONS)
        self.strict = one_of("strict", strict, (True, False))

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        information, space = self.information(snapshot, generator), self.space
        found = []
        for m in range(space.num_fidelities) if self.resolutions == "all" else [space.target]:
            acquisition: AcquisitionFunction = information
            if space.num_fidelities > 1:
                acquisition = FixedFeatureAcquisitionFunction(information, space.width, [space.dim], [float(m)])
            u, value = self.maximize(acquisition, generator, num_restarts=4, raw_samples=128)
            found.append((value, m, u, acquisition))
        value, fidelity, u, acquisition = max(found, key=lambda one: one[0])
        if not self.strict:
            u, value = self._nearly(acquisition, u, value, generator)
        return self.placed(u, fidelity, snapshot, generator, log_information_per_cost=value)

    def _nearly(
        self, acquisition: AcquisitionFunction, u: Tensor, value: float, generator: torch.Generator
    ) -> tuple[Tensor, float]:
        """Any query ``1 x d`` that tells nearly as much as the best one ``u``, at random, and its value."""
        seed, space = draw_seed(generator), self.space
        some = space.unit_candidates if space.candidates else allowed(lambda n: sobol(space.dim, n, seed), DRAWN, space)
        with torch.no_grad(), quiet():
            parts = [acquisition(part.unsqueeze(-2)).cpu() for part in self.surrogate.to(some).split(4096)]
        told = torch.cat(parts)
        nearly = (told >= value + math.log(NEARLY)).nonzero().squeeze(-1)
        j = int(torch.randint(len(nearly) + 1, (1,), generator=generator))
        return (u, value) if j == len(nearly) else (some[nearly[j]].unsqueeze(0), told[nearly[j]].item())
