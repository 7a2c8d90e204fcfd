"""At which sizes a CUDA device is measured, and which block sizes are tried."""

from dataclasses import dataclass

import torch

from mfbo_torch.ops.posterior.tiles import PAD, Tiles


@dataclass(frozen=True)
class Sizes:
    """What is measured at which size: tuples of ``n`` and ``m``, of ``n``, ``m`` and ``q``, of ``n`` and ``d``.

    ``peer`` is the largest ``m`` for BoTorch, ``few`` the numbers of points of the ``small`` models, ``ceiling`` the
    size of the matrix product; a call is repeated for so many ``seconds``.
    """

    forward: tuple[tuple[int, int], ...] = ((1024, 10**6), (2048, 10**6), (4096, 10**6), (1024, 10**7))
    backward: tuple[tuple[int, int], ...] = ((1024, 10**6), (4096, 10**6))
    peer: int = 10**6
    small: tuple[int, ...] = (20, 100, 400, 1000)
    few: tuple[int, ...] = (1, 10, 64)
    processes: tuple[int, int] = (1024, 10**6)
    greedy: tuple[int, int, int] = (1024, 10**6, 64)
    acquisition: tuple[tuple[int, int], ...] = ((30, 2), (100, 6), (400, 8))
    capital: float = 200.0
    sweep: tuple[tuple[str, int, int], ...] = (
        ("stored", 2048, 2**17),
        ("covariance", 2048, 2**17),
        ("gradient", 2048, 2**16),
        ("recomputed", 256, 2**19),
        ("few", 400, 64),
    )
    ceiling: int | None = None
    seconds: float = 1.0


DRY = Sizes(
    forward=((5, 9),), backward=((5, 9),), small=(5,), few=(3,), processes=(5, 9), greedy=(5, 9, 2),
    acquisition=((5, 2),), capital=2.5, sweep=(("stored", 5, 9), ("gradient", 5, 9)), ceiling=16, seconds=0.0,
)  # fmt: skip
CANDIDATES = {
    "stored": [
        (128, 64, 32, 4, 4),
        (128, 128, 32, 8, 3),
        (128, 128, 16, 8, 3),
        (128, 128, 16, 8, 4),
        (128, 128, 32, 8, 2),
        (128, 64, 16, 4, 3),
        (128, 64, 32, 8, 3),
        (64, 128, 16, 4, 4),
        (64, 64, 32, 4, 3),
    ],
    "covariance": [
        *((64, 32, 1, 4, 1, cap) for cap in (64, 96, 128, 255)),
        (64, 64, 1, 8, 1, 64),
        (64, 64, 1, 8, 1),
        (32, 64, 1, 4, 1, 128),
        (128, 32, 1, 8, 1, 96),
    ],
    "gradient": [(64, 128, 16, 8, 3), (64, 64, 16, 4, 3), (64, 64, 16, 8, 3), (32, 128, 16, 8, 3), (64, 64, 32, 8, 2)],
    "recomputed": [(64, 128, 16, 8, 3), (64, 64, 16, 4, 3), (64, 64, 16, 8, 3), (128, 64, 16, 8, 3)],
    "few": [(16, 64, 32, 4, 2), (16, 32, 32, 4, 2), (16, 64, 64, 4, 2), (16, 128, 32, 8, 2), (32, 64, 32, 4, 2)],
}
"""Block sizes that are tried, as the fields of :class:`~mfbo_torch.ops.posterior.tiles.Tiles`."""


def fit_together(tiles: dict[tuple[str, torch.dtype], Tiles]) -> bool:
    """Whether the blocks of launches that share a scratch divide each other, and all of them ``PAD``."""
    for kind in {kind for _, kind in tiles}:
        few, recomputed, stored, covariance, gradient = (
            tiles[way, kind] for way in ("few", "recomputed", "stored", "covariance", "gradient")
        )
        for whole in (few, recomputed, stored):
            if PAD % whole.rows or whole.rows % whole.columns:
                return False
        for whole, part in ((recomputed, gradient), (stored, gradient), (stored, covariance)):
            if whole.rows % part.rows or whole.points % part.points:
                return False
        if gradient.rows % gradient.columns:
            return False
    return True
