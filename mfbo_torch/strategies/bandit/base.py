"""What the strategies over a finite set of arms have in common: a fold of the plays, and the advice."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from mfbo_torch.confidence.concentration import CONTRADICTION, Tail, anytime_width, tail_of
from mfbo_torch.history import History, Query, Record, Status
from mfbo_torch.history.incremental import Fold
from mfbo_torch.space import Space
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.memo import Memo


class ZetaWarning(UserWarning):
    """Observations that contradict ζ."""


class Plays(NamedTuple):
    """What a history says of each arm at each fidelity: ``... x M x K`` double tensors."""

    asked: Tensor
    """Plays, pending and failed ones included; the widths shrink with them."""
    done: Tensor
    """Plays that gave a value."""
    sums: Tensor
    """Sums of their values, added in the order of the queries."""


class ArmStrategy(Strategy):
    """Plays arms: the values of the space's only parameter, a whole number.

    A play that is pending or failed counts in the widths and not in the means. While no play of an arm at a fidelity
    has given a value, the least of all means stands in for its own, so that arms which only fail are left.

    Args:
        rewards: ``"gaussian"`` (sub-Gaussian), ``"bounded"`` (in ``[0, 1]``, or losses there that are minimised), or a
            :class:`~mfbo_torch.confidence.concentration.Tail` with any pair of ψ and its inverse.
        scale: The scale σ of sub-Gaussian rewards, above 0, in the unit of the values; 1 if not given.
    """

    def __init__(self, *, rewards: str | Tail = "gaussian", scale: float | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.rewards, self.scale = rewards, scale
        self.tail = tail_of(rewards, scale)
        self._fold: Memo[Fold[np.ndarray]] = Memo()
        if self._space is not None:
            self._check(self._space)

    def bind(self, space: Space, capital: float | None = None) -> Self:
        bound = super().bind(space, capital)
        bound._check(bound.space)
        return bound

    def _check(self, space: Space) -> None:
        if space.dim != 1 or not space.parameters[0].integer:
            names = [p.name for p in space.parameters]
            raise SettingError("space", names, "one parameter of whole numbers, the arm")

    @property
    def num_arms(self) -> int:
        arm = self.space.parameters[0]
        return round(arm.upper - arm.lower) + 1

    def plays(self, history: History) -> Plays:
        """Plays and values of each arm at each fidelity, ``M x K``; a value out of the tail's interval is refused."""
        fold = self._fold(self.space, lambda: Fold(self._empty, self._count))
        return Plays(*torch.from_numpy(fold(history)))

    def _empty(self) -> np.ndarray:
        """Plays, values and sums before the first play, each ``M x K``."""
        return np.zeros((3, self.space.num_fidelities, self.num_arms))

    def _count(self, table: np.ndarray, record: Record) -> np.ndarray:
        """The table with one more record."""
        lowest, size = round(self.space.parameters[0].lower), self.num_arms
        arm, fidelity = round(record.query.x[0]) - lowest, record.query.fidelity
        if not 0 <= arm < size:
            raise SettingError("arm", record.query.x[0], f"from {lowest} to {lowest + size - 1}")
        if record.status == Status.DONE:
            value, (low, high) = record.value, self.tail.interval
            first = value if value is not None and not table[2].any() else table[2].sum()
            if first < 0:  # losses, which are minimised
                low, high = -high, -low
            if value is None or not low <= value <= high or not abs(value) < np.inf:
                bounded = f"between {low:g} and {high:g}, as the rewards are said to"
                raise SettingError("value", value, "a finite number" if low == -np.inf else bounded)
            table[1, fidelity, arm] += 1.0
            table[2, fidelity, arm] += value
        table[0, fidelity, arm] += 1.0
        return table

    def play(self, arm: int, fidelity: int) -> Query:
        """The query of an arm, ``0 ... K - 1``, at a fidelity."""
        return Query((float(round(self.space.parameters[0].lower) + arm),), int(fidelity), {"stage": "arm"})

    @abstractmethod
    def decide(self, history: History) -> Query:
        """The next query."""

    def recommend(self, history: History) -> Record | None:
        """The last value of the arm most played at the highest fidelity that has values, the lowest of several."""
        done = self.plays(history).done
        fidelity = int((done.sum(1) > 0).nonzero().max()) if done.any() else self.space.target
        chosen = self.play(int(done[fidelity].argmax()), fidelity).x
        last = (r for r in reversed(history.select(Status.DONE, fidelity)) if r.query.x == chosen)
        return next(last, None)


def means(plays: Plays) -> Tensor:
    """Sample means; where there is no value the least of all sample means, 0 while there is none."""
    known = plays.done > 0
    mean = plays.sums / plays.done.clamp_min(1.0)
    least = torch.where(known, mean, torch.inf).min() if known.any() else mean.new_zeros(())
    return torch.where(known, mean, least)


def warn_if_contradicted(plays: Plays, zeta: Tensor, tail: Tail) -> bool:
    r"""Whether what the fidelities say of an arm cannot all be true; warns with a :class:`ZetaWarning` if so.

    Each fidelity says that :math:`\mu^{(M)}` lies within :math:`\zeta^{(m)}` and the half-width of its mean's
    confidence interval around that mean. All intervals hold at once but with probability :data:`CONTRADICTION`; two
    that do not meet differ by more than ζ allows.
    """
    num_fidelities, num_arms = plays.done.shape[-2:]
    known = plays.done > 0
    mean = plays.sums / plays.done.clamp_min(1.0)
    reach = anytime_width(plays.done, num_fidelities * num_arms, tail, CONTRADICTION) + zeta.unsqueeze(-1)
    lower = torch.where(known, mean - reach, -torch.inf).amax(-2)
    upper = torch.where(known, mean + reach, torch.inf).amin(-2)
    arms = lower > upper
    if not arms.any():
        return False
    arm = int(arms.nonzero()[0, -1])
    message = f"zeta = {zeta.tolist()} is contradicted by what arm {arm} gave: some fidelity is farther off"
    warnings.warn(message, ZetaWarning, stacklevel=2)
    return True
