"""Which training asynchronous successive halving goes on with.

References:

.. [Li2020asha]
    L. Li, K. Jamieson, A. Rostamizadeh, E. Gonina, J. Ben-tzur, M. Hardt, B. Recht, A. Talwalkar. A System for
    Massively Parallel Hyperparameter Tuning. MLSys 2020.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from mfbo_torch.history import Record

REDUCTION = 3
"""One of so many trainings goes on from a rung."""


class Promotion(NamedTuple):
    """A training that goes on: its design, and the fidelity up to which."""

    x: tuple[float, ...]
    fidelity: int


def promotion(done: Sequence[Record], target: int, closed: Collection[tuple[float, ...]]) -> Promotion | None:
    """The training that goes on, ``None`` where one is to begin [Li2020asha]_ (Algorithm 2).

    From the highest rung down: one of the best third of those that have a value there which has not gone on.

    Args:
        done: The records with a value.
        target: The highest rung, the number of a fidelity.
        closed: Designs that cannot go on: pending, failed or stopped ones.
    """
    for rung in reversed(range(target)):
        here = sorted((r for r in done if r.query.fidelity == rung), key=lambda r: (-(r.value or 0.0), r.id))
        above = {r.query.x for r in done if r.query.fidelity > rung}
        for record in here[: len(here) // REDUCTION]:
            if record.query.x not in above and record.query.x not in closed:
                return Promotion(record.query.x, rung + 1)
    return None
