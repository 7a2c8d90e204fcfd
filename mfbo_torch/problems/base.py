"""The contract of a problem: where to search, what it costs, and how to evaluate it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import index

from torch import Tensor

from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Record
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

    def checked(self, x: Sequence[float], fidelity: int) -> tuple[tuple[float, ...], int]:
        """A query as ``d`` floats and an ``int``: what every :meth:`evaluate` calls first.

        Raises:
            SettingError: ``x`` is not ``d`` finite numbers, or ``fidelity`` not in ``0..M-1``.
        """
        try:
            point = tuple(float(value) for value in x)
        except (TypeError, ValueError):
            point = ()
        if len(point) != self.space.dim or not all(map(math.isfinite, point)):
            raise SettingError("x", x, f"{self.space.dim} finite numbers")
        try:
            level = -1 if isinstance(fidelity, bool) else index(fidelity)
        except TypeError:
            level = -1
        if not 0 <= level <= self.space.target:
            raise SettingError("fidelity", fidelity, f"a whole number from 0 to {self.space.target}")
        return point, level

    def reward(self, x: Sequence[float], fidelity: int) -> float:
        """:meth:`evaluate` with the sign that makes larger better."""
        return self.signed(float(self.evaluate(x, fidelity)))

    def observe(self, x: Sequence[float], fidelity: int, number: int) -> float:
        """What query ``number`` of a run gets to see: the :meth:`reward`, with noise where the problem has any.

        Noise must be a function of the number, so that a resumed run sees what it would have seen.
        """
        return self.reward(x, fidelity)

    def pseudo_rewards(self, history: History) -> Tensor | None:
        """What each query earns where that is not its value at the target, ``n`` numbers to be maximised."""
        return None

    def signed(self, value: float) -> float:
        """Turn a value to be maximised into the objective's own sign, or back."""
        return value if self.maximize else -value

    def value_of(self, record: Record | None) -> float | None:
        """The value of a record in the objective's own sign, ``None`` where there is none."""
        return None if record is None or record.value is None else self.signed(record.value)

    @property
    def name(self) -> str:
        return type(self).__name__
