"""ζ, γ, the checks and the calibrated width of MF-GP-UCB, read off a history."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Reversible, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from mfbo_torch.history import Record, Status

ABOVE, STEP = 0.1, 0.3
"""The share of the values that a calibrated bound leaves above it, and how far a value moves its squared width."""


@dataclass(frozen=True)
class Thresholds:
    """What MF-GP-UCB assumes of the fidelities, in the units of the values.

    Args:
        zeta: ``M`` bounds on ``|f^(M) - f^(m)|``, the last one 0.
        gamma: ``M - 1`` widths of the confidence band below which a fidelity is left.
        check: An observation that contradicts the posterior mean below it and has not been
            compared yet: its design is to be queried at the fidelity below.
    """

    zeta: tuple[float, ...]
    gamma: tuple[float, ...]
    check: Record | None


def adaptive_thresholds(records: Iterable[Record], costs: Sequence[float], fraction: float = 0.01) -> Thresholds:
    """Adapt ζ and γ to a history [Kandasamy2016mfgpucb]_ (Sec. 5 and Appendix B).

    Both start at ``fraction`` of the range of the initial values. After an observation ``y`` at
    ``m > 0`` with ``|y - μ^(m-1)(x)| > ζ`` (the mean at the time of the query, which rides on the
    query as ``mean_below``) the same design is due at ``m - 1``, unless it was queried there already; when both
    values are known and differ by more than ζ, ζ becomes twice the difference. ``(M-1)ζ, ..., ζ, 0`` go to
    the fidelities. As ζ at least doubles, it changes at most ``log2(2 R / ζ_0)`` times where no pair differs by more
    than ``R``, and afterwards no pair compared differs by more than ζ. When nothing above ``m`` was queried for more
    than ``λ^(m+1) / λ^(m)`` queries, ``γ^(m)`` is doubled.

    Args:
        records: Everything queried so far.
        costs: ``M`` costs.
        fraction: Where ζ and γ start.
    """
    history = [*records]
    done = [r for r in history if r.status == Status.DONE]
    start = fraction * _range([r for r in done if r.query.meta.get("stage") == "initial"] or done)
    zeta, gamma, idle = start, [start] * (len(costs) - 1), [0] * (len(costs) - 1)
    checks = {r.query.meta["check"]: r for r in history if "check" in r.query.meta}
    due: Record | None = None
    for record in history:
        if record.query.meta.get("stage") == "initial" or not record.decided:
            continue
        fidelity = record.query.fidelity
        for m in range(len(gamma)):
            idle[m] = 0 if fidelity > m else idle[m] + 1
            if idle[m] > costs[m + 1] / costs[m]:
                gamma[m], idle[m] = 2 * gamma[m], 0
        if record.status != Status.DONE:
            continue
        checked = record.query.meta.get("check")
        if checked is not None:
            gap = abs(_value(history[checked]) - _value(record))
            zeta = 2 * gap if gap > zeta else zeta
        below = record.query.meta.get("mean_below")
        if below is not None and abs(_value(record) - below) > zeta and record.id not in checks:
            same = [r for r in history if r.query.fidelity == fidelity - 1 and r.query.x == record.query.x]
            gaps = [abs(_value(record) - _value(r)) for r in same if r.status == Status.DONE]
            zeta = 2 * max(gaps) if gaps and max(gaps) > zeta else zeta
            due = due if same else record
    top = len(costs) - 1
    return Thresholds(tuple((top - m) * zeta for m in range(top + 1)), tuple(gamma), due)


def calibrated_beta(records: Iterable[Record]) -> float:
    r"""The squared width that follows how often bounds were wrong, by the rule of adaptive conformal inference
    [Gibbs2021adaptive]_.

    :math:`\beta_{t + 1} = \max\{0, \beta_t + \eta (1[y_t > \mu_t + \beta_t^{1/2} s_t] - \alpha)\}` for the value
    :math:`y_t` of a query, the mean :math:`\mu_t` and deviation :math:`s_t` (with the noise) predicted when it was
    asked, and :math:`\alpha, \eta` of :data:`ABOVE` and :data:`STEP`; the first one leaves :math:`\alpha` of a normal
    distribution above it.

    Whatever the values are, of ``T`` at most :math:`\alpha T + (\beta_{T + 1} - \beta_1) / \eta` are above their
    bounds, as each step adds at least :math:`\eta (1[\cdot] - \alpha)`; and :math:`\beta` stays below
    :math:`\max\{\beta_1, R^2\} + \eta` where no value is more than :math:`R` deviations above its mean.

    Args:
        records: Everything queried so far; what no model predicted is left out.
    """
    beta = NormalDist().inv_cdf(1 - ABOVE) ** 2
    for record in records:
        if record.status == Status.DONE and "spread" in record.query.meta:
            bound = record.query.meta["mean"] + math.sqrt(beta) * record.query.meta["spread"]
            beta = max(0.0, beta + STEP * ((_value(record) > bound) - ABOVE))
    return beta


def impatience(records: Iterable[Record], costs: Sequence[float]) -> list[float]:
    """``M - 1`` factors ``g_m`` for :func:`~mfbo_torch.acquisition.cost_thresholds`: 1, doubled whenever nothing
    above ``m`` was queried for ``λ^(m+1) / λ^(m)`` queries, and 1 again once something is."""
    latest, found = [*records][::-1], list[float]()
    for m, ratio in enumerate(above / below for below, above in itertools.pairwise(costs)):
        idle = itertools.takewhile(lambda r: r.query.fidelity <= m, filter(lambda r: r.decided, latest))  # noqa: B023
        found.append(2.0 ** min(sum(1 for _ in idle) // ratio, 500))
    return found


def overdue(records: Reversible[Record], costs: Sequence[float], fidelity: int, most: float = math.inf) -> bool:
    """Whether one more query of a fidelity below the target would make those since the target's last one, or since the
    initial design, cost more than a query of the target, or be more than ``most``."""
    target = len(costs) - 1
    since = itertools.takewhile(
        lambda r: r.query.fidelity != target and r.query.meta.get("stage") != "initial",
        filter(lambda r: r.decided, reversed(records)),
    )
    spent = [r.cost for r in since]
    return len(spent) >= most or math.fsum(spent) + costs[fidelity] > costs[-1] * (1 + 1e-9)


def last_level(costs: Sequence[float], left: float) -> int | None:
    """Where a query goes that must leave enough capital for the target's last one.

    That one comes last, when all that was learned serves it: what is left over is spent below the target before it.

    Args:
        costs: ``M`` increasing costs.
        left: The rest of the capital.

    Returns:
        The highest fidelity below the target that the rest pays for beside one query of the target, or the target where
        it pays for none. Where the rest does not pay for the target, the highest fidelity that it pays for. ``None``
        where it pays for two queries of the target, or for nothing.
    """
    target = len(costs) - 1
    if left >= 2 * costs[target]:
        return None
    last = left >= costs[target]
    room = left - costs[target] if last else left
    return max((m for m in range(target) if costs[m] <= room), default=target if last else None)


def _value(record: Record) -> float:
    return record.value if record.value is not None else float("nan")


def _range(records: list[Record]) -> float:
    """The range of some values; where they are all the same, their size or 1."""
    values = [_value(r) for r in records] or [0.0]
    return (max(values) - min(values)) or max(map(abs, values)) or 1.0
