"""Records as tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mfbo_torch.history.record import Record

if TYPE_CHECKING:
    from torch import Tensor


SMALLEST = 1e-150
"""Smallest size of a value that is not 0 for a model: the squares of smaller ones vanish in double precision."""


def points(records: Iterable[Record]) -> Tensor:
    """The ``n x (d + 1)`` double tensor of designs (user's units) and fidelities."""
    import torch  # here, so that a journal is read without it

    return torch.tensor([[*r.query.x, r.query.fidelity] for r in records], dtype=torch.double)


def values(records: Iterable[Record]) -> Tensor:
    """The ``n x 1`` double tensor of observations; those below :data:`SMALLEST` in size are 0."""
    import torch

    Y = torch.tensor([[r.value] for r in records], dtype=torch.double)
    return Y.masked_fill(Y.abs() < SMALLEST, 0.0)


def noise_variances(records: Iterable[Record]) -> Tensor | None:
    """The ``n x 1`` double tensor of squared standard errors; ``None`` unless every observation has one, as the noise
    of one without need not be that of those with one: a model then infers the noise of all."""
    import torch

    errors = [r.standard_error for r in records]
    known = [[error**2] for error in errors if error is not None]
    return torch.tensor(known, dtype=torch.double) if errors and len(known) == len(errors) else None
