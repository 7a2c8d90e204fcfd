"""Brackets of successive halving that a capital pays for: how many trainings come to which rung.

References:

.. [Jamieson2016halving]
    K. Jamieson, A. Talwalkar. Non-stochastic Best Arm Identification and Hyperparameter Optimization. AISTATS 2016.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import count, pairwise
from typing import NamedTuple

REDUCTION = 3
"""One of so many trainings goes on from a rung."""


class Brackets(NamedTuple):
    r"""Rounds of successive halving, of equal size, that spend a capital [Jamieson2016halving]_.

    In each a third of those on a rung goes on, so that all rungs cost about the same, and one comes to the last of
    :math:`M` rungs if :math:`3^{M-1}` begin.

    Attributes:
        size: How many trainings come to each rung in a round, not rounded.
    """

    size: tuple[float, ...]

    @classmethod
    def of(cls, costs: Sequence[float], capital: float | None) -> Brackets:
        """The rounds that a capital pays for, without one those with one training on the last rung.

        Args:
            costs: Of going on to each rung from the one below.
            capital: What may be spent.
        """
        shares = [REDUCTION**-rung for rung in range(len(costs))]
        one, last = sum(c * share for c, share in zip(costs, shares, strict=True)), shares[-1]
        begun = 1 / last
        if capital is not None and math.isfinite(capital):
            begun = capital / (one * max(int(capital * last / one + 1e-9), 1))
        return cls(tuple(begun * share for share in shares))

    def quota(self, rung: int, rounds: int) -> int:
        """How many trainings have come to a rung after some rounds."""
        return max(int(self.size[rung] * rounds + 0.5), 1)

    def complete(self, reached: Sequence[int]) -> bool:
        """Whether the first round is."""
        return all(number >= self.quota(rung, 1) for rung, number in enumerate(reached))

    def next_rung(self, reached: Sequence[int], ready: Collection[int]) -> int:
        """The rung that a training goes on to, 0 where one begins.

        In the first round that is not complete the lowest rung that is not: one rung is filled before any of its
        trainings goes on. A rung that none is ready for waits, and what comes after it does not.

        Args:
            reached: How many trainings have come, or are on their way, to each rung.
            ready: The rungs that a training may go on to; one may always begin.
        """
        for round_ in count(1):
            for rung in range(len(self.size)):
                if reached[rung] < self.quota(rung, round_) and (rung == 0 or rung in ready):
                    return rung
        raise AssertionError("there are always more rounds")


def increments(costs: Sequence[float], continues: bool) -> list[float]:
    """The cost of going on to each rung from the one below; in full where nothing continues."""
    return [b - a if continues else b for a, b in pairwise([0.0, *costs])]
