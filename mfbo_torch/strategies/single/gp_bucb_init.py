"""How much a batch can tell, and the bound on it below which GP-BUCB stops sampling by uncertainty."""

from __future__ import annotations

import torch
from torch import Tensor

from mfbo_torch.confidence import batch_gain_bound, linear_initialization, matern_initialization, rbf_initialization
from mfbo_torch.confidence.prior import SMOOTHNESS, Prior
from mfbo_torch.space import Space
from mfbo_torch.strategies.common.initial_design import sobol

MOST = 1000
"""Number of designs, at most, at which the information of a batch is bounded: candidates evenly, or a Sobol set of a
box."""


def most_information(prior: Prior, designs: Tensor, t: int) -> float:
    """A bound on ``γ_t``, what ``t`` observations among some designs can tell under a prior, in nats."""
    return batch_gain_bound(prior.covariance(designs, designs), prior.noise, t + 1)


def places(space: Space) -> Tensor:
    """Where a batch may be queried, at most :data:`MOST` designs of the unit cube."""
    candidates = space.unit_candidates
    if not len(candidates):
        return space.designs(sobol(space.dim, MOST // 2, 0))
    return candidates[torch.linspace(0, len(candidates) - 1, min(len(candidates), MOST)).round().long()]


def multiplier(prior: Prior | None, dim: int, batch: int) -> float:
    """``C'`` of Table 1 for the kernel; that of the RBF kernel where hyper-parameters are fitted."""
    kernel = "rbf" if prior is None else prior.kernel
    if kernel == "linear":
        return linear_initialization(batch, dim).multiplier
    return (matern_initialization(batch) if kernel in SMOOTHNESS else rbf_initialization(batch, dim)).multiplier
