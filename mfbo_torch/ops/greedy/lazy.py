r"""Greedy selection that computes few variances: a candidate waits behind an upper bound of its score.

Every point the process is conditioned on, cached or picked, can only lower a variance. So what was
computed with the first of them stays a bound, and a candidate whose bound is below the best score
needs no more [Desautels2012gpbucb]_ (Eq. 5). The paper starts from infinite bounds and refreshes one
candidate at a time. Here the bounds start from a part of the cached points, the candidates are sorted
by them, and neighbours in that order are refreshed together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.greedy.bounds import upper_bounds
from mfbo_torch.ops.greedy.reference import JITTER
from mfbo_torch.ops.kernels import EXACT, with_fall

REFRESHED = 128
"""Number of candidates that are refreshed together."""
KEPT_BYTES = 2**30
"""Largest size in bytes of the correlations kept between refreshes; those of further blocks are computed anew."""


@torch.no_grad()
def select(cache: Cache, X: Tensor, width: float, q: int, lazy: bool = True) -> tuple[list[int], int]:
    """The picks of :func:`mfbo_torch.ops.greedy.reference.select`, and the number of variances computed, the first
    bounds not counted. If ``lazy`` only blocks that may hold the best are refreshed, else all of them before each pick;
    either way a score comes from the same operations on the same block, so the picks are the same to the last bit."""
    field = _Field(cache, X, width, q)
    picks: list[int] = []
    for _ in range(q):
        if picks:
            field.condition(picks[-1])
        if not lazy:
            for j in range(len(field.tops)):
                field.refresh(j)
        picks.append(field.best())
    return picks, field.num_variances


@dataclass
class _Block:
    """``b`` candidates that are refreshed together: ascending indices, scaled points, and upper bounds of the scores;
    once computed, mean, variance and the ``b x (n + q - 1)`` correlations with the cached points and the picks."""

    index: Tensor
    points: Tensor
    bounds: Tensor
    mean: Tensor | None = None
    variance: Tensor | None = None
    cross: Tensor | None = None


class _Field:
    """All candidates, in blocks by falling first bounds, with the best score or bound of each block."""

    def __init__(self, cache: Cache, X: Tensor, width: float, q: int) -> None:
        self.cache, self.X, self.width, self.q = cache, X, width, q
        self.ready = cache.prepared
        n, most = cache.num_points, cache.num_points + q - 1
        self.points, self.weights = X.new_empty(most, X.shape[-1]), cache.outputscale.expand(most).clone()
        self.points[:n], self.weights[:n] = self.ready.points, cache.outputscale * cache.mask
        self.inverse = X.new_zeros(most, most)
        self.inverse[:n, :n] = cache.inverse
        self.rows: list[Tensor] = []
        self.num_variances, self.bytes_left = 0, KEPT_BYTES
        self.bounds, self.order = upper_bounds(cache, X, width).sort(descending=True, stable=True)
        self.tops, self.where = self.bounds[::REFRESHED].clone(), self.order[::REFRESHED].clone()
        self.blocks: list[_Block | None] = [None] * len(self.tops)
        self.fresh = [-1] * len(self.tops)
        """Number of picks that each block is conditioned on; -1 where there are only the first bounds."""

    def _correlations(self, points: Tensor, others: Tensor) -> Tensor:
        return with_fall(self.cache.kernel, torch.cdist(points, others, compute_mode=EXACT))[0]

    def condition(self, pick: int) -> None:
        r"""Add a pick to the points that variances are conditioned on: they fall by :math:`(k^\top r)^2`, ``r`` the
        row that it adds to the inverse factor, as in :func:`mfbo_torch.ops.cache.extend`."""
        n = self.cache.num_points + len(self.rows)
        point, known = self.ready.scaled(self.X[pick : pick + 1]), self.inverse[:n, :n]
        v = known @ (self.weights[:n] * self._correlations(point, self.points[:n]).squeeze(0))
        left = (self.ready.prior - v @ v).clamp_min(0.0) + self.cache.noise
        corner = torch.maximum(left, JITTER * self.ready.prior).rsqrt()
        self.points[n], self.inverse[n, :n], self.inverse[n, n] = point, -corner * (v @ known), corner
        self.rows.append(self.weights[: n + 1] * self.inverse[n, : n + 1])

    def best(self) -> int:
        """The candidate with the best score, the first of equals; refreshes what may hold it."""
        while True:
            tied = torch.where(self.tops == self.tops.max(), self.where, len(self.X))
            j = int(tied.argmin())
            if self.fresh[j] == len(self.rows):
                return int(self.where[j])
            self.refresh(j)

    def refresh(self, j: int) -> None:
        """Bring the variances of a block up to date."""
        block = self.blocks[j]
        if block is None:
            some = slice(j * REFRESHED, (j + 1) * REFRESHED)
            index, places = self.order[some].sort()
            self.blocks[j] = block = _Block(index, self.ready.scaled(self.X[index]), self.bounds[some][places])
        n, known, now = self.cache.num_points, self.fresh[j], len(self.rows)
        cross, columns = block.cross, max(known, 0)
        if cross is None:
            cross, columns = block.points.new_empty(len(block.index), n + self.q - 1), 0
            cross[:, :n] = self._correlations(block.points, self.ready.points)
            if cross.nbytes <= self.bytes_left:
                self.bytes_left -= cross.nbytes
                block.cross = cross
        for i in range(columns, now):
            cross[:, n + i] = self._correlations(block.points, self.points[n + i, None]).squeeze(1)
        if block.mean is None or block.variance is None:
            block.mean, block.variance = self._moments(cross)
        mean, variance = block.mean, block.variance
        for i in range(max(known, 0), now):
            variance = (variance - (cross[:, : n + i + 1] @ self.rows[i]).square()).clamp_min_(0.0)
        block.variance, self.fresh[j] = variance, now
        self.num_variances += len(variance)
        scores = torch.minimum(mean + self.width * variance.sqrt(), block.bounds)
        top = scores.argmax()
        self.tops[j], self.where[j] = scores[top], block.index[top]

    def _moments(self, cross: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance given all cached points."""
        mean, variance = cross[:, : self.ready.alpha.shape[-1]] @ self.ready.alpha, self.ready.prior
        for rows in self.ready.blocks:
            product = cross[:, : rows.shape[-1]] @ rows.mT
            variance = variance - torch.linalg.vecdot(product, product)
        return mean + self.ready.constant, variance.clamp_min(0.0)
