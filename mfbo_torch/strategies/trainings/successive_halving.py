"""A bracket of successive halving that a capital pays for: how many trainings come to which rung.

References:

.. [Jamieson2016halving]
    K. Jamieson, A. Talwalkar. Non-stochastic Best Arm Identification and Hyperparameter Optimization. AISTATS 2016.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

REDUCTION = 3
"""One of so many trainings goes on from a rung."""


class Bracket(NamedTuple):
    r"""How many trainings come to each rung in a bracket of successive halving [Jamieson2016halving]_.

    A third of those on a rung goes on, so that all rungs cost about the same, and one comes to the last of :math:`M`
    rungs if :math:`3^{M-1}` begin. Fewer begin where the capital does not pay for that.

    Attributes:
        size: The number of trainings that come to each rung.
    """

    size: tuple[int, ...]

    @classmethod
    def of(cls, costs: Sequence[float], capital: float | None) -> Bracket:
        """A bracket that costs about a capital, or less; at least one training comes to each rung, whatever that costs.

        Args:
            costs: Of going on to each rung from the one below.
            capital: What may be spent.
        """
        shares = [REDUCTION**-rung for rung in range(len(costs))]
        begun = 1 / shares[-1]
        if capital is not None:
            begun = min(begun, capital / sum(c * share for c, share in zip(costs, shares, strict=True)))
        return cls(tuple(max(int(begun * share + 0.5), 1) for share in shares))

    def next_rung(self, reached: Sequence[int], ready: Collection[int]) -> int | None:
        """The rung that a training goes on to, 0 where one begins; ``None`` where none may.

        One rung is filled before any of its trainings goes on. A rung that none is ready for waits, and what comes
        after it does not.

        Args:
            reached: How many trainings have come, or are on their way, to each rung.
            ready: The rungs that a training may go on to; one may always begin.
        """
        for rung, size in enumerate(self.size):
            if reached[rung] < size and (rung == 0 or rung in ready):
                return rung
        return None


def increments(costs: Sequence[float], continues: bool) -> list[float]:
    """The cost of going on to each rung from the one below; in full where nothing continues."""
    return [b - a if continues else b for a, b in pairwise([0.0, *costs])]
