"""What is recommended where values are noisy: the best of many observations is more lucky than good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mfbo_torch.history import Recommendation, Record, Status, noise_variances, points

if TYPE_CHECKING:
    from mfbo_torch.history import History
    from mfbo_torch.strategies.common.model_based import ModelBased

NEGLIGIBLE = 0.01
"""Inferred noise below this share of the values' standard deviation is none: smooth functions without noise stay far
below, and it would decide little."""


LIKELY = 0.5
"""What is recommended of noisy values keeps the limits with this probability at least."""


def advised(strategy: ModelBased, history: History, best: Record) -> Record | Recommendation:
    r"""The design observed at the target with the largest posterior mean :math:`\mu^{(M)}`; without noise ``best``.

    Where every value at the target has a standard error, they are noisy if one of these is positive; elsewhere if the
    noise that the model infers for the target is above :data:`NEGLIGIBLE` times the standard deviation of the values.
    Where outcomes have limits, only designs that keep them with probability :data:`LIKELY` count, and the probability
    is told, also of ``best`` where nothing is noisy.

    Args:
        strategy: Whose model it is.
        history: Everything asked so far.
        best: The best observation at the target.
    """
    target = strategy.space.target
    records = history.select(Status.DONE, target)
    noise, X = strategy.noise_deviations(history), points(records)[:, :-1]
    own, known = noise[target], noise_variances(records)
    noisy = own is not None and bool(own > NEGLIGIBLE * strategy.spread(history) if known is None else known.any())
    if not noisy and not strategy.space.limits:
        return best
    believed, feasible = strategy.predict(history, X), strategy.chances(history, X)
    if believed is None:
        return best
    mean, deviation = (part[:, target] for part in believed)
    likely = torch.ones_like(mean, dtype=torch.bool) if feasible is None else feasible >= LIKELY
    chosen = records.index(best)
    if noisy and likely.any():
        chosen = int(mean.masked_fill(~likely, -torch.inf).argmax())
    chance = None if feasible is None else feasible[chosen].item()
    return Recommendation(records[chosen].query.x, mean[chosen].item(), deviation[chosen].item(), noise, best, chance)
