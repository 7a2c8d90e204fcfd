"""The units in which the fidelities of a model are standardised."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mfbo_torch.utils.standardize import varies


def units(train_X: Tensor, train_Y: Tensor, linked: Sequence[bool], link: str) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the targets per fidelity, ``M`` each.

    A fidelity with fewer than two values has those of the nearest one. The values of one with fewer than
    ``2 (d + 1)`` may be alike by chance: linked, its deviation is at least that of the fidelity below;
    independent, it has mean and deviation of all fidelities together.

    Args:
        train_X: ``... x n x (d + 1)`` designs, the last column the fidelity.
        train_Y: ``... x n x 1`` observations.
        linked: ``M`` times whether a fidelity follows the one below.
        link: ``"recursive"`` or ``"independent"``.
    """
    shifts: list[Tensor] = []
    scales: list[Tensor] = []
    fidelity, Y = train_X[..., -1], train_Y.squeeze(-1)
    groups = [Y[fidelity == m] for m in range(len(linked))]
    rich = [m for m, group in enumerate(groups) if varies(group)]
    for m, own in enumerate(groups):
        few = len(own) < 2 * train_X.shape[-1]
        if link == "independent" and few and varies(Y):
            shifts.append(Y.mean())
            scales.append(Y.std())
            continue
        near = groups[min(rich, key=lambda k: (abs(k - m), k))] if rich else Y.new_ones(0)
        scale = near.std() if len(near) else Y.new_ones(())
        scales.append(torch.maximum(scale, scales[-1]) if few and linked[m] else scale)
        shifts.append(own.mean() if len(own) else near.mean() if len(near) else Y.mean())
    return torch.stack(shifts), torch.stack(scales)
