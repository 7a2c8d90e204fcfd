"""The loop: spend a capital on a problem with a strategy, here or through an executor."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    wait,
)
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mfbo_torch.history import History, Record, Status
from mfbo_torch.history.storage import outputs
from mfbo_torch.history.storage.disk_waits import when_disk_has_room
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.early_failures import ALIKE, EarlyFailures, Hopeless
from mfbo_torch.loop.eta import forecast
from mfbo_torch.loop.evaluation import Evaluation
from mfbo_torch.loop.executors import POLL_SECONDS, capacity
from mfbo_torch.loop.executors.lookahead import Lookahead
from mfbo_torch.loop.executors.sending import check_sendable, outcome, send
from mfbo_torch.loop.interrupt import stop_on_ctrl_c
from mfbo_torch.loop.optimizer import Decision, Optimizer
from mfbo_torch.loop.progress import Progress
from mfbo_torch.loop.run_options import RunOptions, bound, check_capital, warn_of_no_target
from mfbo_torch.loop.stopping import Stopping
from mfbo_torch.loop.trial_folders import Trials, trials
from mfbo_torch.problems.problem_snapshot import check_noted, note
from mfbo_torch.problems.shown_history import ShownHistory
from mfbo_torch.space.parameter import format_value
from mfbo_torch.strategies import MFGPUCB
from mfbo_torch.strategies.by_name import strategy_of
from mfbo_torch.strategies.explanation import Explanation
from mfbo_torch.tracking.callback import Callbacks
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.global_state import GlobalState
from mfbo_torch.utils.output_streams import logger, say
from mfbo_torch.utils.validation import describe

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem
    from mfbo_torch.strategies.base import Strategy

T = TypeVar("T")
LOG = logger(__name__)
"""Each decision with its reasons, and the end of each evaluation, in one line."""
LOG.addHandler(logging.NullHandler())
HOPELESS = 10
"""Number of failed evaluations after which a run without a single value ends."""
PATIENCE = 30
"""Number of polls without a worker, one a second, after which the user is told that there is none."""


def run(
    problem: Problem,
    strategy: Strategy | str,
    capital: float,
    *,
    seed: int | None = None,
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
    callbacks: Sequence[Any] = (),
) -> History:
    """Spend a capital on a problem.

    The run ends once the rest of the capital does not pay for the next query and nothing is pending. Every query is in
    the journal before it is evaluated, and every value before the next decision. A run that was killed is continued by
    calling this again with its journal; its decisions are those of a run that was never interrupted.

    An evaluation fails when it raises an exception, returns no finite number, or is ended by its executor (a timeout, a
    worker that died). It is tried again ``retries`` times and then recorded as failed with its reason; the run goes on.
    The first Ctrl-C ends the run after the evaluations in flight, the second at once; both return the history so far.
    What an objective changes in the global settings of PyTorch, NumPy and warnings holds for its evaluations here, and
    ends with the run.

    Args:
        problem: What to evaluate.
        strategy: Decides the queries, or its name, ``"RandomSearch"``; bound to the problem's space and the capital.
        capital: What may be spent in all, in the unit of the costs (seconds where they are measured), what the
            journal's history already spent included. Where costs are measured the last queries may go beyond it.
        seed: Seed of the random choices of a strategy that is named; 0 if not given.
        executor: Where to evaluate; here if not given. One with processes needs a problem that can be pickled.
        max_pending: Queries in flight at once; ``None`` for as many as the executor's workers, for which queries are
            decided ahead where they would wait (:mod:`~mfbo_torch.loop.executors.lookahead`). With an executor each
            that ends is replaced at once; without one they are decided in batches of this size.
        journal: Where to keep the history.
        progress: Whether to show a progress bar.
        retries: How often an evaluation that fails is tried again.
        charge_retries: Whether each attempt costs what the first does; made only if the capital pays for it.
        charge_deciding: Whether the seconds of deciding are spent too, where costs are measured.
        time_limit: Seconds from now on after which nothing more is started. What is in flight is finished.
        stop_at: Ends the run once a value at the target is as good, in the problem's own sign.
        patience: Ends it once this capital has brought nothing better, see :class:`mfbo_torch.loop.stopping.Idle`.
        stop_gain: Ends it once what is left to gain is bounded by this part of the range of the target's values, see
            :func:`mfbo_torch.loop.stopping.gain`. A run that has ended early can go on without the rule.
        folder: Where an objective that takes a ``trial`` (:class:`~mfbo_torch.problems.trial.Trial`) has its folders;
            beside the journal if not given.
        callbacks: Told of every query and result, and of the end (:class:`~mfbo_torch.tracking.Callback`).

    Raises:
        SettingError: A setting cannot work, such as a capital below the cost of the cheapest query.
        Hopeless: All of the first :data:`HOPELESS` evaluations failed, or all there were; or the first
            :data:`~mfbo_torch.loop.early_failures.ALIKE` made the same mistake, and are pending still.
        BrokenExecutor: The executor lost its workers. This counts as an attempt of all queries in flight, since the one
            to blame would break the next run too: those without a retry left are recorded as failed.
    """
    attempts = {"retries": retries, "charge_retries": charge_retries, "charge_deciding": charge_deciding}
    ends = {"time_limit": time_limit, "stop_at": stop_at, "patience": patience, "stop_gain": stop_gain}
    options = RunOptions(max_pending, **attempts, **ends)  # type: ignore[arg-type]
    strategy = strategy_of(strategy, seed, MFGPUCB)
    ended = drive(problem, strategy, capital, options, executor, journal, progress, folder=folder, callbacks=callbacks)
    return ShownHistory(ended.history, problem)


class Ended(NamedTuple):
    """How a run ended."""

    history: History
    finished: bool
    """Whether the capital is spent or a rule has ended the run, and not Ctrl-C or the clock."""
    stopped: str = ""
    """The rule that has ended it before the capital was spent; empty where none has."""


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
    stopping: Stopping | None = None,
    callbacks: Sequence[Any] = (),
) -> Ended:
    """:func:`run`, which also says how the run ended, and may begin with observations ``given``."""
    if isinstance(problem, type) or not hasattr(problem, "space"):
        raise SettingError("problem", problem, "a problem, as mfbo_torch.problems.Currin() is")
    capital = check_capital(problem, capital)
    warn_of_no_target(problem, capital)
    options.check(problem)
    check_sendable(problem, executor)
    own = GlobalState()
    with own.restored():  # all but the evaluations, whatever these leave behind
        told = Callbacks(callbacks, problem.space, problem.signed)
        optimizer = Optimizer(bound(strategy, problem, capital), journal, callbacks=told)
        if journal is not None and len(optimizer.history):
            check_noted(journal, problem)
        stopping = stopping or Stopping(options, problem, optimizer.strategy)
        if given and not len(optimizer.history):
            optimizer.give(list(given))
        most = options.max_pending or (1 if executor is None else capacity(executor))
        coming = partial(forecast, optimizer.strategy, capital=capital, workers=most)
        within = trials(problem, folder, journal, len(optimizer.history))
        about = {"strategy": type(strategy).__name__, "seed": strategy.seed, "capital": capital}
        note(journal, problem, **about)
        with Progress(problem, capital, progress, coming) as bar, stop_on_ctrl_c() as interrupted, within as made:
            loop = _Loop(optimizer, made, capital, options, stopping, bar, interrupted, own)
            try:
                if executor is None:
                    loop.here()
                else:
                    loop.through(executor)
            except KeyboardInterrupt:
                told.end(optimizer.history, False)
                return Ended(optimizer.history, False)
            except Exception as error:
                told.end(optimizer.history, False, describe(error))
                raise
            bar.show(optimizer.history, over=True)
            if loop.stopped:
                LOG.info("stopped: %s", loop.stopped)
            elif not interrupted.is_set():
                loop.expect_a_value(spent=True)
        finished = not (interrupted.is_set() or stopping.late)
        told.end(optimizer.history, finished, loop.stopped)
        note(journal, problem, **about, finished=finished, stopped=loop.stopped)
        return Ended(optimizer.history, finished, loop.stopped)


@dataclass(eq=False)
class _Loop:
    """A run from one call to its end."""

    optimizer: Optimizer
    trials: Trials
    capital: float
    options: RunOptions
    stopping: Stopping
    bar: Progress
    interrupted: Event
    own: GlobalState  # of the objective, in this process
    stopped: str = ""
    failures: int = 0  # of this call: what failed in an earlier one may have been repaired

    def __post_init__(self) -> None:
        self.problem, self.early = self.trials.problem, EarlyFailures(over=self._values())

    def over(self) -> bool:
        """Whether no evaluation may start any more."""
        self.stopped = self.stopped or self.stopping.late
        return self.interrupted.is_set() or bool(self.stopped)

    def enough(self) -> bool:
        """Whether no query may be decided any more."""
        history = self.optimizer.history
        self.stopped = self.stopped or self.stopping.reason(history) or self.trials.all_trained(history)
        return self.over()

    def here(self) -> None:
        """Evaluate in this process, in batches."""
        n = self.options.max_pending or 1
        while not self.over():
            batch = [r for r in self.optimizer.history.pending if r.id not in self.early.held]
            if not batch and (
                self.enough() or not ((batch := self.ask(self.optimizer.deciding(n)())) or self.release())
            ):
                return None
            self.bar.show(self.optimizer.history)
            for record in batch:
                again: Record | None = record
                while again is not None and not self.over():
                    attempt = self.attempt(again)
                    with self.own.continued():
                        evaluation = self.trials.evaluate(*attempt)
                    again = self.end(again, evaluation)
                self.expect_a_value()
                self.bar.show(self.optimizer.history)

    def through(self, executor: Executor) -> None:
        """Evaluate through an executor; values are taken in while the next query is decided."""
        most = self.options.max_pending
        in_flight: dict[Future[Evaluation], tuple[Record, float]] = {}
        waiting = self.optimizer.history.pending
        ahead = Lookahead(self.optimizer, allowed=most is None)
        refused, looks = False, 0
        try:
            while True:
                limit = capacity(executor) if most is None else most
                while len(in_flight) < limit and not self.over():
                    if not (waiting or self.enough()) and (decision := ahead.next()) is not None:
                        waiting = self.ask(decision)
                        refused = not waiting and ahead.refused()
                    ready = self.trials.ready(waiting, [record for record, _ in in_flight.values()])
                    if ready is None:
                        break
                    waiting.remove(ready)
                    future = send(executor, ready, self.attempt(ready))
                    in_flight[future] = ready, time.perf_counter()
                due = 0 if ahead.running or waiting or refused else ahead.due(limit, len(in_flight))
                if due and not self.enough():
                    ahead.begin(due, self.capital)
                if not in_flight and ahead.running is None and (self.over() or (refused and not waiting)):
                    if self.over() or not self.release():
                        return None
                    refused = False
                self.bar.show(self.optimizer.history)
                looks = looks + 1 if not in_flight and ahead.running is None else 0
                if looks:  # no worker at present
                    if looks == PATIENCE:
                        LOG.warning("no worker for %g seconds; waiting for one", PATIENCE * POLL_SECONDS)
                        say("\nno worker to evaluate on; waiting for one to join")
                    time.sleep(POLL_SECONDS)
                ends: list[Future[Any]] = [*in_flight, ahead.running] if ahead.running else [*in_flight]
                wait(ends, POLL_SECONDS, FIRST_COMPLETED)
                for future in [future for future in in_flight if future.done()]:
                    record, sent = in_flight[future]
                    again = self.end(record, outcome(self.problem, future, sent))
                    ahead.took(time.perf_counter() - sent)
                    del in_flight[future]
                    refused = False
                    if again is not None:
                        waiting.insert(0, again)
                self.expect_a_value()
                ahead.collect()
        except BrokenExecutor as error:
            taken = {record.id: time.perf_counter() - sent for record, sent in in_flight.values()}
            lost = [(r, Evaluation(None, describe(error), taken[r.id])) for r in self._collect(in_flight)]
            numbers = ", ".join(str(record.id) for record, end in lost if self._end(record, end) is None) or "none"
            message = f"the executor broke; queries in flight are recorded as failed: {numbers} ({error})"
            raise BrokenExecutor(message) from error
        except BaseException:
            self._collect(in_flight)
            raise
        finally:
            ahead.close()

    def attempt(self, record: Record) -> tuple[Any, ...]:
        """The arguments of :func:`~mfbo_torch.loop.evaluation.evaluate` for a query."""
        trial = self.trials.of(record, self.optimizer.history)
        return self.problem, record.query.x, record.query.fidelity, record.id, trial

    def ask(self, decision: Decision) -> list[Record]:
        """Make pending what was decided, as far as the capital pays for it; what is held back is not in flight."""
        waits = not self.early.held
        queried = when_disk_has_room(lambda: self.optimizer.accept(decision, capital=self.capital, waits=waits))
        for record in queried if LOG.isEnabledFor(logging.INFO) else ():
            space, query = self.problem.space, record.query
            named = {**space.named(query.x), **space.fidelity_value(query.fidelity)}
            point = ", ".join(f"{key}={format_value(value)}" for key, value in named.items())
            decided = f"Decided in {record.decision_seconds:.3f} s."
            why = self.explained(record).why
            LOG.info("%d queried at fidelity %d: %s; %s %s", record.id, query.fidelity, point, why, decided)
        return queried

    def end(self, record: Record, evaluation: Evaluation) -> Record | None:
        """Record the end of an attempt; returns the record if there is another attempt to make."""
        last = record.retries >= self.options.retries
        if last and evaluation.raised and self.early.holds(record, evaluation):
            LOG.warning("%d broke after %.3f s: %s", record.id, evaluation.seconds, evaluation.reason)
            return None
        if last or not evaluation.raised:
            self.release()
        return self._end(record, evaluation)

    def release(self) -> bool:
        """Record the failures that were held back, if there were any."""
        return bool([self._end(*held) for held in self.early.release()])

    def _end(self, record: Record, evaluation: Evaluation) -> Record | None:
        if evaluation.reason:
            evaluation = self.trials.completed(record, evaluation)
        observation, reason, seconds, _, stopped, curve, printed, _ = evaluation
        if (journal := self.optimizer.journal) is not None:
            outputs.keep(journal.path, record.id, printed, self.options.output_limit)
        kept, base = self.trials.kept(record), self.trials.cost(record, seconds, stopped, curve)
        if self.options.charge_deciding and not record.sunk:
            base += record.decision_seconds
        total = record.sunk + base
        if observation is not None:
            done = when_disk_has_room(lambda: self.optimizer.observe(record.id, observation, seconds, total, curve))
            if LOG.isEnabledFor(logging.INFO):
                outcome = self.explained(done).outcome
                LOG.info("%d ended: %s It took %.3f s and cost %g.", record.id, outcome, seconds, total)
            return None
        if evaluation.given_up:
            when_disk_has_room(lambda: self.optimizer.stop(record.id, curve, seconds, total))
            LOG.info("%d stopped at %g after %.3f s, cost %g", record.id, stopped, seconds, total)
            return None
        if record.retries < self.options.retries:
            following = (total - kept if self.options.charge_retries else record.sunk) + (record.cost - record.sunk)
            if self.optimizer.affords(following - record.cost, self.capital):
                LOG.info("%d is tried again: %s", record.id, reason)
                return when_disk_has_room(lambda: self.optimizer.retry(record.id, reason, cost=following))
        end: Any = {"evaluation_seconds": seconds, "cost": total, "curve": curve}
        when_disk_has_room(lambda: self.optimizer.fail(record.id, reason, **end))
        LOG.warning("%d failed after %.3f s, cost %g: %s", record.id, seconds, total, reason)
        self.failures += 1
        return None

    def explained(self, record: Record) -> Explanation:
        """Why a query was made, and what came of it."""
        return Explanation(record, self.optimizer.history, self.problem.space, self.problem.signed)

    def expect_a_value(self, spent: bool = False) -> None:
        """Give up after :data:`HOPELESS` failures without a value, any once all is spent, or if the first are alike."""
        if len(self.early.held) >= ALIKE:
            raise Hopeless(str(self.early))
        failures = self.optimizer.history.tally.failed if spent else self.failures
        if failures >= (1 if spent else HOPELESS) and not self._values():
            last = self.optimizer.history.select(Status.FAILED)[-1].reason.partition("\n")[0]
            raise Hopeless(f"all {failures} evaluations failed, the last with {last}", spent)

    def _values(self) -> bool:
        """Whether the run has a value of its own."""
        return self.optimizer.history.tally.evaluated > 0

    def _collect(self, in_flight: dict[Future[Evaluation], tuple[Record, float]]) -> list[Record]:
        """Record the evaluations that have finished; cancel the others and return their records."""
        lost = []
        for future, (record, _) in in_flight.items():
            future.cancel()
            if self.optimizer.history.records[record.id].status != Status.PENDING:
                continue
            if future.done() and not future.cancelled() and future.exception() is None:
                self.end(record, future.result())
            else:
                lost.append(record)
        return lost
