r"""When a run is stopped before its capital is spent, and why: functions of the history, and the clock.

References:

.. [Makarova2022termination]
    A. Makarova, H. Shen, V. Perrone, A. Klein, J. B. Faddoul, A. Krause, M. Seeger, C. Archambeau. Automatic
    Termination for Hyperparameter Optimization. AutoML 2022.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from mfbo_torch.history import History, Record, Status, points
from mfbo_torch.history.incremental import Fold
from mfbo_torch.history.tally import Parts, parts
from mfbo_torch.space.indirect import IndirectSpace
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.common.initial_design import sobol
from mfbo_torch.utils.errors import SettingError

if TYPE_CHECKING:
    from mfbo_torch.loop.run_options import RunOptions
    from mfbo_torch.problems.base import Problem

MIN_IMPROVEMENT = 1e-4
"""Minimum improvement that ends the wait for a better value, as a part of the range of values."""
WIDTH = 2.0
"""Width of the bounds around the mean, in standard deviations."""
SOBOL_POINTS, BEST_POINTS, ROUNDS = 1024, 16, 3
"""The search for the largest bound: number of Sobol points, number of the best of them that it goes on from, and number
of rounds, each closer to them."""
FEW = 3
"""Fewest values at the target that the possible gain is computed from."""


class Stopping:
    """What ends a run early: the ``time_limit``, ``stop_at``, ``patience`` and ``stop_gain`` of its options.

    The last one is refused with a strategy that has no model of the objective.
    """

    def __init__(self, options: RunOptions, problem: Problem, strategy: Strategy) -> None:
        self.options, self.problem, self.strategy = options, problem, strategy
        self._started = time.monotonic()
        self._last: tuple[History, str] | None = None
        self._idle = Idle(problem.space.target)
        modelled = type(strategy).predict is not Strategy.predict and not isinstance(strategy.space, IndirectSpace)
        if options.stop_gain is not None and not modelled:
            wanted = f"left out: {type(strategy).__name__} has no model that bounds the objective"
            raise SettingError("stop_gain", options.stop_gain, wanted)

    @property
    def late(self) -> str:
        """The reason to start nothing more, because of the clock; empty where there is none."""
        limit, seconds = self.options.time_limit, time.monotonic() - self._started
        return f"the time limit of {limit:g} s is reached" if limit is not None and seconds >= limit else ""

    def reason(self, history: History) -> str:
        """The reason to ask nothing more; empty where there is none."""
        if self._last is None or self._last[0] is not history:
            self._last = history, self._reason(history)
        return self.late or self._last[1]

    def _reason(self, history: History) -> str:
        options = self.options
        if options.stop_at is not None and (found := reached(history, self.problem, options.stop_at)) is not None:
            return f"{found:.6g} is at least as good as {options.stop_at:g}"
        if options.patience is not None and (since := self._idle(history)) >= options.patience:
            return f"no better value for a capital of {since:g}"
        if options.stop_gain is not None and (share := gain(self.strategy, history)) <= options.stop_gain:
            return f"the bound on what is left to gain is {share:.1g} of the range of values"
        return ""


def reached(history: History, problem: Problem, value: float) -> float | None:
    """The best observation at the target, in the problem's own sign, if it is as good as a value."""
    best = history.best(problem.space.target)
    return problem.value_of(best) if best is not None and best.value >= problem.signed(value) else None  # type: ignore[operator]


class _Waiting(NamedTuple):
    """The best and the least value so far, and the cost of the evaluations that have ended since the best."""

    best: float = -math.inf
    least: float = math.inf
    cost: Parts = ()


class Idle:
    """The capital that has been spent since the target's best value was last improved by :data:`MIN_IMPROVEMENT`.

    Evaluations in flight, the initial design and what came before the target's first value do not count.
    """

    def __init__(self, target: int) -> None:
        self.target, self._fold = target, Fold(_Waiting, self._add)

    def __call__(self, history: History) -> float:
        return math.fsum(self._fold(history).cost)

    def _add(self, before: _Waiting, record: Record) -> _Waiting:
        best, least, cost = before
        counts = record.status == Status.DONE and record.query.fidelity == self.target and record.feasible
        value = record.value if counts else None
        better = value is not None and value > best + MIN_IMPROVEMENT * max(best - least, 0.0)
        if better or best == -math.inf or record.query.meta.get("stage") == "initial":
            cost = ()
        elif record.status != Status.PENDING:
            cost = parts([*cost, record.cost])
        if value is None:
            return _Waiting(best, least, cost)
        return _Waiting(value if better else best, min(least, value), cost)


def gain(strategy: Strategy, history: History) -> float:
    r"""How much can be left to gain at the target, as a part of the range of its values.

    .. math:: \Bigl(\max_x (\mu^{(M)} + 2 \sigma^{(M)})(x) - \max_{x_i} (\mu^{(M)} - 2 \sigma^{(M)})(x_i)\Bigr)
        / (\max y - \min y)

    over all designs ``x`` and those observed at the target, as in [Makarova2022termination]_ (Eq. 5): a bound on the
    simple regret where the model's bands hold. Infinite while there are few values.
    """
    space = strategy.space
    records = history.select(Status.DONE, space.target)
    if len(records) < FEW:
        return math.inf
    observed = points(records)[:, :-1]
    known = _bounds(strategy, history, observed)
    if known is None:
        return math.inf
    values = torch.tensor([r.value for r in records], dtype=torch.double)
    highest = _highest(strategy, history, space.to_unit(observed[values.argsort(descending=True)[:BEST_POINTS]]))
    extent = (values.max() - values.min()).item()
    left = max(highest, known[1].max().item()) - known[0].max().item()
    return left / extent if extent > 0 and math.isfinite(left) else math.inf


def _highest(strategy: Strategy, history: History, near: Tensor) -> float:
    """The largest upper bound that is found over the space, from Sobol points and good designs on."""
    space, generator = strategy.space, torch.Generator().manual_seed(0)
    U = space.designs(sobol(space.dim, SOBOL_POINTS, 0))
    best = -math.inf
    for step in range(ROUNDS + 1):
        U = U[space.allows(U)]
        if len(U):  # narrow constraints may leave none
            bounds = _bounds(strategy, history, space.from_unit(U))
            if bounds is None:
                return math.inf
            best = max(best, bounds[1].max().item())
            near = torch.cat([near, U[bounds[1].topk(min(BEST_POINTS, len(U))).indices]])[-2 * BEST_POINTS :]
        noise = torch.randn(len(near), BEST_POINTS, space.unit_dim, generator=generator, dtype=torch.double)
        U = (near.unsqueeze(1) + 0.3 ** (step + 1) * 0.3 * noise).clamp(0.0, 1.0).reshape(-1, space.unit_dim)
    return best


def _bounds(strategy: Strategy, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
    """The lower and the upper bound of the target at some designs."""
    predicted = strategy.predict(history, X)
    if predicted is None:
        return None
    mean, deviation = (part[:, strategy.space.target] for part in predicted)
    return mean - WIDTH * deviation, mean + WIDTH * deviation
