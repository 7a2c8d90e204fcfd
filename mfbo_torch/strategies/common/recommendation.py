"""What is recommended where values are noisy: the best of many observations is more lucky than good."""

from __future__ import annotations

import torch
from torch import Tensor

from mfbo_torch.history import Recommendation, Record, noise_variances

NEGLIGIBLE = 0.01
"""Inferred noise below this share of the values' standard deviation is none: smooth functions without noise stay far
below, and it would decide little."""
LIKELY = 0.5
"""Least probability with which what is recommended of noisy values keeps the limits."""


def noisy(records: list[Record], noise: float | None, spread: float) -> bool:
    """Whether values at the target are noisy.

    Where every value has a standard error, they are if one of these is positive; elsewhere if the noise that the model
    infers is above :data:`NEGLIGIBLE` times the spread of the values.

    Args:
        records: What was observed at the target.
        noise: The standard deviation of the noise there, ``None`` where no model tells it.
        spread: The standard deviation of the values.
    """
    known = noise_variances(records)
    return noise is not None and bool(noise > NEGLIGIBLE * spread if known is None else known.any())


def advised(
    records: list[Record],
    best: Record,
    predicted: tuple[Tensor, Tensor],
    noise: tuple[float | None, ...],
    feasible: Tensor | None,
    is_noisy: bool,
) -> Recommendation:
    r"""The design observed at the target with the largest posterior mean :math:`\mu^{(M)}`; without noise ``best``.

    Where outcomes have limits, only designs that keep them with probability :data:`LIKELY` count, and the probability
    is given, also of ``best`` where nothing is noisy.

    Args:
        records: What was observed at the target.
        best: The best of it.
        predicted: Mean and standard deviation of the target at each of their designs.
        noise: The standard deviation of the noise at each fidelity.
        feasible: The probability that each of the designs keeps the limits; ``None`` where there are none.
        is_noisy: Whether values at the target are noisy.
    """
    mean, deviation = predicted
    likely = torch.ones_like(mean, dtype=torch.bool) if feasible is None else feasible >= LIKELY
    chosen = records.index(best)
    if is_noisy and likely.any():
        chosen = int(mean.masked_fill(~likely, -torch.inf).argmax())
    chance = None if feasible is None else feasible[chosen].item()
    return Recommendation(records[chosen].query.x, mean[chosen].item(), deviation[chosen].item(), noise, best, chance)
