"""A factor laid out for the fewest and cheapest torch calls per posterior."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from mfbo_torch.ops.kernels import FALLS, ROOTS

BLOCK = 200
"""Columns of a triangular block from which skipping its zeros pays for another call."""


@dataclass(frozen=True)
class Prepared:
    r"""Everything that does not depend on where the posterior is asked for.

    With correlations ``R`` of ``m`` points, ``R @ blocks`` is :math:`(L^{-1} k)^\top` and ``R @ alpha``
    is :math:`k^\top \alpha`: the output scale is folded in, padded points have zero rows. The upper
    triangular matrix :math:`L^{-\top}` is cut into blocks of columns, each without the zeros below
    its last diagonal entry.

    Args:
        scale: ``... x 1 x d`` factors that bring points to the scale of ``points``.
        points: ``... x n x d``.
        chain: ``... x 1 x d`` factors of the gradient in the points, with the -2 of a square's.
        blocks: ``... x e x w`` each, ``e`` the number of points it needs.
        blocks_back: The transposes of ``blocks``.
        alpha: ``... x k``, ``k`` the number of points that have a value.
        alpha_back: ``... x 1 x k``, minus one half of ``alpha``: its share of the gradient, see ``chain``.
        constant: ``... x 1`` prior mean.
        prior: ``... x 1`` prior variance.
        batch_shape: ``...``.
        row: Bytes of the covariances of one point with those that have a value: points without one must not
            move the borders of the pieces in which many points are taken, for rounding follows these borders.
    """

    scale: Tensor
    points: Tensor
    chain: Tensor
    blocks: tuple[Tensor, ...]
    blocks_back: tuple[Tensor, ...]
    alpha: Tensor
    alpha_back: Tensor
    constant: Tensor
    prior: Tensor
    batch_shape: torch.Size
    row: int


def prepare(
    kernel: str,
    inputs: Tensor,
    mask: Tensor,
    inverse: Tensor,
    alpha: Tensor,
    lengthscale: Tensor,
    outputscale: Tensor,
    constant: Tensor,
) -> Prepared:
    """Lay out a factor; the arguments are the fields of :class:`~mfbo_torch.ops.cache.Cache`."""
    n = inputs.shape[-2]
    batch = torch.broadcast_shapes(
        inputs.shape[:-2], mask.shape[:-1], inverse.shape[:-2], alpha.shape[:-1], outputscale.shape, constant.shape
    )

    def spread(part: Tensor, axes: int) -> Tensor:
        return part.contiguous().expand(*batch, *part.shape[part.dim() - axes :])

    scale = outputscale.unsqueeze(-1) * mask
    right = scale.unsqueeze(-1) * inverse.mT
    count = min(max(n // BLOCK, 1), 4 + n // 1000)
    edges = [n * i // count for i in range(count + 1)]
    root = ROOTS[kernel]
    blocks = tuple(spread(right[..., :e, s:e], 2) for s, e in pairwise(edges))
    alpha = spread(scale[..., : alpha.shape[-1]] * alpha, 1)
    return Prepared(
        scale=spread((root / lengthscale).unsqueeze(-2), 2),
        points=spread(inputs * root, 2),
        chain=spread((-2 * root / FALLS[kernel] / lengthscale).unsqueeze(-2), 2),
        blocks=blocks,
        blocks_back=tuple(block.mT for block in blocks),
        alpha=alpha,
        alpha_back=-0.5 * alpha.unsqueeze(-2),
        constant=spread(constant.unsqueeze(-1), 1),
        prior=spread(outputscale.unsqueeze(-1), 1),
        batch_shape=batch,
        row=batch.numel() * max(alpha.shape[-1], n // 2) * inputs.element_size(),
    )
