r"""Downscaling on a swiss roll: positions along the roll from their means in slices of it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mfbo_torch.utils.validation import number, whole


class SwissRoll(NamedTuple):
    """Points ``X`` of a roll (``N x 3``), the middles ``A`` of the slices that they are in (``N x 1``; ``D1`` is
    ``(X, A)``), their positions along the roll, to be recovered (``N``), the middles of the slices as queries, and the
    noisy means of the positions in each (both ``m x 1``)."""

    X: Tensor
    A: Tensor
    position: Tensor
    queries: Tensor
    means: Tensor


def swiss_roll(num_points: int = 300, num_slices: int = 50, noise: float = 0.05, seed: int = 0) -> SwissRoll:
    r"""Points :math:`(t \cos t, h, t \sin t)`, cut into slices of equal thickness along the last coordinate.

    A slice meets several windings, so its mean position alone says little about that of a point in it
    [Chau2021deconditional]_ (Section 5.1). A conditional mean operator for it needs a kernel narrower than a slice:
    neighbouring slices have other points, and means that differ.

    Args:
        num_points: Number of points.
        num_slices: Number of slices; empty ones are left out.
        noise: Standard deviation of the noise of a mean.
        seed: Of the points and the noise.
    """
    num_points, num_slices = whole("num_points", num_points), whole("num_slices", num_slices)
    noise = number("noise", noise, 0)
    generator = torch.Generator().manual_seed(whole("seed", seed, 0))
    uniform = torch.rand(num_points, 2, generator=generator, dtype=torch.double)
    t, height = 1.5 * math.pi * (1 + 2 * uniform[:, 0]), 21 * uniform[:, 1]
    X = torch.stack([t * t.cos(), height, t * t.sin()], -1)
    last = X[:, 2].contiguous()
    edges = torch.linspace(last.min().item(), last.max().item(), num_slices + 1, dtype=torch.double)
    inside = torch.bucketize(last, edges[1:-1])
    middles = (edges[1:] + edges[:-1]) / 2
    used, member = inside.unique(return_inverse=True)
    counts = torch.bincount(member).double()
    means = torch.zeros(len(used), dtype=torch.double).index_add(0, member, t) / counts
    means = means + noise * torch.randn(len(used), generator=generator, dtype=torch.double)
    return SwissRoll(X, middles[inside].unsqueeze(-1), t, middles[used].unsqueeze(-1), means.unsqueeze(-1))
