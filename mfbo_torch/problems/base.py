"""The contract of a problem: where to search, what it costs, and how to evaluate it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from mfbo_torch.space import Space


class Problem(ABC):
    """An objective with one or several fidelities, in the user's own units.

    Subclasses set ``space`` and implement :meth:`evaluate`. Everything behind a problem
    maximises; one that minimises sets ``maximize`` to ``False`` and is negated here only.

    Attributes:
        space: Parameters and cost of each fidelity.
        maximize: Whether larger values of :meth:`evaluate` are better.
        optimum: Best value at the target in the objective's own sign, if known.
        worst: A bound below which no value at the target falls (above, when minimising), the
            paper's ``-B``, if known.
    """

    space: Space
    maximize: bool = True
    optimum: float | None = None
    worst: float | None = None

    @abstractmethod
    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        """The objective at ``x`` (``d`` numbers, user's units) and ``fidelity`` in ``0..M-1``."""

    def reward(self, x: Sequence[float], fidelity: int) -> float:
        """:meth:`evaluate` with the sign that makes larger better."""
        return self.signed(float(self.evaluate(x, fidelity)))

    def signed(self, value: float) -> float:
        """Turn a value to be maximised into the objective's own sign, or back."""
        return value if self.maximize else -value

    @property
    def name(self) -> str:
        return type(self).__name__
