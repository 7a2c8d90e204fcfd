r"""When a run is stopped before its capital is spent, and why: functions of the history, and the clock.

References:

.. [Makarova2022termination]
    A. Makarova, H. Shen, V. Perrone, A. Klein, J. B. Faddoul, A. Krause, M. Seeger, C. Archambeau. Automatic
    Termination for Hyperparameter Optimization. AutoML 2022.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Status, points
from mfbo_torch.indirect import IndirectSpace
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.design import sobol

if TYPE_CHECKING:
    from mfbo_torch.options import RunOptions
    from mfbo_torch.problems.base import Problem

SLIGHT = 1e-4
"""A better value counts as one for the patience if it is better by this part of the range of values."""
WIDTH = 2.0
"""How many deviations the bounds are from the mean."""
SCREENED, CLOSE, ROUNDS = 1024, 16, 3
"""The bound is looked for at so many Sobol points, then around so many of the best of them, so many times closer."""
FEW = 3
"""With fewer values at the target nothing is said of what is left to gain."""


class Stopping:
    """What ends a run early.

    Args:
        options: Its ``time_limit``, ``stop_at``, ``patience`` and ``stop_gain``.
        problem: What is evaluated.
        strategy: What decides, bound to its space.

    Raises:
        SettingError: ``stop_gain`` is given with a strategy that has no model of the objective.
    """

    def __init__(self, options: RunOptions, problem: Problem, strategy: Strategy) -> None:
        self.options, self.problem, self.strategy = options, problem, strategy
        self._started = time.monotonic()
        self._last: tuple[History, str] | None = None
        if options.stop_gain is not None and not bounded(strategy):
            kind = type(strategy).__name__
            raise SettingError(
                "stop_gain", options.stop_gain, f"left out: {kind} has no model that bounds the objective"
            )

    @property
    def late(self) -> str:
        """The reason to start nothing more, because of the clock; empty where there is none."""
        limit = self.options.time_limit
        return f"the time limit of {limit:g} s is reached" if limit is not None and self._seconds >= limit else ""

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def reason(self, history: History) -> str:
        """The reason to ask nothing more; empty where there is none."""
        if self._last is None or self._last[0] is not history:
            self._last = history, self._reason(history)
        return self.late or self._last[1]

    def _reason(self, history: History) -> str:
        options, target = self.options, self.problem.space.target
        if options.stop_at is not None and (found := reached(history, self.problem, options.stop_at)) is not None:
            return f"{found:.6g} is at least as good as {options.stop_at:g}"
        if options.patience is not None and (since := idle(history, target)) >= options.patience:
            return f"no better value for a capital of {since:g}"
        if options.stop_gain is not None and (share := gain(self.strategy, history)) <= options.stop_gain:
            return f"the bound on what is left to gain is {share:.1g} of the range of values"
        return ""


def reached(history: History, problem: Problem, value: float) -> float | None:
    """The best observation at the target, in the problem's own sign, if it is as good as a value."""
    best = history.best(problem.space.target)
    return problem.value_of(best) if best is not None and best.value >= problem.signed(value) else None  # type: ignore[operator]


def idle(history: History, target: int) -> float:
    """The capital that has been spent since the target's best value was last improved by :data:`SLIGHT`.

    What is in flight does not count, nor does the initial design.
    """
    best, least, since = -math.inf, math.inf, -1
    for record in history:
        if record.query.meta.get("stage") == "initial":
            since = record.id
        if record.status != Status.DONE or record.query.fidelity != target or record.value is None:
            continue
        if record.value > best + SLIGHT * max(best - least, 0.0):
            best, since = record.value, record.id
        least = min(least, record.value)
    return math.fsum(r.cost for r in history if r.id > since and r.status != Status.PENDING)


def bounded(strategy: Strategy) -> bool:
    """Whether the strategy has a model of what it maximises at its queries."""
    return type(strategy).predict is not Strategy.predict and not isinstance(strategy.space, IndirectSpace)


def gain(strategy: Strategy, history: History) -> float:
    r"""How much can be left to gain at the target, as a part of the range of its values.

    .. math:: \Bigl(\max_x (\mu^{(M)} + 2 \sigma^{(M)})(x) - \max_{x_i} (\mu^{(M)} - 2 \sigma^{(M)})(x_i)\Bigr)
        / (\max y - \min y)

    over all designs ``x`` and those observed at the target, as in [Makarova2022termination]_ (Eq. 5): a bound on the
    simple regret where the model's bands hold. Infinite while there are few values.

    Args:
        strategy: Whose model says it, bound to its space.
        history: Everything asked so far.
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
    highest = _highest(strategy, history, space.to_unit(observed[values.argsort(descending=True)[:CLOSE]]))
    extent = (values.max() - values.min()).item()
    left = max(highest, known[1].max().item()) - known[0].max().item()
    return left / extent if extent > 0 and math.isfinite(left) else math.inf


def _highest(strategy: Strategy, history: History, near: Tensor) -> float:
    """The largest upper bound that is found over the space, from Sobol points and good designs on."""
    space, generator = strategy.space, torch.Generator().manual_seed(0)
    U = sobol(space.dim, SCREENED, 0)
    best = -math.inf
    for step in range(ROUNDS + 1):
        U = U[space.allows(U)]
        bounds = _bounds(strategy, history, space.from_unit(U))
        if bounds is None:
            return math.inf
        best = max(best, bounds[1].max().item())
        near = torch.cat([near, U[bounds[1].topk(min(CLOSE, len(U))).indices]])[-2 * CLOSE :]
        noise = torch.randn(len(near), CLOSE, space.dim, generator=generator, dtype=torch.double)
        U = (near.unsqueeze(1) + 0.3 ** (step + 1) * 0.3 * noise).clamp(0.0, 1.0).reshape(-1, space.dim)
    return best


def _bounds(strategy: Strategy, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
    """The lower and the upper bound of the target at some designs."""
    believed = strategy.predict(history, X)
    if believed is None:
        return None
    mean, deviation = (part[:, strategy.space.target] for part in believed)
    return mean - WIDTH * deviation, mean + WIDTH * deviation
