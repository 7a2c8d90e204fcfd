"""Values far from all others, losses that explode or penalties in place of failures, brought near them for a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from mfbo_torch.history import History, Record, noise_variances, values
from mfbo_torch.models.outcome_transform import FAR, IDENTITY, LEAST, Warp, edge, exploded, torn


def designed(history: History, known: list[Record]) -> list[Record]:
    """The records of the first design: values from where one searches say little of the rest.

    Args:
        history: Everything asked so far.
        known: What counts of what was observed, in its order.
    """
    asked = next((r.id for r in history if r.query.meta.get("stage") == "model"), len(history))
    own = [r for r in known if r.query.meta.get("stage") != "model"]
    return [r for r in own if r.decided or r.id < asked]


def shaping(history: History, known: list[Record]) -> tuple[list[Record], bool]:
    """The records that a map of the values is made of, and whether some of them are far below all others.

    Those of the first design, and all up to the last one that is farther below than those before allow for. Of fewer
    than :data:`~mfbo_torch.models.outcome_transform.LEAST` so many are taken, if some of these are torn from the
    others.

    Args:
        history: Everything asked so far.
        known: What counts of what was observed, in its order.
    """
    first = own = designed(history, known)
    if len(first) < LEAST:
        first = known[:LEAST]
        if len(first) < LEAST or not torn(_numbers(first)):
            return own, False
    ids = {r.id for r in first}
    later = [r for r in known if r.id not in ids]
    last = exploded(_numbers(first), _numbers(later))
    if last is None:
        fidelities = {r.query.fidelity for r in first}
        return first, any(torn(_numbers([r for r in first if r.query.fidelity == m])) for m in fidelities)
    return [r for r in known if r.id <= later[last].id or r.id in ids], True


def through(map: Warp, records: list[Record]) -> tuple[Tensor, Tensor | None]:
    """The ``n x 1`` values of some records as a map has them, and the variances of their noise where known."""
    Y, known = values(records), noise_variances(records)
    return map(Y), None if known is None else known * (2 * map.log_slope(Y)).exp()


def mapped(history: History, map: Warp) -> History:
    """A history with its values, and their standard errors, as a map has them."""
    if map == IDENTITY:
        return history
    done = history.done
    Y = values(done).squeeze(-1)
    moved = {
        r.id: replace(r, value=y, standard_error=r.standard_error and r.standard_error * slope)
        for r, y, slope in zip(done, map(Y).tolist(), map.log_slope(Y).exp().tolist(), strict=True)
    }
    return History(moved.get(r.id, r) for r in history)


def drawn_near(margins: Sequence[float]) -> list[tuple[float, float]]:
    r"""By how much an outcome keeps its limit, without what is far beyond it: a penalty says no more than that it is.

    The range of the first :data:`~mfbo_torch.models.outcome_transform.LEAST`, but for those torn from the others, and
    of the limit itself is from ``e`` to ``e + r``, and grows with every value. Of one that is more than
    :data:`~mfbo_torch.models.outcome_transform.FAR` ``r`` below, :math:`e - r u`, there is left :math:`e - r u / (1 +
    u)`.

    Args:
        margins: In their order, negative where the limit is broken.

    Returns:
        For each, what is left and the slope of the map there.
    """
    first = [*margins[:LEAST], 0.0]
    low, high = min(edge(first), 0.0), max(first)
    far: list[bool] = []
    for margin in margins:
        far.append(0 < FAR * (high - low) < low - margin)
        if not far[-1]:
            low, high = min(low, margin), max(high, margin)
    found: list[tuple[float, float]] = []
    for margin, away in zip(margins, far, strict=True):
        u = (low - margin) / (high - low) if away else 0.0
        found.append((low - (high - low) * u / (1 + u), (1 + u) ** -2) if away else (margin, 1.0))
    return found


def _numbers(records: list[Record]) -> list[float]:
    """The values of some records."""
    found: list[float] = values(records).squeeze(-1).tolist()
    return found
