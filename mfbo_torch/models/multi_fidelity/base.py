"""Models of several fidelities: points are ``d`` parameters of a design and, in the last column, the fidelity."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from mfbo_torch.models.gp.conditioned import ConditionedModel
from mfbo_torch.models.input_checks import check_fidelities, check_points


class FidelityModel(ConditionedModel):
    """A model of the ``M = num_fidelities`` fidelities ``0 .. M - 1`` of one objective, the last one the target."""

    num_fidelities: int

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of design inputs ``d``, the fidelity not counted."""

    @property
    @abstractmethod
    def noise(self) -> Tensor:
        """``M`` noise variances in the targets' units squared (the mean ones, where known)."""

    @abstractmethod
    def _joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean ``b x q`` and covariance ``b x q x q`` at points of any mix of fidelities."""

    @abstractmethod
    def every_fidelity(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean ``n x M`` and covariance ``n x M x n x M`` of all fidelities at ``n x d`` designs, given the data and no
        pending point."""

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        check_fidelities("X", X, self.dim + 1, self.num_fidelities)
        return *self._joint(X), self.noise[levels(X)]

    def _checked_pending(self, X: Tensor) -> Tensor:
        X = check_points("X_pending", X, self.dim + 1)
        return check_fidelities("X_pending", X, self.dim + 1, self.num_fidelities)


def levels(X: Tensor) -> Tensor:
    """The fidelities ``...`` of ``... x (d + 1)`` points, as indices."""
    return X[..., -1].round().long()


def at_fidelity(X: Tensor, fidelity: float) -> Tensor:
    """``... x d`` designs with the fidelity as their last column."""
    return torch.cat([X, torch.full_like(X[..., :1], float(fidelity))], dim=-1)


def at_every_fidelity(X: Tensor, fidelities: int | Tensor) -> Tensor:
    """``... x M x (d + 1)`` points: each of ``... x d`` designs with each of ``M`` values of the last column, or with
    ``0 .. M - 1``."""
    values = (torch.arange(fidelities) if isinstance(fidelities, int) else fidelities).to(X)
    shape = (*X.shape[:-1], len(values))
    return torch.cat([X.unsqueeze(-2).expand(*shape, -1), values.unsqueeze(-1).expand(*shape, 1)], -1)
