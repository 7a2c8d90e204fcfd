"""Forecast of the evaluations that the rest of a capital pays for, and of their time."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from mfbo_torch.history import History, Status

if TYPE_CHECKING:
    from mfbo_torch.strategies.base import Strategy

RECENT, ENOUGH = 20, 3
"""Number of last queries that a forecast is made from, and the fewest that it needs."""


class Forecast(NamedTuple):
    """The rest of a run."""

    evaluations: int
    """Number of queries that the rest of the capital is likely to pay for, without those in flight."""
    seconds: float
    """Time that these and those in flight are likely to take."""

    def __str__(self) -> str:
        """As in ``about 14 more evaluations, 2 h``."""
        return f"about {self.evaluations:,} more evaluation{'s' * (self.evaluations != 1)}, {duration(self.seconds)}"


def forecast(strategy: Strategy, history: History, capital: float, workers: int = 1) -> Forecast | None:
    """What the rest of a capital is likely to pay for; ``None`` where that is nothing, or not known yet.

    The forecast assumes queries like the last :data:`RECENT` ones, at their designs and fidelities, and at the costs
    that are expected of these now. It needs :data:`ENOUGH` queries that have ended after the initial design.
    """
    latest = reversed(history.records)
    ended = (r for r in latest if r.status != Status.PENDING and r.decided and r.query.meta.get("stage") != "initial")
    recent = [*islice(ended, RECENT)][::-1]
    if len(recent) < ENOUGH:
        return None
    pending, left = history.pending, max(capital - history.spent, 0.0)
    each = math.fsum(strategy.cost(r.query, history) for r in recent) / len(recent)
    evaluations = int(left / each + 1e-9)
    if not evaluations and not pending:
        return None
    evaluating = each if strategy.space.measured else math.fsum(r.evaluation_seconds for r in recent) / len(recent)
    deciding = evaluations * math.fsum(r.decision_seconds for r in recent) / len(recent)
    busy = (evaluations + len(pending)) * evaluating / workers
    return Forecast(evaluations, busy + deciding if workers == 1 else max(busy, deciding))


def duration(seconds: float) -> str:
    """Seconds in words, as in ``1.5 min``."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
