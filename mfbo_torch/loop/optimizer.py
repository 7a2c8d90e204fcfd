"""Ask and tell: a strategy, its history, and the journal that stores it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from mfbo_torch.history import ENQUEUED, GIVEN, History, Observed, Query, Recommendation, Record, Status, payable
from mfbo_torch.history.check import check_history
from mfbo_torch.history.learning_curves import Given, checked_points, cost_at
from mfbo_torch.history.observation import LARGEST, Observation, parse, parse_finite, parse_several, unusable
from mfbo_torch.history.record import Points
from mfbo_torch.history.storage.journal import Journal, plain
from mfbo_torch.loop.evaluation import told_reason
from mfbo_torch.problems.problem_snapshot import check_space, stored_history
from mfbo_torch.space import Space
from mfbo_torch.space.allowed_design import allowed_design
from mfbo_torch.space.fidelities import Told, level_of
from mfbo_torch.space.objectives import known_values
from mfbo_torch.strategies import MFGPUCB
from mfbo_torch.strategies.bandit.base import ArmStrategy
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.strategies.by_name import strategy_of
from mfbo_torch.strategies.explanation import Explanation
from mfbo_torch.tracking.callback import Callbacks
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.global_state import GlobalState
from mfbo_torch.utils.validation import check_epochs, number, whole

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem


class Decision(NamedTuple):
    """Queries that a strategy has decided, each with the ones before it pending; they are not yet in the history."""

    queries: list[Query]
    seconds: float
    """The time that each took to decide."""
    seen: int | None
    """The number of the journal's last event before the decision."""


class Optimizer:
    """Decides queries and takes in values, which are to be maximised.

    Every query is in the journal before it is returned, every value before the next decision. The history of a journal
    is continued, or without one ``history``. Several threads may tell values, one of them asks; with a journal, only
    the one that opened it. A strategy that has no space takes that of ``problem``, a space or anything with one. It may
    be a name, ``"RandomSearch"``, with ``seed``; ``callbacks`` (:class:`~mfbo_torch.tracking.Callback`) are told all.

    Raises:
        SettingError: No space is known, or the journal's history belongs to another space.
    """

    def __init__(
        self,
        strategy: Strategy | str,
        journal: Journal | None = None,
        *,
        problem: Problem | Space | None = None,
        seed: int | None = None,
        callbacks: Sequence[Any] | Callbacks = (),
        history: History | None = None,
    ) -> None:
        strategy = strategy_of(strategy, seed, MFGPUCB)
        if journal is not None and not isinstance(journal, Journal):
            named = "; a space is given by its name, problem=space" if isinstance(journal, Space) else ""
            raise SettingError("journal", journal, f"a Journal, as in Journal('history.sqlite'){named}")
        if problem is not None:
            strategy = strategy.bind(problem if isinstance(problem, Space) else problem.space)
        self.strategy, self.space = strategy, strategy.space
        self._signed: Callable[[float], float] = getattr(problem, "signed", float)
        self.journal, self._state = journal, GlobalState()
        self._history = stored_history(self.journal, self.space) if history is None or journal is not None else history
        check_history(self._history, self.space)
        check_space(journal, self.space)
        self._lock = threading.RLock()
        given = callbacks if isinstance(callbacks, Callbacks) else Callbacks(callbacks, self.space, self._signed)
        self.callbacks: Callbacks = given
        self._enqueued = [r.id for r in self._history.pending if r.query.meta == ENQUEUED]

    def __reduce__(self) -> NoReturn:
        path, journal = ("history.sqlite", "a") if self.journal is None else (str(self.journal.path), "its")
        wanted = f"made anew from {journal} journal, as in Optimizer(strategy, Journal({path!r}))"
        raise SettingError("optimizer", type(self).__name__, f"{wanted}; it cannot be pickled or copied")

    @property
    def history(self) -> History:
        """All queries so far."""
        return self._history

    def ask(self, n: int = 1, *, capital: float = math.inf) -> list[Record]:
        """Decide the next ``n`` queries, each with the ones before it pending; those of :meth:`enqueue` go first. Other
        threads that ask or tell meanwhile wait.

        The first query that the capital does not pay for or that waits for values (:meth:`Strategy.waits`), and all
        after it, are left out. Where costs are measured, it pays for every query until one cost is known.

        Raises:
            SettingError: The strategy cannot work with its settings, or ``n`` is below 1.
        """
        whole("n", n)
        with self._lock:
            pending = {r.id: r for r in self._history.pending}
            left = [i for i in self._enqueued if i in pending]
            self._enqueued, first = left[n:], [pending[i] for i in left[:n]]
            try:
                return first + (self.accept(self.deciding(n - len(first))(), capital=capital) if n > len(first) else [])
            except BaseException:  # what was enqueued comes first at the next call
                self._enqueued = [*left[:n], *self._enqueued]
                raise

    def deciding(self, n: int = 1, ahead: Sequence[Query] = ()) -> Callable[[], Decision]:
        """A function that decides the next queries on the present history, those decided ``ahead`` pending too, and the
        ones after them when called again; values may come in meanwhile."""
        known, seen = self._history, None if self.journal is None else self.journal.sequence

        def decide() -> Decision:
            nonlocal known, ahead
            started = time.perf_counter()
            with self._state.restored():
                for query in ahead:
                    known = known.asked(query, self.strategy.cost(query, known))
                ahead = queries = [plain(query) for query in self.strategy.ask(known, n)]
            if not queries or not all(
                0 <= q.fidelity <= self.space.target and self.space.contains(q.x) for q in queries
            ):
                wanted = f"one whose ask gives {n} queries in the space, not {queries}"
                raise SettingError("strategy", type(self.strategy).__name__, wanted)
            return Decision(queries, (time.perf_counter() - started) / len(queries), seen)

        return decide

    def accept(self, decision: Decision, *, capital: float = math.inf, waits: bool = True) -> list[Record]:
        """Make pending what was decided, up to what is not paid for, or ``waits`` and is to be decided later."""
        capital = number("capital", capital) if capital != math.inf else capital
        with self._lock, self._state.restored():
            history = self._history
            for query in decision.queries:
                cost = self.strategy.cost(query, history)
                if not self.affords(cost, capital, history) or (waits and self.strategy.waits(history, cost, capital)):
                    break
                history = history.asked(query, cost, decision_seconds=decision.seconds)
            return self._begin(history, decision.seen)

    def affords(self, cost: float, capital: float, history: History | None = None) -> bool:
        """Whether a capital pays for another cost after a history, this one if not given; see :meth:`ask`."""
        history = self._history if history is None else history
        if self.space.measured and not history.tally.evaluated:  # costs are not known yet
            return history.settled < capital
        return history.spent + cost <= payable(capital)

    def tell(
        self,
        id: int,
        value: Observed | None,
        *,
        evaluation_seconds: float = 0.0,
        cost: float | None = None,
        curve: Given = (),
    ) -> Record:
        """Take in the value of a pending query, or the curve of a training.

        Args:
            id: The number of its record.
            value: The observation, to be maximised; or ``(value, standard error)``, where the standard deviation
                of its noise is known (0: it has none). A value that models cannot use is a failure. Where the space has
                limits, an :class:`~mfbo_torch.Observation`, or a mapping such as ``{"value": 0.9, "latency": 12}``.
                Of several objectives, a mapping of their names to numbers in their own signs.
            evaluation_seconds: Time spent evaluating it.
            cost: That of all its attempts, where costs are measured, or a training ended before its time.
            curve: The values of a training by its steps, ``{1: -2.3, 2: -1.8}`` or pairs, to be maximised. With it
                the value may be ``None``: one that came as far as was asked has its last value, another was stopped.

        Raises:
            SettingError: No such query is pending, or the value, its standard error, an outcome or the curve is wrong.
        """
        points = checked_points(curve)
        with self._lock:
            record = self._pending(id)
            end = next(iter(self.space.fidelity_value(record.query.fidelity).values()), None)
            check_epochs("curve", [step for step, _ in points] if self.space.epochs else (), end)
            value = dict[Any, float](points).get(end) if value is None else value
            if value is None and points:
                reached = record.sunk + cost_at(self.space, points[-1][0], record, self._history)
                own = min(reached, record.cost) if cost is None else cost
                return self.stop(id, points, **self._changes(record, evaluation_seconds, own))
            found = self._parsed(value, record.query.x)
            if (reason := found.unusable(self.space.objectives)) is not None:
                return self.fail(id, reason, evaluation_seconds=evaluation_seconds, cost=cost, curve=points)
            found = found.judged(self.space.outcomes)
            if refusal := self._refusal(record.observed(found)):
                raise refusal
            return self.observe(id, found, **self._changes(record, evaluation_seconds, cost), curve=points)

    def observe(
        self, id: int, observation: Observation, evaluation_seconds: float, cost: float, curve: Points = ()
    ) -> Record:
        """:meth:`tell` of a parsed observation, its outcomes judged, at a known cost; what it refuses is a failure."""
        end = {"evaluation_seconds": evaluation_seconds, "cost": cost, "curve": curve}
        with self._lock:
            pending = self._pending(id)
            record = pending.observed(observation, **end)
            refusal = self._refusal(record)
            return self._end(pending.failed(str(refusal), **end) if refusal else record)

    def _refusal(self, record: Record) -> SettingError | None:
        """That an arm has a reward out of the bounds which rewards are said to have."""
        try:
            if isinstance(self.strategy, ArmStrategy):
                self.strategy.plays(self._history.updated(record))
        except SettingError as error:
            return error
        return None

    def stop(self, id: int, curve: Points, evaluation_seconds: float, cost: float) -> Record:
        """Take in that a training ended before its time: it has a curve and no value."""
        end = {"evaluation_seconds": evaluation_seconds, "cost": cost, "curve": curve}
        reason = f"stopped at step {curve[-1][0]:g}" if curve else "stopped before it reported"
        with self._lock:
            return self._end(self._pending(id).stopped(reason, **end))

    def fail(
        self,
        id: int,
        reason: str | BaseException,
        *,
        evaluation_seconds: float = 0.0,
        cost: float | None = None,
        curve: Points = (),
    ) -> Record:
        """Take in that a pending query has failed, and why, with the curve that it has left; unless ``cost`` is given
        it keeps its cost."""
        with self._lock:
            record = self._pending(id)
            end = self._changes(record, evaluation_seconds, cost) | {"curve": curve}
            return self._end(record.failed(told_reason(reason), **end))

    def retry(self, id: int, reason: str | BaseException, *, cost: float | None = None) -> Record:
        """Take in that a pending query has failed and is tried again. ``cost`` is that of all its attempts, the next
        one included; the same as before if not given."""
        with self._lock:
            record = self._pending(id)
            record = record.retried(told_reason(reason), self._changes(record, 0.0, cost)["cost"])
            self._keep(self._history.updated(record), lambda journal: journal.retried(record))
            return record

    def add(
        self, parameters: Mapping[str, Any], fidelity: Told, value: Observed, standard_error: float | None = None
    ) -> Record:
        """Take in a value that was observed elsewhere; it costs nothing.

        Args:
            parameters: ``{name: value}`` of its design.
            fidelity: Where it was measured: its number, ``0`` the cheapest, or its value by its name, ``{"epochs": 9}``
                (:func:`~mfbo_torch.space.fidelities.level_of`).
            value: The observation, to be maximised; with outcomes where the space has limits, as :meth:`tell` takes it.
            standard_error: The standard deviation of its noise, where that is known.

        Raises:
            SettingError: The parameters, the fidelity, the value or its standard error are none of the space.
        """
        level = level_of(fidelity, self.space.fidelities, self.space.target)
        query = Query(allowed_design(parameters, self.space), level, GIVEN)
        found = parse_finite(self._parsed(value, query.x), self.space.outcomes)
        for one in self.space.objectives:
            if reason := unusable(found.outcomes[one.name].value):
                raise SettingError(one.name, found.outcomes[one.name].value, f"in range: {reason}")
        if standard_error is not None:
            if goals := self.space.objectives:
                wanted = f'given with each objective, as in {{"{goals[0].name}": (0.5, 0.1)}}'
                raise SettingError("standard_error", standard_error, wanted)
            found = replace(found, standard_error=standard_error)
        with self._lock:
            history = self._history.asked(query, 0.0)
            record = history.records[-1].observed(found)
            self._keep(history.updated(record), lambda journal: journal.given([record]))
            return record

    def enqueue(self, parameters: Mapping[str, Any], fidelity: Told | None = None) -> Record:
        """Query a design ``{name: value}`` next, at a fidelity as :meth:`add` takes it or the strategy chooses it.

        The query is pending, and its cost spent, from now on; :meth:`ask` returns it. A :class:`SettingError` is raised
        for parameters or a fidelity that are none of the space, or a design that its constraints exclude.
        """
        x = allowed_design(parameters, self.space)
        with self._lock:
            if fidelity is None:
                with self._state.restored():
                    fidelity = self.strategy.fidelity_at(x, self._history)
            query = Query(x, level_of(fidelity, self.space.fidelities, self.space.target), ENQUEUED)
            [record] = self._begin(self._history.asked(query, self.strategy.cost(query, self._history)))
            self._enqueued.append(record.id)
            return record

    def give(self, records: list[Record]) -> None:
        """Begin with observations from before the run: records that are done, numbered from 0, of this space.

        Raises:
            SettingError: The history has begun already, or a record is not such a one, or has a wrong value or cost.
        """
        for i, record in enumerate(records):
            whole("warm_start", record.id, i, i, wanted=f"numbered from 0; this one comes at {i}")
            if record.status != Status.DONE:
                raise SettingError("warm_start", f"record {i}, {record.status}", "done")
            if reason := unusable(number("warm_start", record.value, wanted=f"a finite value in record {i}")):
                raise SettingError("warm_start", record.value, f"in range in record {i}: {reason}")
            if missing := [limit.name for limit in self.space.outcomes if limit.name not in record.outcomes]:
                raise SettingError("warm_start", f"record {i}", f"measured with its {missing[0]}")
            for name in ("cost", "decision_seconds", "evaluation_seconds"):
                number("warm_start", getattr(record, name), 0.0, wanted=f"a finite {name} from 0 on in record {i}")
        check_history(records, self.space, "warm_start")
        with self._lock:
            if len(self._history):
                raise SettingError("warm_start", f"{len(records)} observations", "given before the first query")
            self._keep(History(records), lambda journal: journal.given(records))

    def recommend(self) -> Record | Recommendation | None:
        """What the strategy recommends, ``None`` while there is nothing.

        The best observation at the target; a :class:`~mfbo_torch.Recommendation` where values are noisy (the observed
        design with the largest posterior mean) or queries are averages (the input with the largest one).
        """
        with self._state.restored():
            return self.strategy.recommend(self._history)

    def explain(self, query: Record | Query | int) -> str:
        """Why a query was made: which model proposed it, what it expected, why at this fidelity, and what came of it;
        read off the history, also of a run that has ended. Values are in the sign of the problem, where one was given.

        Args:
            query: Its record, its number, or the query itself, of which the last one is meant.

        Raises:
            SettingError: No such query is in the history.
        """
        if isinstance(query, Query):
            found = next((r for r in reversed(self._history.records) if r.query == query), None)
            if found is None:
                raise SettingError("query", query, "one of the history")
        else:
            found = self._numbered(query.id if isinstance(query, Record) else query)
        return str(Explanation(found, self._history, self.space, self._signed))

    def _parsed(self, value: Observed | None, x: Sequence[float]) -> Observation:
        """What a user tells of a design; several objectives come in their own signs, those that are known need not."""
        objectives = self.space.objectives
        if not objectives:
            return parse(value)
        if isinstance(value, Observation):  # its outcomes count: they have the objectives' own signs
            value = value.outcomes
        if isinstance(value, Mapping):
            value = {**value, **known_values(objectives, self.space.named(x))}
        return parse_several(value, objectives).to_maximize(objectives[0].maximize)

    def _numbered(self, id: int) -> Record:
        last = len(self._history) - 1
        wanted = f"the number of a query ({'none so far' if last < 0 else f'0 to {last}'})"
        return self._history.records[whole("id", id, 0, last, wanted=wanted)]

    def _pending(self, id: int) -> Record:
        record = self._numbered(id)
        if record.status != Status.PENDING:
            raise SettingError("id", id, f"a pending query; this one is {record.status}")
        return record

    @staticmethod
    def _changes(record: Record, evaluation_seconds: float, cost: float | None) -> dict[str, float]:
        seconds = number("evaluation_seconds", evaluation_seconds, 0, below=LARGEST)
        cost = number("cost", record.cost if cost is None else cost, record.sunk, below=LARGEST)
        return {"evaluation_seconds": seconds, "cost": cost}

    def _begin(self, history: History, seen: int | None = None) -> list[Record]:
        """Make pending the queries that a history has beyond the present one."""
        if queried := list(history.records[len(self._history) :]):
            self._keep(history, lambda journal: journal.asked(queried, seen))
            for record in queried:
                self.callbacks.query(record, self._history)
        return queried

    def _end(self, record: Record) -> Record:
        self._keep(self._history.updated(record), lambda journal: journal.ended(record))
        self.callbacks.result(record, self._history)
        return record

    def _keep(self, history: History, write: Callable[[Journal], None]) -> None:
        """Replace the history once the journal is written; after any error the journal counts."""
        try:
            if self.journal is not None:
                write(self.journal)
            self._history = history
        except BaseException:
            if self.journal is not None:
                self._history = stored_history(self.journal, self.space)
            raise
