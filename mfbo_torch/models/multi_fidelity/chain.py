r"""The links between the fidelities of a recursive model, and the units in which they are standardised."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mfbo_torch.models.multi_fidelity.level import Level
from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.posterior import mean_variance
from mfbo_torch.utils.standardize import varies


def links(X: Tensor, num_fidelities: int, link: str) -> list[bool]:
    """Whether each fidelity of ``... x n x (d + 1)`` designs, the last column the fidelity, follows the one below:
    ``link`` is ``"recursive"`` and both have data."""
    known = [bool((X[..., -1] == m).any()) for m in range(num_fidelities)]
    return [link == "recursive" and m > 0 and known[m - 1] and known[m] for m in range(num_fidelities)]


def gathered(mask: Tensor, U: Tensor, Y: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The observations of one fidelity, padded to its largest count over the batch, and the mask of the padding; from
    ``... x n`` booleans, ``... x n x d`` designs, and ``... x n`` targets and noise variances."""
    count = int(mask.sum(-1).max())
    order = torch.argsort(~mask, dim=-1, stable=True)[..., :count]
    wide = order.expand(*Y.shape[:-1], count)
    U = U.gather(-2, order.unsqueeze(-1).expand(*order.shape, U.shape[-1]))
    return U, Y.gather(-1, wide), noise.gather(-1, wide), mask.gather(-1, order).to(Y)


def mean_below(levels: Sequence[Level], linked: Sequence[bool], caches: Sequence[Cache], U: Tensor, m: int) -> Tensor:
    """Standardised posterior mean of fidelity ``m - 1`` at designs of fidelity ``m``; zeros if not linked
    [LeGratiet2014recursive]_ (Eq. 9)."""
    mean = torch.zeros_like(U[..., 0])
    for k in range(m if linked[m] else 0):
        own, _ = mean_variance(caches[k], U)
        mean = own + levels[k].rho.detach() * mean if linked[k] else own
    return mean


def couplings(levels: Sequence[Level], linked: Sequence[bool], shift: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """``M x M`` weights of the residuals in each fidelity, and ``M`` offsets, in the targets' units."""
    rows: list[Tensor] = []
    offsets: list[Tensor] = []
    for m, level in enumerate(levels):
        unit = torch.zeros(len(levels)).to(scale)
        unit[m] = scale[m]
        offset = shift[m]
        if linked[m]:
            slope = level.rho.detach() * scale[m] / scale[m - 1]
            unit = unit + slope * rows[-1]
            offset = offset + slope * (offsets[-1] - shift[m - 1])
        rows.append(unit)
        offsets.append(offset)
    return torch.stack(rows), torch.stack(offsets)


def summed(
    parts: Sequence[tuple[Tensor, Tensor]], weights: Tensor, offsets: Tensor, fidelity: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean ``... x q`` and covariance ``... x q x q`` of values at ``... x q`` fidelities. The ``parts`` are means
    ``... x P x q`` and covariances ``... x P x q x q`` of the ``M`` residuals, ``weights`` and ``offsets`` those of
    :func:`couplings`."""
    means, covariances = zip(*parts, strict=True)
    W = weights[fidelity].mT
    mean = (W * torch.cat(means, -2)).sum(-2) + offsets[fidelity]
    return mean, (W.unsqueeze(-1) * W.unsqueeze(-2) * torch.cat(covariances, -3)).sum(-3)


def mean_noise(fidelity: Tensor, Yvar: Tensor, num_fidelities: int) -> Tensor:
    """``M`` means of ``... x n`` known noise variances, of all of them where a fidelity has none."""
    Yvar = Yvar.expand_as(fidelity)
    means = [Yvar[fidelity == m].mean() if (fidelity == m).any() else Yvar.mean() for m in range(num_fidelities)]
    return torch.stack(means)


def units(train_X: Tensor, train_Y: Tensor, linked: Sequence[bool], link: str) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the targets per fidelity, ``M`` each, of ``... x n x (d + 1)`` designs and
    ``... x n x 1`` observations.

    A fidelity with fewer than two values has those of the nearest one. The values of one with fewer than ``2 (d + 1)``
    may be alike by chance: linked, its deviation is at least that of the fidelity below; independent, it has mean and
    deviation of all fidelities together.
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
