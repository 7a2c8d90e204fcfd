"""The contract of a problem: where to search, what it costs, and how to evaluate it."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from mfbo_torch.history import History, Observed, Record
from mfbo_torch.history.observation import parse
from mfbo_torch.problems.trial import Trial
from mfbo_torch.space import Space
from mfbo_torch.utils.validation import number, several, whole

OBJECTIVE = "objective's value"
"""The name of an objective's value in messages."""


class Problem(ABC):
    """An objective with one or several fidelities, in the user's own units.

    Subclasses set ``space`` and implement :meth:`evaluate`. Everything behind a problem maximises; one that minimises
    sets ``maximize`` to ``False`` and is negated here only. Every class raises a ``SettingError`` for a setting out of
    its range.

    Attributes:
        space: Parameters and cost of each fidelity.
        maximize: Whether larger values of :meth:`evaluate` are better; of the first one of several objectives.
        optimum: Best value at the target in the objective's own sign, if known.
        worst: A bound below which no value at the target falls (above, when minimising), the paper's ``-B``, if known.
        takes_trial: Whether an evaluation wants to know of the ones before it, see :meth:`attempt`.
    """

    space: Space
    maximize: bool = True
    optimum: float | None = None
    worst: float | None = None
    takes_trial: bool = False
    _trial: int | None = None

    @abstractmethod
    def evaluate(self, x: Sequence[float], fidelity: int) -> Observed:
        """The objective at ``x`` (``d`` numbers, user's units) and ``fidelity`` in ``0..M-1``; else a ``SettingError``.

        Where the standard deviation of the noise in it is known, ``(value, standard error)``; where the space has
        limits, an :class:`~mfbo_torch.history.Observation` with the outcomes; of several objectives, a mapping of their
        names to numbers in their own signs. Noise that the problem adds itself is not
        in it, see :meth:`observe`.
        """

    def checked(self, x: Sequence[float], fidelity: int) -> tuple[tuple[float, ...], int]:
        """A query as ``d`` floats and an ``int``: what every :meth:`evaluate` calls first. A ``SettingError`` where
        ``x`` is not ``d`` finite numbers, or ``fidelity`` not in ``0..M-1``."""
        point = several("x", x, number, f"{self.space.dim} finite numbers", size=self.space.dim)
        return point, whole("fidelity", fidelity, 0, self.space.target)

    def reward(self, x: Sequence[float], fidelity: int) -> float:
        """:meth:`evaluate` with the sign that makes larger better."""
        return self.signed(parse(self.evaluate(x, fidelity), objectives=self.space.objectives).value)

    def observe(self, x: Sequence[float], fidelity: int, number: int) -> Observed:
        """The observation of query ``number`` in a run: the :meth:`reward`, with noise where the problem has any, and
        with its standard error where :meth:`evaluate` returns one. Noise is a function of :attr:`trial` and the number
        (:mod:`mfbo_torch.problems.noise`), so that resumed runs and any number of workers see the same."""
        several = self.space.objectives
        return parse(self.evaluate(x, fidelity), setting=OBJECTIVE, objectives=several).to_maximize(self.maximize)

    def attempt(self, x: Sequence[float], fidelity: int, trial: Trial) -> Observed:
        """:meth:`observe`, with what a run knows of this evaluation, where :attr:`takes_trial`."""
        return self.observe(x, fidelity, trial.number)

    def pseudo_rewards(self, history: History) -> Tensor | None:
        """The reward of each query where it is not the value at the target, ``n`` numbers to be maximised."""
        return None

    @property
    def trial(self) -> int | None:
        """The number of the noise stream; if there is none, a run from settings takes its seed and others take 0."""
        return self._trial

    @trial.setter
    def trial(self, trial: int | None) -> None:
        self._trial = None if trial is None else whole("trial", trial, 0)

    def signed(self, value: float) -> float:
        """Turn a value to be maximised into the objective's own sign, or back."""
        return value if self.maximize else 0.0 - value  # the negative of 0 has no sign

    def value_of(self, record: Record | None) -> float | None:
        """The value of a record in the objective's own sign, ``None`` where there is none."""
        return None if record is None or record.value is None else self.signed(record.value)

    @property
    def name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.name}: {'maximise' if self.maximize else 'minimise'} over {self.space!r}>"

    def _repr_html_(self) -> str:
        optimum = "" if self.optimum is None else f", the optimum is {self.optimum:.6g}"
        goal = f"{self.name}: {'the largest' if self.maximize else 'the smallest'} value is wanted{optimum}"
        return f"<p>{html.escape(goal)}</p>{self.space._repr_html_()}"
