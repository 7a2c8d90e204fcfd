"""Simulation matching: the batch that is nearest to what a sequential policy would ask."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mfbo_torch.history import Status
from mfbo_torch.ops.kernels import distances
from mfbo_torch.strategies.common.fit_schedule import draw_seed
from mfbo_torch.strategies.common.initial_design import sobol
from mfbo_torch.strategies.single.base import Banded, Noted
from mfbo_torch.strategies.snapshot import Snapshot
from mfbo_torch.utils.memo import Memo
from mfbo_torch.utils.validation import one_of, whole

POLICIES = ("ucb", "mei")


class SimulationMatching(Banded):
    r"""Batches that match simulated runs of a sequential policy [Azimi2010matching]_.

    Each run is simulated on its own sample of the posterior. A batch ``S`` is to have a design near each simulated one:
    it is chosen greedily, each design the simulated one that most lowers
    :math:`\sum_i \min_{b \in S} |x_i - b|^2`, the pending designs being in ``S`` already.

    Args:
        policy: ``"ucb"``, GP-UCB (SM-UCB), or ``"mei"``, the maximum expected improvement over the largest
            posterior mean (SM-MEI).
        batch_size: Length of a simulated run, at least 1.
        num_simulations: Number of simulated runs, at least 1.
        num_candidates: Number of designs that policies choose from, at least 1: Sobol points of a box, or some of a
            larger set of candidates, drawn anew for each batch.
    """

    def __init__(
        self,
        *,
        policy: str = "ucb",
        batch_size: int = 10,
        num_simulations: int = 100,
        num_candidates: int = 1000,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.policy, self.batch_size = one_of("policy", policy, POLICIES), whole("batch_size", batch_size)
        self.num_simulations = whole("num_simulations", num_simulations)
        self.num_candidates = whole("num_candidates", num_candidates)
        self._simulated: Memo[tuple[Tensor, Tensor, Tensor]] = Memo()

    def untouched(self, snapshot: Snapshot) -> bool:
        return False  # the runs are then those of the prior

    def design(self, snapshot: Snapshot, generator: torch.Generator) -> Noted:
        (matched, counts, gaps), pending = self.simulated(snapshot), self.pending(snapshot)
        if len(pending):
            gaps = torch.minimum(gaps, distances(matched, pending).square().amin(dim=-1))
        return matched[(gaps @ counts).argmin()].unsqueeze(0), {}

    def simulated(self, snapshot: Snapshot) -> tuple[Tensor, Tensor, Tensor]:
        """The designs of all simulated runs, ``n x d``, how often each was queried, and their squared distances.

        They depend on what has been observed, not on what is pending.
        """
        ended = [r for r in snapshot.records if r.status != Status.PENDING]

        def runs() -> tuple[Tensor, Tensor, Tensor]:
            generator = snapshot.of(ended).generator(self.seed)
            candidates = self._candidates(snapshot, generator)
            queried, counts = self._simulate(candidates, snapshot, generator).unique(return_counts=True)
            matched = candidates[queried]
            return matched, counts.double(), distances(matched, matched).square()

        return self._simulated([(r.query, r.value, r.standard_error) for r in ended], runs)

    def _candidates(self, snapshot: Snapshot, generator: torch.Generator) -> Tensor:
        candidates = self.candidates(snapshot)
        if not len(candidates):
            return self.space.designs(sobol(self.space.dim, self.num_candidates, draw_seed(generator)))
        if len(candidates) <= self.num_candidates:
            return candidates
        return candidates[torch.randperm(len(candidates), generator=generator)[: self.num_candidates].sort().values]

    def _simulate(self, X: Tensor, snapshot: Snapshot, generator: torch.Generator) -> Tensor:
        """Indices of the candidates that the runs ask, ``num_simulations * batch_size``."""
        mean, covariance, noise = self._joint(X, snapshot)
        runs, beta = torch.arange(self.num_simulations), self.width(snapshot)
        mean, variance = mean.expand(len(runs), -1), covariance.diagonal().expand(len(runs), -1)
        rows: list[Tensor] = []
        picks: list[Tensor] = []
        for _ in range(self.batch_size):
            deviation = variance.clamp_min(1e-20).sqrt()
            if self.policy == "ucb":
                score = mean + math.sqrt(beta) * deviation
            else:
                z = (mean - mean.amax(dim=-1, keepdim=True)) / deviation
                density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
                score = deviation * (z * torch.special.ndtr(z) + density)
            pick = score.argmax(dim=-1)
            spread = (variance[runs, pick] + noise).sqrt().unsqueeze(-1)
            shock = torch.randn(len(runs), 1, generator=generator, dtype=torch.double).to(mean)
            row = covariance[pick]
            for earlier in rows:
                row = row - earlier[runs, pick].unsqueeze(-1) * earlier
            row = row / spread
            mean, variance = mean + row * shock, variance - row.square()
            rows.append(row)
            picks.append(pick)
        return torch.cat(picks).cpu()

    def _joint(self, X: Tensor, snapshot: Snapshot) -> tuple[Tensor, Tensor, float]:
        """Posterior mean and covariance at the candidates, in the units of the model, and its noise."""
        X, prior = self.surrogate.to(X), self.gp.prior
        if not self.modelled(snapshot) and prior is not None:
            scale = prior.outputscale
            covariance = prior.covariance(X.double(), X.double()).to(X) / scale
            return X.new_zeros(len(X)), covariance, prior.noise / scale
        model = self.gp.model(*self.observed(snapshot))
        with torch.no_grad():
            mean, covariance, noise = model.joint(X)
        return mean, covariance, noise.mean().item()
