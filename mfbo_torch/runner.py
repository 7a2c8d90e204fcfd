"""The loop: spend a capital on a problem with a strategy, here or through an executor."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import TYPE_CHECKING, NamedTuple

from tqdm.auto import tqdm

from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Record, Status
from mfbo_torch.journal import Journal
from mfbo_torch.optimizer import Optimizer

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem
    from mfbo_torch.strategies.base import Strategy


class Outcome(NamedTuple):
    """What an evaluation came to: a value, or the reason why there is none."""

    value: float | None
    reason: str
    seconds: float


def run(
    problem: Problem,
    strategy: Strategy,
    capital: float,
    *,
    executor: Executor | None = None,
    max_pending: int = 1,
    journal: Journal | None = None,
    progress: bool = True,
) -> History:
    """Spend a capital on a problem.

    Queries are asked while the next one fits into what is left; one that does not fit is
    not asked, and ends the run once nothing is pending. Every query is in the journal
    before it is evaluated, and every value before the next decision, so that a run that was
    killed is continued by calling this again with its journal: pending queries are
    evaluated first, and the decisions that follow are those of a run never interrupted.

    An evaluation that raises, or gives something that is not a finite number, is recorded as
    failed with its reason and is charged; the run goes on. Ctrl-C stops the run and returns
    the history so far, what was pending left pending.

    Args:
        problem: What to evaluate.
        strategy: Decides the queries; bound to the problem's space and the capital.
        capital: What may be spent in all, in the unit of the costs (seconds where they are
            measured), what the journal's history already spent included. Measured costs are
            known only afterwards, so there the last queries may go beyond it.
        executor: Where to evaluate; here, one after another, if not given. The problem must
            be picklable for one that uses processes.
        max_pending: Queries in flight at once. With an executor each one that ends is
            replaced at once, in whatever order they end; without one they are asked in
            batches of this size.
        journal: Where to keep the history.
        progress: Whether to show a progress bar.

    Returns:
        The history.

    Raises:
        SettingError: A setting cannot work, such as a capital below the cost of one query at the target.
        BrokenExecutor: The executor lost its workers (one was killed, say). The queries in
            flight are recorded as failed, since the one to blame cannot be told from the
            others and would break the next run too.
    """
    return drive(problem, strategy, capital, executor, max_pending, journal, progress)[0]


def drive(
    problem: Problem,
    strategy: Strategy,
    capital: float,
    executor: Executor | None,
    max_pending: int,
    journal: Journal | None,
    progress: bool,
) -> tuple[History, bool]:
    """:func:`run`, which also says whether the run came to its end."""
    check(problem, capital, max_pending)
    optimizer = Optimizer(strategy.bind(problem.space, capital), journal)
    with _Progress(problem, capital, progress) as bar:
        try:
            if executor is None:
                _evaluate_here(optimizer, problem, capital, max_pending, bar)
            else:
                _evaluate_through(executor, optimizer, problem, capital, max_pending, bar)
        except KeyboardInterrupt:
            return optimizer.history, False
    return optimizer.history, True


def check(problem: Problem, capital: float, max_pending: int) -> None:
    """Raise a :class:`~mfbo_torch.errors.SettingError` if a run with these settings cannot work."""
    if isinstance(capital, bool) or not isinstance(capital, (int, float)) or not math.isfinite(capital):
        raise SettingError("capital", capital, "a finite number")
    cheapest = min(problem.space.costs)
    if problem.space.measured and capital <= 0:
        raise SettingError("capital", capital, "a number of seconds above 0")
    if not problem.space.measured and capital < cheapest:
        raise SettingError("capital", capital, f"at least {cheapest:g}, the cost of the cheapest query")
    if not isinstance(max_pending, int) or isinstance(max_pending, bool) or max_pending < 1:
        raise SettingError("max_pending", max_pending, "a whole number from 1 on")


def evaluate(problem: Problem, x: Sequence[float], fidelity: int, number: int = 0) -> Outcome:
    """Evaluate query ``number`` wherever this runs; never raises for what the objective does."""
    started = time.perf_counter()
    value, reason = None, ""
    try:
        value = float(problem.observe(x, fidelity, number))
    except (Exception, SystemExit) as error:
        reason = describe(error)
    return Outcome(value, reason, time.perf_counter() - started)


def describe(error: BaseException) -> str:
    """An exception in one line, ``ExceptionType: message``."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _evaluate_here(optimizer: Optimizer, problem: Problem, capital: float, max_pending: int, bar: _Progress) -> None:
    while batch := optimizer.history.pending or optimizer.ask(max_pending, capital=capital):
        bar.show(optimizer.history)
        for record in batch:
            _end(optimizer, record, evaluate(problem, record.query.x, record.query.fidelity, record.id))
            bar.show(optimizer.history)


def _evaluate_through(
    executor: Executor, optimizer: Optimizer, problem: Problem, capital: float, max_pending: int, bar: _Progress
) -> None:
    flying: dict[Future[Outcome], Record] = {}
    left_over = optimizer.history.pending
    try:
        while True:
            while len(flying) < max_pending:
                record = next(iter(left_over or optimizer.ask(capital=capital)), None)
                if record is None:
                    break
                future = executor.submit(evaluate, problem, record.query.x, record.query.fidelity, record.id)
                flying[future] = record
                left_over = left_over[1:]
                bar.show(optimizer.history)
            if not flying:
                return
            finished, _ = wait(flying, return_when=FIRST_COMPLETED)
            for future in sorted(finished, key=lambda future: flying[future].id):
                _end(optimizer, flying[future], future.result())
                del flying[future]
                bar.show(optimizer.history)
    except BrokenExecutor as error:
        lost = _land(optimizer, flying)
        for record in lost:
            optimizer.fail(record.id, describe(error))
        numbers = ", ".join(str(record.id) for record in lost) or "none"
        message = f"the executor broke; queries in flight are recorded as failed: {numbers} ({error})"
        raise BrokenExecutor(message) from error
    except BaseException:
        _land(optimizer, flying)
        raise


def _land(optimizer: Optimizer, flying: dict[Future[Outcome], Record]) -> list[Record]:
    """Keep what has finished already, give up the rest and return it."""
    lost = []
    for future, record in flying.items():
        future.cancel()
        if optimizer.history.records[record.id].status != Status.PENDING:
            continue
        if future.done() and not future.cancelled() and future.exception() is None:
            _end(optimizer, record, future.result())
        else:
            lost.append(record)
    return lost


def _end(optimizer: Optimizer, record: Record, outcome: Outcome) -> None:
    cost = outcome.seconds if optimizer.space.measured else None
    if outcome.value is None:
        optimizer.fail(record.id, outcome.reason, evaluation_seconds=outcome.seconds, cost=cost)
    else:
        optimizer.tell(record.id, outcome.value, evaluation_seconds=outcome.seconds, cost=cost)


class _Progress:
    """A bar in units of capital, with the best value at the target and the queries so far."""

    def __init__(self, problem: Problem, capital: float, shown: bool) -> None:
        self.problem, self.capital, self.shown = problem, capital, shown
        self.bar: tqdm | None = None  # made when the first query has been decided

    def show(self, history: History) -> None:
        if not self.shown:
            return
        if self.bar is None:
            layout = "{l_bar}{bar}| {n:.4g}/{total:.4g} [{elapsed}<{remaining}{postfix}]"
            self.bar = tqdm(total=self.capital, desc=self.problem.name, bar_format=layout, miniters=0)
        best = history.best(self.problem.space.target)
        counts = Counter(record.query.fidelity for record in history)
        queries = "/".join(str(counts[m]) for m in range(self.problem.space.num_fidelities))
        value = "-" if best is None or best.value is None else f"{self.problem.signed(best.value):.6g}"
        self.bar.set_postfix_str(f"best {value}, queries {queries}", refresh=False)
        ended = math.fsum(r.cost for r in history if r.status != Status.PENDING)
        self.bar.update(min(ended, self.capital) - self.bar.n)

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
