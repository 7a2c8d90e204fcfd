r"""Greedy selection in plain torch: the specification."""

from __future__ import annotations

import torch
from torch import Tensor

from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.kernels import cross_correlation
from mfbo_torch.ops.posterior.chunked import whitened

JITTER = 1e-12
"""Least variance of a pick's observation, as a share of the prior variance."""


@torch.no_grad()
def select(cache: Cache, X: Tensor, width: float | Tensor, q: int) -> Tensor:
    r"""``q`` picks of ``m x d`` candidates by hallucinated upper confidence bound [Desautels2012gpbucb]_ (Eq. 4).

    Each maximises :math:`\mu + w \sigma` with the earlier ones pending; the first of equals wins, and one can be picked
    again. With :math:`V = L^{-1} k(\cdot, X)`, a pick ``*`` adds to ``V`` the row
    :math:`u = (k(*, X) - V_*^\top V) / \sqrt{\sigma_*^2 + \sigma^2}`, and the variance falls by :math:`u^2`. The
    radicand is at least :data:`JITTER` times the prior variance.
    """
    n, m = cache.num_points, X.shape[0]
    V = X.new_empty(m, n + q - 1)
    mean, variance = whitened(cache, X, V[:, :n])
    scaled = cache.scaled(X)
    picks = torch.empty(q, dtype=torch.long, device=X.device)
    for t in range(q):
        pick = torch.argmax(mean + width * variance.sqrt()).reshape(1)
        picks[t : t + 1] = pick
        if t < q - 1:
            row = V.narrow(1, 0, n + t)
            prior = cache.outputscale * cross_correlation(cache.kernel, scaled, scaled[pick]).squeeze(1)
            observed = torch.maximum(variance[pick] + cache.noise, JITTER * cache.outputscale)
            u = torch.addmv(prior, row, row[pick].squeeze(0), alpha=-1) / observed.sqrt()
            V[:, n + t] = u
            variance = (variance - u.square()).clamp_min_(0.0)
    return picks
