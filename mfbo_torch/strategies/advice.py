"""What is recommended where values are noisy: the best of many observations is more lucky than good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mfbo_torch.history import Recommendation, Record, Status, noise_variances, points

if TYPE_CHECKING:
    from mfbo_torch.history import History
    from mfbo_torch.strategies.model_based import ModelBased

NEGLIGIBLE = 0.05
"""Inferred noise below this share of the values' standard deviation is none: smooth functions without noise stay far
below, and it would decide little."""


def advised(strategy: ModelBased, history: History, best: Record) -> Record | Recommendation:
    r"""The design observed at the target with the largest posterior mean :math:`\mu^{(M)}`; without noise ``best``.

    Where every value at the target has a standard error, they are noisy if one of these is positive; elsewhere if the
    noise that the model infers for the target is above :data:`NEGLIGIBLE` times the standard deviation of the values.

    Args:
        strategy: Whose model it is.
        history: Everything asked so far.
        best: The best observation at the target.
    """
    target = strategy.space.target
    records = history.select(Status.DONE, target)
    noise = strategy.noise_deviations(history)
    own, known = noise[target], noise_variances(records)
    if own is None or not (own > NEGLIGIBLE * strategy.spread(records) if known is None else known.any()):
        return best
    believed = strategy.predict(history, points(records)[:, :-1])
    if believed is None:
        return best
    mean, deviation = (part[:, target] for part in believed)
    chosen = int(mean.argmax())
    return Recommendation(records[chosen].query.x, mean[chosen].item(), deviation[chosen].item(), noise, best)
