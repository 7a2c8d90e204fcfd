r"""The lazy algorithm of the paper, as a peer.

References:

.. [Desautels2012gpbucb]
    T. Desautels, A. Krause, J. Burdick. Parallelizing Exploration-Exploitation Tradeoffs with Gaussian
    Process Bandit Optimization. ICML 2012.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg.blas import dtrsv
from torch import Tensor

from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.kernels import cross_correlation

CHUNK = 512
"""Candidates whose covariances with the data are computed together."""


class PaperLazy:
    r"""Upper bounds :math:`\hat\sigma`, refreshed one at a time [Desautels2012gpbucb]_ (Eq. 5).

    The bounds start at infinity and hold for all rounds, as long as the hyper-parameters stay and every pick is
    observed. Means and covariances
    come for all candidates at once; a refresh is one back-substitution, by LAPACK.

    Args:
        X: ``m x d`` candidates.
    """

    def __init__(self, X: Tensor) -> None:
        self.X, self.bounds, self.refreshes = X, np.full(len(X), np.inf), 0

    def select(self, cache: Cache, width: float, q: int) -> list[int]:
        """The picks of one batch.

        Args:
            cache: The factor of all points with values.
            width: Weight of the deviation.
            q: How many.
        """
        n, m, scale, noise = cache.num_points, len(self.X), cache.outputscale.item(), cache.noise.item()
        scaled, picks = cache.scaled(self.X), []
        cross, mean = np.zeros((m, n + q)), np.empty(m)
        for start in range(0, m, CHUNK):
            some = slice(start, start + CHUNK)
            known = scale * cross_correlation(cache.kernel, scaled[some], cache.inputs)
            cross[some, :n], mean[some] = known.numpy(), (cache.constant + known @ cache.alpha).numpy()
        gram = scale * cross_correlation(cache.kernel, cache.inputs, cache.inputs)
        upper = np.eye(n + q, order="F")  # rows of picks to come solve to zero
        upper[:n, :n] = np.linalg.cholesky((gram + noise * torch.eye(n).to(gram)).numpy()).T
        scores = mean + width * self.bounds
        for t in range(q):
            fresh = None
            while (best := int(scores.argmax())) != fresh:
                v = dtrsv(upper, cross[best], trans=1)
                self.bounds[best] = np.sqrt(max(scale - v @ v, 0.0))
                scores[best] = mean[best] + width * self.bounds[best]
                self.refreshes += 1
                fresh = best
            picks.append(best)
            upper[:, n + t] = v
            upper[n + t, n + t] = np.sqrt(scale + noise - v @ v)
            column = scale * cross_correlation(cache.kernel, scaled, scaled[best : best + 1])
            cross[:, n + t] = column.squeeze(1).numpy()
        return picks
