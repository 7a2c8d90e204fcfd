"""A problem and two strategies small enough to check by hand."""

import math
import os
import signal
import time
from collections.abc import Sequence

import torch

from mfbo_torch.history import History, Observed, Query
from mfbo_torch.problems.base import Problem
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.utils.errors import SettingError


class Hill(Problem):
    """A hill on a line and a distorted copy of it, ``f(x) = -(x - 3)^2 + fidelity * sin(x)``.

    Args:
        upper: Where the line ends.
        maximize: Whether to climb it; the negated hill is a valley with the same rewards.
        trouble: What the objective does beyond ``x = 5``: ``"raise"``, ``"nan"``, ``"text"``,
            ``"exit"``, ``"interrupt"``, ``"hang"`` or ``"die"``.
        seconds: How long an evaluation takes.
        error: The standard error that values come with, if any. There is no noise.
    """

    optimum: float | None = 1.0
    worst: float | None = -60.0

    def __init__(
        self,
        upper: float = 10.0,
        maximize: bool = True,
        trouble: str = "",
        seconds: float = 0.0,
        measured: bool = False,
        error: float | None = None,
    ) -> None:
        self.space = Space((Parameter("x", 0.0, upper),), (1.0, 10.0), measured)
        self.maximize, self.trouble, self.seconds, self.error = maximize, trouble, seconds, error
        self.optimum, self.worst = self.signed(1.0), self.signed(-60.0)

    def evaluate(self, x: Sequence[float], fidelity: int) -> Observed:
        if self.seconds:
            time.sleep(self.seconds)
        if x[0] > 5 and self.trouble:
            return self.misbehave()
        value = self.signed(-((x[0] - 3.0) ** 2) + fidelity * math.sin(x[0]))
        return value if self.error is None else (value, self.error)

    def misbehave(self) -> float:
        match self.trouble:
            case "raise":
                raise RuntimeError("no convergence\n  at step 3")
            case "exit":
                raise SystemExit(3)
            case "interrupt":
                raise KeyboardInterrupt
            case "hang":
                time.sleep(600)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
        return math.nan if self.trouble == "nan" else "many"  # type: ignore[return-value]


class Hopeless(Hill):
    """A hill nobody climbs."""

    def __init__(self) -> None:
        super().__init__()

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        raise ValueError(f"never at {x[0]}")


class Flaky(Hill):
    """Raises at the first ``times`` attempts of each query."""

    def __init__(self, times: int, **settings) -> None:
        super().__init__(**settings)
        self.times = times
        self.attempts: dict[tuple[tuple[float, ...], int], int] = {}

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        key = (tuple(x), fidelity)
        self.attempts[key] = self.attempts.get(key, 0) + 1
        if self.attempts[key] <= self.times:
            raise RuntimeError(f"not yet at {x}")
        return super().evaluate(x, fidelity)


class NoOptimum(Hill):
    """A hill whose height nobody knows."""

    def __init__(self) -> None:
        super().__init__()
        self.optimum = self.worst = None


class Walk(Strategy):
    """Random designs near the best one; the fidelity follows from the number of values so far.

    Its choices depend on every value of the history, so that a history which was not restored
    exactly leads elsewhere.

    Args:
        every: Each ``every``-th query is at the target.
        width: Width of the steps.
        device: Where it would compute.
        dtype: In which precision it would compute.
        seed: Seed of every random choice.
        space: What can be queried.
        capital: What may be spent.
    """

    def __init__(
        self,
        every: int = 3,
        width: float = 0.3,
        *,
        device: str = "cpu",
        dtype: str = "float64",
        seed: int = 0,
        space: Space | None = None,
        capital: float | None = None,
    ) -> None:
        super().__init__(seed=seed, space=space, capital=capital)
        if every < 1:
            raise SettingError("every", every, "a whole number from 1 on")
        self.every, self.width, self.device, self.dtype = every, width, device, dtype

    def decide(self, history: History) -> Query:
        draw = torch.rand(self.space.dim, generator=self.generator(history), dtype=torch.double)
        total = math.fsum(record.value or 0.0 for record in history.done)
        u = (draw + self.width * math.sin(total)).remainder(1.0)
        fidelity = self.space.target if len(history) % self.every == self.every - 1 else 0
        return self.query(u, fidelity, total=total, pending=len(history.pending), pair=(1, 2.5))


class Patient(Walk):
    """The same; the last queries of a capital wait for values."""

    patient = True


class Plain(Strategy):
    """The middle of the space, at the target, again and again: a strategy without settings."""

    def decide(self, history: History) -> Query:
        return self.query(torch.full((self.space.dim,), 0.5), self.space.target)


class Stubborn(Walk):
    """A walk that gives up after a few queries."""

    def decide(self, history: History) -> Query:
        if len(history) == 4:
            raise SettingError("patience", 4, "more than that")
        return super().decide(history)
