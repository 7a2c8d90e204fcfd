"""Covariances given points whose values are still out, from the joint posterior with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

Joint = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Mean ``... x q`` and covariance ``... x q x q`` at ``... x q x (d + 1)`` points."""


def given(joint: Joint, X: Tensor, pending: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean at points as it is, and :math:`\Sigma_{XX} - \Sigma_{XP} (\Sigma_{PP} + D)^{-1} \Sigma_{PX}`.

    Args:
        joint: The posterior without the pending points.
        X: ``... x q x (d + 1)`` points.
        pending: ``p x (d + 1)`` points.
        noise: ``p`` noise variances, the diagonal of ``D``.
    """
    q, pending = X.shape[-2], pending.to(X)
    mean, covariance = joint(torch.cat([X, pending.expand(*X.shape[:-2], *pending.shape)], -2))
    root = psd_safe_cholesky(covariance[..., q:, q:] + torch.diag_embed(noise))
    gained = torch.linalg.solve_triangular(root, covariance[..., q:, :q], upper=False)
    return mean[..., :q], covariance[..., :q, :q] - gained.mT @ gained


def at_every_fidelity(X: Tensor, fidelities: int | Tensor) -> Tensor:
    """``... x M x (d + 1)`` points: each of ``... x d`` designs with each of ``M`` values of the last column, or with
    ``0 .. M - 1``."""
    levels = (torch.arange(fidelities) if isinstance(fidelities, int) else fidelities).to(X)
    shape = (*X.shape[:-1], len(levels))
    return torch.cat([X.unsqueeze(-2).expand(*shape, -1), levels.unsqueeze(-1).expand(*shape, 1)], -1)


def at_linked(pending: Tensor, linked: Sequence[bool]) -> Tensor | None:
    """Those of ``p x (d + 1)`` points whose fidelity follows another one, ``None`` for none."""
    some = pending[torch.tensor(linked, device=pending.device)[pending[:, -1].round().long()]]
    return some if len(some) else None
