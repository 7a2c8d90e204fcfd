"""The layout of a factor with which a posterior takes the fewest and cheapest torch calls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from mfbo_torch.ops.kernels import FALLS, ROOTS

BLOCK_ROWS, LARGE_BLOCK_ROWS = 100, 256
"""Smallest number of rows of a triangular block whose zeros are worth another call, on a processor and elsewhere."""
MOST_BLOCKS = 9
"""Largest number of blocks, but for one more for each thousand points."""

Array = NDArray[Any]


class PreparedProcess(NamedTuple):
    """One of the processes of :class:`Prepared`, whose fields it has as arrays, for calls with few points; ``columns``
    are the points and a column of ones, ``n x (d + 1)``, ``half`` is one half of ``alpha``."""

    kernel: str
    center: Array
    scale: Array
    points: Array
    columns: Array
    blocks: tuple[Array, ...]
    alpha: Array
    half: Array
    constant: float
    prior: float
    chain: Array


@dataclass(frozen=True)
class Prepared:
    r"""Everything about a posterior that does not depend on the points at which it is computed.

    With correlations ``R`` of the points with ``m`` others, ``n x m``, ``blocks @ R`` is :math:`L^{-1} k` and
    ``alpha @ R`` is :math:`k^\top \alpha`: the output scale is folded in, padded points have zero columns. The lower
    triangular matrix :math:`L^{-1}` is cut into blocks of rows, each without the zeros behind its last diagonal entry.
    """

    kernel: str
    center: Tensor  # ... x 1 x d, the point that is subtracted from points first
    scale: Tensor  # ... x 1 x d factors that bring points to the scale of ``points``
    points: Tensor  # ... x n x d
    chain: Tensor  # ... x 1 x d factors of the gradient in the points, with the -2 of a square's
    blocks: tuple[Tensor, ...]  # ... x w x e each, e the number of points it needs
    alpha: Tensor  # ... x k, k the number of points that have a value
    alpha_back: Tensor  # ... x 1 x k, minus one half of ``alpha``: its share of the gradient, see ``chain``
    constant: Tensor  # ... x 1 prior mean
    prior: Tensor  # ... x 1 prior variance
    batch_shape: torch.Size
    row: int  # bytes of the covariances of one point with those that have a value: points without one must not
    # move the borders of the pieces in which many points are taken, for rounding follows these borders

    def scaled(self, X: Tensor) -> Tensor:
        """``... x m x d`` points in the scale of ``points``."""
        return (X - self.center).mul_(self.scale)

    @cached_property
    def processes(self) -> tuple[PreparedProcess, ...]:
        """Each process for itself, in the order of the flattened batch."""
        count = self.batch_shape.numel()

        def split(part: Tensor) -> list[Tensor]:
            return list(part.reshape(count, *part.shape[len(self.batch_shape) :]))

        vectors = [split(part) for part in (self.center.squeeze(-2), self.scale.squeeze(-2), self.chain.squeeze(-2))]
        points, alphas, blocks = split(self.points), split(self.alpha), [split(block) for block in self.blocks]
        constants, priors = self.constant.reshape(-1).tolist(), self.prior.reshape(-1).tolist()
        return tuple(
            PreparedProcess(
                kernel=self.kernel,
                center=vectors[0][i].numpy(),
                scale=vectors[1][i].numpy(),
                points=points[i].numpy(),
                columns=torch.cat([points[i], torch.ones_like(points[i][:, :1])], -1).numpy(),
                blocks=tuple(block[i].numpy() for block in blocks),
                alpha=alphas[i].numpy(),
                half=0.5 * alphas[i].numpy(),
                constant=constants[i],
                prior=priors[i],
                chain=vectors[2][i].numpy(),
            )
            for i in range(count)
        )


def prepare(
    kernel: str,
    inputs: Tensor,
    mask: Tensor,
    inverse: Tensor,
    alpha: Tensor,
    lengthscale: Tensor,
    outputscale: Tensor,
    constant: Tensor,
    center: Tensor,
) -> Prepared:
    """Lay out a factor; the arguments are the fields of :class:`~mfbo_torch.ops.cache.Cache`."""
    n = inputs.shape[-2]
    batch = torch.broadcast_shapes(
        inputs.shape[:-2], mask.shape[:-1], inverse.shape[:-2], alpha.shape[:-1], outputscale.shape, constant.shape
    )

    def spread(part: Tensor, axes: int) -> Tensor:
        return part.contiguous().expand(*batch, *part.shape[part.dim() - axes :])

    scale = outputscale.unsqueeze(-1) * mask
    left = inverse * scale.unsqueeze(-2)
    block = BLOCK_ROWS if inputs.device.type == "cpu" else LARGE_BLOCK_ROWS
    count = min(max(n // block, 1), MOST_BLOCKS + n // 1000)
    edges = [n * i // count for i in range(count + 1)]
    root = ROOTS[kernel]
    blocks = tuple(spread(left[..., s:e, :e], 2) for s, e in pairwise(edges))
    alpha = spread(scale[..., : alpha.shape[-1]] * alpha, 1)
    return Prepared(
        kernel=kernel,
        center=spread(center.unsqueeze(-2), 2),
        scale=spread((root / lengthscale).unsqueeze(-2), 2),
        points=spread(inputs * root, 2),
        chain=spread((-2 * root / FALLS[kernel] / lengthscale).unsqueeze(-2), 2),
        blocks=blocks,
        alpha=alpha,
        alpha_back=-0.5 * alpha.unsqueeze(-2),
        constant=spread(constant.unsqueeze(-1), 1),
        prior=spread(outputscale.unsqueeze(-1), 1),
        batch_shape=batch,
        row=batch.numel() * max(alpha.shape[-1], n // 2) * inputs.element_size(),
    )
