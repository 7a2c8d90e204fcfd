"""Baselines for indirect queries: a Gaussian process on the queries that ignores what they average over.

They recommend the maximiser of the posterior mean of ``f`` under CMES's model [Zhang2024indirect]_ (Section 7).
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, qMaxValueEntropy
from torch import Tensor

from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History, Query, Record
from mfbo_torch.strategies.common.fit_schedule import draw_seed, seeded
from mfbo_torch.strategies.common.initial_design import sobol
from mfbo_torch.strategies.indirect.base import OverAverages
from mfbo_torch.strategies.single.analytic import GPUCB, ExpectedImprovement
from mfbo_torch.strategies.single.base import Noted, OneFidelity
from mfbo_torch.strategies.snapshot import Snapshot

CANDIDATES = 1000
"""Most queries over which MES samples the maximum of ``g``."""


class OverQueries(OverAverages):
    """A strategy for one fidelity decides over the queries at the finest resolution; others only count for advice.

    Args:
        prior: The process over the queries, where it is known; nothing is fitted to them then.
    """

    kind: type[OneFidelity]
    """The strategy that decides."""

    def __init__(self, *, prior: Prior | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.prior = prior
        shared = {name: getattr(self, name) for name in ("prior", "seed", "refit_every", "device", "dtype")}
        self._rule = self.kind(**shared, **self.own_settings())

    def own_settings(self) -> dict[str, Any]:
        """The settings of :attr:`kind` beyond those that every strategy here has."""
        return {}

    @property
    def rule(self) -> OneFidelity:
        """What decides, over the same space."""
        return self._rule.bind(self.space, self.capital)

    def modelled(self, snapshot: Snapshot) -> list[Record]:
        return self.rule.modelled(snapshot)

    def ready(self, snapshot: Snapshot) -> bool:
        return self.rule.ready(snapshot)

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        return self.rule.propose(snapshot, generator)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of the GP over the queries, at the finest resolution."""
        return self.rule.predict(history, X)


class QueryUCB(OverQueries):
    """:class:`~mfbo_torch.strategies.GPUCB` over the queries.

    Args:
        beta: The squared width, see :class:`~mfbo_torch.strategies.single.base.Banded`.
        delta: As there.
        scale: As there.
    """

    kind = GPUCB

    def __init__(
        self, *, beta: float | str | None = None, delta: float = 0.1, scale: float = 1.0, **settings: Any
    ) -> None:
        self.beta, self.delta, self.scale = beta, delta, scale
        super().__init__(**settings)

    def own_settings(self) -> dict[str, Any]:
        return {"beta": self.beta, "delta": self.delta, "scale": self.scale}


class QueryEI(OverQueries):
    """:class:`~mfbo_torch.strategies.ExpectedImprovement` over the queries."""

    kind = ExpectedImprovement


class _MaxValueEntropy(OneFidelity):
    """Max-value entropy search at one fidelity."""

    def design(self, snapshot: Snapshot, generator: torch.Generator) -> Noted:
        seed = draw_seed(snapshot.generator(self.seed))
        with seeded(seed):
            points = self.surrogate.to(self._points(seed))
            acquisition = qMaxValueEntropy(self.hallucinated(snapshot), points, num_fantasies=1)
        return self.maximiser(acquisition, snapshot, generator), {}

    def discounted(self, acquisition: AcquisitionFunction, snapshot: Snapshot) -> AcquisitionFunction:
        """Information is a gain over none."""
        return self.feasible(acquisition, snapshot, self.level, lambda: 0.0)

    def _points(self, seed: int) -> Tensor:
        """Where the maximum is sampled."""
        if not self.space.candidates:
            return sobol(self.space.dim, CANDIDATES, seed)
        candidates = self.space.unit_candidates
        return candidates[:: max(1, -(-len(candidates) // CANDIDATES))]


class QueryMES(OverQueries):
    """BoTorch's max-value entropy search [Wang2017mes]_, by Gumbel samples over at most :data:`CANDIDATES` queries."""

    kind = _MaxValueEntropy
