"""The loop: spend a capital on a problem with a strategy, here or through an executor."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import repeat
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mfbo_torch.history import History, Record, Status
from mfbo_torch.history.storage.journal import DiskFull, Journal
from mfbo_torch.loop.early_failures import Beginning, Hopeless
from mfbo_torch.loop.eta import forecast
from mfbo_torch.loop.evaluation import Evaluation, describe, evaluate
from mfbo_torch.loop.executors import LOOK_AROUND, WorkerLost, capacity
from mfbo_torch.loop.interrupt import pulled_by_ctrl_c
from mfbo_torch.loop.optimizer import Decision, Optimizer
from mfbo_torch.loop.progress import Progress
from mfbo_torch.loop.run_options import RunOptions, check_capital
from mfbo_torch.loop.stopping import Stopping
from mfbo_torch.loop.trial_folders import Trials, kept
from mfbo_torch.space.parameter import shown

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem
    from mfbo_torch.strategies.base import Strategy

T = TypeVar("T")
LOG = logging.getLogger(__name__)
"""What was decided and why, and how it ended: one line each."""
LOG.addHandler(logging.NullHandler())
HOPELESS = 10
"""So many evaluations that fail, and none that does not, end a run."""
DISK_WAITS = (1.0, 5.0, *repeat(30.0, 20))
"""Seconds between attempts to keep a value while the disk is full: ten minutes in all."""
PATIENCE = 30
"""Looks around for a worker after which the user is told that there is none."""


def run(
    problem: Problem,
    strategy: Strategy,
    capital: float,
    *,
    executor: Executor | None = None,
    max_pending: int | None = 1,
    journal: Journal | None = None,
    progress: bool = True,
    retries: int = 0,
    charge_retries: bool = True,
    charge_deciding: bool = False,
    time_limit: float | None = None,
    stop_at: float | None = None,
    patience: float | None = None,
    stop_gain: float | None = None,
    folder: Path | None = None,
) -> History:
    """Spend a capital on a problem.

    Queries are asked while the next one fits into what is left; one that does not fit is
    not asked, and ends the run once nothing is pending. Every query is in the journal
    before it is evaluated, and every value before the next decision, so that a run that was
    killed is continued by calling this again with its journal: pending queries are
    evaluated first, and the decisions that follow are those of a run never interrupted.

    An evaluation that raises, gives something that is not a finite number, or is ended by its
    executor (:mod:`mfbo_torch.loop.executors`: it outlived the timeout, its worker died) is tried again
    ``retries`` times and then recorded as failed with its reason; the run goes on. The first Ctrl-C
    ends the run when what is in flight has ended, the second at once; both return the history so far.

    Args:
        problem: What to evaluate.
        strategy: Decides the queries; bound to the problem's space and the capital.
        capital: What may be spent in all, in the unit of the costs (seconds where they are
            measured), what the journal's history already spent included. Measured costs are
            known only afterwards, so there the last queries may go beyond it.
        executor: Where to evaluate; here, one after another, if not given. The problem must
            be picklable for one that uses processes.
        max_pending: Queries in flight at once; ``None`` for as many as the executor's workers. With
            an executor each one that ends is replaced at once, in whatever order they end, and values
            are taken in while the next query is decided; without one they are asked in batches of
            this size.
        journal: Where to keep the history.
        progress: Whether to show a progress bar.
        retries: How often an evaluation that fails is tried again.
        charge_retries: Whether each attempt costs what the first does. One that the capital does not pay for
            is not made.
        charge_deciding: Whether the seconds of deciding are spent too, where costs are measured.
        time_limit: Seconds from now on after which nothing more is started. What is in flight is finished.
        stop_at: Ends the run once a value at the target is as good, in the problem's own sign.
        patience: Ends it once so much capital has brought nothing better, see :class:`mfbo_torch.loop.stopping.Idle`.
        stop_gain: Ends it once what is left to gain is bounded by this part of the range of the target's values, see
            :func:`mfbo_torch.loop.stopping.gain`. A run that has ended early goes on without the rule; why it has ended
            is logged.
        folder: Where an objective that takes a ``trial`` (:class:`~mfbo_torch.problems.trial.Trial`) has its folders;
        beside
            the journal if not given.

    Returns:
        The history.

    Raises:
        SettingError: A setting cannot work, such as a capital below the cost of the cheapest query.
        Hopeless: All of the first :data:`HOPELESS` evaluations failed, or all there were; or the first
            :data:`~mfbo_torch.loop.early_failures.ALIKE` raised the same exception, and are pending still.
        BrokenExecutor: The executor lost its workers (one was killed, say) and cannot tell which
            evaluation it was. The queries in flight are recorded as failed, since the one to blame
            would break the next run too.
    """
    options = RunOptions(
        max_pending,
        retries=retries,
        charge_retries=charge_retries,
        charge_deciding=charge_deciding,
        time_limit=time_limit,
        stop_at=stop_at,
        patience=patience,
        stop_gain=stop_gain,
    )
    return drive(problem, strategy, capital, options, executor, journal, progress, folder=folder).history


class Ended(NamedTuple):
    """How a run ended.

    Args:
        history: Everything asked so far.
        finished: Whether it came to its end: its capital is spent, or a rule says that it is enough.
        stopped: Why before its capital was spent, where it was not Ctrl-C.
    """

    history: History
    finished: bool
    stopped: str = ""


def drive(
    problem: Problem,
    strategy: Strategy,
    capital: float,
    options: RunOptions,
    executor: Executor | None = None,
    journal: Journal | None = None,
    progress: bool = True,
    given: Sequence[Record] = (),
    folder: Path | None = None,
) -> Ended:
    """:func:`run`, which also says how the run ended, and may begin with observations ``given``."""
    capital = check_capital(problem, capital)
    options.check(problem)
    optimizer = Optimizer(strategy.bind(problem.space, capital), journal)
    stopping = Stopping(options, problem, optimizer.strategy)
    if given and not len(optimizer.history):
        optimizer.give(list(given))
    most = options.max_pending or (1 if executor is None else capacity(executor))
    coming = partial(forecast, optimizer.strategy, capital=capital, workers=most)
    within = kept(problem, folder, journal)
    with Progress(problem, capital, progress, coming) as bar, pulled_by_ctrl_c() as brake, within as folders:
        loop = _Loop(optimizer, Trials(problem, folders), capital, options, stopping, bar, brake)
        try:
            if executor is None:
                loop.here()
            else:
                loop.through(executor)
        except KeyboardInterrupt:
            return Ended(optimizer.history, False)
        if loop.stopped:
            LOG.info("stopped: %s", loop.stopped)
        elif not brake.is_set():
            loop.expect_any_value()
    return Ended(optimizer.history, not (brake.is_set() or stopping.late), loop.stopped)


class _Loop:
    """One go at a run."""

    def __init__(
        self,
        optimizer: Optimizer,
        trials: Trials,
        capital: float,
        options: RunOptions,
        stopping: Stopping,
        bar: Progress,
        brake: Event,
    ) -> None:
        self.optimizer, self.trials, self.problem, self.capital = optimizer, trials, trials.problem, capital
        self.options, self.stopping, self.bar, self.brake = options, stopping, bar, brake
        self.stopped = ""
        self.failures = 0  # of this go; what went wrong before may have been repaired
        self.beginning = Beginning(over=self._values())

    def over(self) -> bool:
        """Whether nothing more is to be started."""
        self.stopped = self.stopped or self.stopping.late
        return self.brake.is_set() or bool(self.stopped)

    def enough(self) -> bool:
        """Whether nothing more is to be asked."""
        self.stopped = self.stopped or self.stopping.reason(self.optimizer.history)
        return self.over()

    def here(self) -> None:
        """Evaluate in this process, in batches."""
        while not self.over():
            batch = [r for r in self.optimizer.history.pending if r.id not in self.beginning.held]
            if not batch and self.enough():
                return None
            if not batch and not (batch := self.ask(self.optimizer.deciding(self.options.max_pending or 1)())):
                return self.let_go()
            self.bar.show(self.optimizer.history)
            for record in batch:
                again: Record | None = record
                while again is not None and not self.over():
                    again = self.end(again, evaluate(*self.attempt(record)))
                self.expect_a_value()
                self.bar.show(self.optimizer.history)

    def through(self, executor: Executor) -> None:
        """Evaluate through an executor; values are taken in while the next query is decided."""
        most = self.options.max_pending
        flying: dict[Future[Evaluation], tuple[Record, float]] = {}
        waiting = self.optimizer.history.pending
        decider = ThreadPoolExecutor(1, "mfbo-decide")
        deciding: Future[Decision] | None = None
        refused, looks = False, 0

        def submit(record: Record) -> None:
            future = executor.submit(evaluate, *self.attempt(record))
            flying[future] = record, time.perf_counter()

        try:
            while True:
                limit = capacity(executor) if most is None else most
                while len(flying) < limit and not self.over():
                    ready = self.trials.ready(waiting, [record for record, _ in flying.values()])
                    if ready is None:
                        break
                    waiting.remove(ready)
                    submit(ready)
                if deciding is None and len(flying) < limit and not (waiting or refused or self.enough()):
                    deciding = decider.submit(self.optimizer.deciding())
                if not flying and deciding is None and (self.over() or (refused and not waiting)):
                    return None if self.over() else self.let_go()
                self.bar.show(self.optimizer.history)
                looks = looks + 1 if not flying and deciding is None else 0
                if looks:  # no worker at present
                    if looks == PATIENCE:
                        LOG.warning("no worker for %g seconds; waiting for one", PATIENCE * LOOK_AROUND)
                        print("\nno worker to evaluate on; waiting for one to join", file=sys.stderr, flush=True)
                    time.sleep(LOOK_AROUND)
                ends: list[Future[Any]] = [*flying, deciding] if deciding else [*flying]
                wait(ends, LOOK_AROUND, FIRST_COMPLETED)
                for future in [future for future in flying if future.done()]:
                    record, started = flying[future]
                    again = self.end(record, _outcome(future, time.perf_counter() - started))
                    del flying[future]
                    refused = False
                    if again is not None:
                        waiting.insert(0, again)
                self.expect_a_value()
                if deciding is not None and deciding.done():
                    decision, deciding = deciding.result(), None
                    if not self.over():
                        asked = self.ask(decision)
                        refused = not asked
                        waiting += asked
        except BrokenExecutor as error:
            lost = self._land(flying)
            for record in lost:
                self.optimizer.fail(record.id, describe(error))
            numbers = ", ".join(str(record.id) for record in lost) or "none"
            message = f"the executor broke; queries in flight are recorded as failed: {numbers} ({error})"
            raise BrokenExecutor(message) from error
        except BaseException:
            self._land(flying)
            raise
        finally:
            decider.shutdown(wait=False, cancel_futures=True)

    def attempt(self, record: Record) -> tuple[Any, ...]:
        """What :func:`~mfbo_torch.loop.evaluation.evaluate` takes for a query."""
        trial = self.trials.of(record, self.optimizer.history)
        return self.problem, record.query.x, record.query.fidelity, record.id, trial

    def ask(self, decision: Decision) -> list[Record]:
        """Ask what was decided, if the capital pays for it."""
        asked = _kept(lambda: self.optimizer.accept(decision, capital=self.capital))
        for record in asked:
            noted = ", ".join(f"{key} {_short(value)}" for key, value in record.query.meta.items())
            space, query = self.problem.space, record.query
            told = {**space.named(query.x), **space.fidelity_value(query.fidelity)}
            point = ", ".join(f"{key}={shown(value)}" for key, value in told.items())
            seconds = f"decided in {record.decision_seconds:.3f} s"
            LOG.info("%d asked at fidelity %d: %s; %s; %s", record.id, record.query.fidelity, point, noted, seconds)
        return asked

    def end(self, record: Record, evaluation: Evaluation) -> Record | None:
        """Take in how an attempt ended; the record if there is to be another one."""
        last = record.retries >= self.options.retries
        if last and evaluation.raised and self.beginning.holds(record, evaluation):
            LOG.warning("%d broke after %.3f s: %s", record.id, evaluation.seconds, evaluation.reason)
            return None
        if last or not evaluation.raised:
            self.let_go()
        return self._end(record, evaluation)

    def let_go(self) -> None:
        """Take in the failures that were held back."""
        for record, evaluation in self.beginning.let_go():
            self._end(record, evaluation)

    def _end(self, record: Record, evaluation: Evaluation) -> Record | None:
        observation, reason, seconds, _, stopped = evaluation
        base = self.trials.cost(record, seconds, stopped)
        if self.options.charge_deciding and not record.sunk:
            base += record.decision_seconds
        total = record.sunk + base
        if observation is not None:
            _kept(lambda: self.optimizer.observe(record.id, observation, seconds, total))
            LOG.info("%d ended: %s after %.3f s, cost %g", record.id, observation, seconds, total)
            return None
        if record.retries < self.options.retries:
            following = (total if self.options.charge_retries else record.sunk) + (record.cost - record.sunk)
            if self.optimizer.affords(following - record.cost, self.capital):
                LOG.info("%d is tried again: %s", record.id, reason)
                return _kept(lambda: self.optimizer.retry(record.id, reason, cost=following))
        _kept(lambda: self.optimizer.fail(record.id, reason, evaluation_seconds=seconds, cost=total))
        LOG.warning("%d failed after %.3f s, cost %g: %s", record.id, seconds, total, reason)
        self.failures += 1
        return None

    def expect_a_value(self) -> None:
        """Give up if nothing but failures came of this run, :data:`HOPELESS` of them now or the first ones alike."""
        if self.beginning.hopeless:
            raise Hopeless(str(self.beginning))
        if self.failures >= HOPELESS and not self._values():
            raise self._hopeless(self.failures, spent=False)

    def expect_any_value(self) -> None:
        """Complain if nothing but failures came of the whole capital."""
        failures = self.optimizer.history.tally.failed
        if failures and not self._values():
            raise self._hopeless(failures, spent=True)

    def _values(self) -> bool:
        """Whether anything was evaluated, what the run began with not counted."""
        return self.optimizer.history.tally.evaluated > 0

    def _hopeless(self, failures: int, spent: bool) -> Hopeless:
        last = self.optimizer.history.select(Status.FAILED)[-1].reason.partition("\n")[0]
        return Hopeless(f"all {failures} evaluations failed, the last with {last}", spent)

    def _land(self, flying: dict[Future[Evaluation], tuple[Record, float]]) -> list[Record]:
        """Keep what has finished already, give up the rest and return it."""
        lost = []
        for future, (record, _) in flying.items():
            future.cancel()
            if self.optimizer.history.records[record.id].status != Status.PENDING:
                continue
            if future.done() and not future.cancelled() and future.exception() is None:
                self.end(record, future.result())
            else:
                lost.append(record)
        return lost


def _outcome(future: Future[Evaluation], seconds: float) -> Evaluation:
    """What came of an evaluation that an executor had; other exceptions are its own, and rise."""
    try:
        return future.result()
    except (WorkerLost, TimeoutError) as error:
        return Evaluation(None, describe(error), seconds)


def _kept(write: Callable[[], T]) -> T:
    """What is written, as soon as there is room on the disk."""
    for seconds in DISK_WAITS:
        try:
            return write()
        except DiskFull as error:
            LOG.error("%s; trying again in %g s", error, seconds)
            print(f"mfbo: {error}; trying again in {seconds:g} s, nothing is lost", file=sys.stderr, flush=True)
            time.sleep(seconds)
    return write()


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"[{', '.join(map(_short, value))}]" if isinstance(value, list) else str(value)
