"""Callbacks of a run: what they are told, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mfbo_torch.history import History, Record
from mfbo_torch.space import Space
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.output_streams import logger
from mfbo_torch.utils.validation import describe

LOG = logger(__name__)
NAMES = ("on_query", "on_result", "on_end")


@dataclass(frozen=True)
class Event:
    """A query and what has come of it, in the user's own sign and units.

    Attributes:
        number: Number of the query, counted from 0.
        parameters: Its design by name.
        fidelity: Its fidelity: the value where fidelities have a name, else the number.
        at_target: Whether that is the target.
        value: The objective's value; ``None`` while it is not known, and where there is none.
        outcomes: What was measured beside the value, by name.
        status: ``"pending"``, ``"done"``, ``"failed"``, or ``"stopped"`` where a training ended early.
        reason: Why it failed.
        cost: Its cost.
        seconds: Time of its evaluation.
        spent: The capital spent so far.
        best: The best value at the target so far.
    """

    number: int
    parameters: dict[str, Any]
    fidelity: Any
    at_target: bool
    value: float | None
    outcomes: dict[str, float]
    status: str
    reason: str
    cost: float
    seconds: float
    spent: float
    best: float | None


@dataclass(frozen=True)
class End:
    """The end of a run: its best value and the parameters of that, both ``None`` where there is none, the capital
    spent, the number of queries, whether it came to its end, and what ended it early, if anything has."""

    best: float | None
    parameters: dict[str, Any] | None
    spent: float
    queries: int
    finished: bool
    stopped: str = ""
    history: History = field(default_factory=History, repr=False, compare=False)


class Callback:
    """What is called during a run: functions that are given, or methods of a subclass.

    ``on_query(event)`` is called once a query is decided and kept, ``on_result(event)`` once its value, or its failure,
    is; ``on_end(end)`` at the end of a run. All are called in the process that decides. What one raises is logged as a
    warning; no value is lost by it.
    """

    def __init__(
        self,
        on_query: Callable[[Event], Any] | None = None,
        on_result: Callable[[Event], Any] | None = None,
        on_end: Callable[[End], Any] | None = None,
    ) -> None:
        given = {"on_query": on_query, "on_result": on_result, "on_end": on_end}
        for name, function in given.items():
            if function is not None and not callable(function):
                raise SettingError(name, function, "a function of one argument, the event")
        self._given = {name: function for name, function in given.items() if function is not None}

    def on_query(self, event: Event) -> None:
        """A query was decided."""
        self._given.get("on_query", _nothing)(event)

    def on_result(self, event: Event) -> None:
        """A query has a value, or has failed."""
        self._given.get("on_result", _nothing)(event)

    def on_end(self, end: End) -> None:
        """The run is over."""
        self._given.get("on_end", _nothing)(end)


class Callbacks:
    """Those of one run: events are made for them, and what they raise is logged.

    Args:
        callbacks: Each with one of the three methods at least; a ``SettingError`` else.
        space: The space of the run.
        signed: Turns a stored value into the user's own sign.
    """

    def __init__(self, callbacks: Sequence[Any], space: Space, signed: Callable[[float], float]) -> None:
        if not isinstance(callbacks, Sequence):
            raise SettingError("callbacks", callbacks, "a list of callbacks, as in [Callback(on_result=print)]")
        for callback in callbacks:
            if not any(callable(getattr(callback, name, None)) for name in NAMES):
                wanted = f"a callback with {', '.join(NAMES)}, as in Callback(on_result=print)"
                raise SettingError("callbacks", callback, wanted)
        self._callbacks, self._space, self._signed = tuple(callbacks), space, signed

    def query(self, record: Record, history: History) -> None:
        """Tell of a query."""
        if self._callbacks:
            self._tell("on_query", self._event(record, history))

    def result(self, record: Record, history: History) -> None:
        """Tell of the end of a query."""
        if self._callbacks:
            self._tell("on_result", self._event(record, history))

    def end(self, history: History, finished: bool, stopped: str = "") -> None:
        """Tell of the end of a run."""
        if self._callbacks:
            best = history.best(self._space.target)
            parameters = None if best is None else self._space.named(best.query.x)
            told = (history.spent, len(history), finished, stopped, history)
            self._tell("on_end", End(self._own(best), parameters, *told))

    def _event(self, record: Record, history: History) -> Event:
        space, query = self._space, record.query
        return Event(
            number=record.id,
            parameters=space.named(query.x),
            fidelity=next(iter(space.fidelity_value(query.fidelity).values()), query.fidelity),
            at_target=query.fidelity == space.target,
            value=self._own(record),
            outcomes={name: outcome.value for name, outcome in record.outcomes.items()},
            status=str(record.status),
            reason=record.reason,
            cost=record.cost,
            seconds=record.evaluation_seconds,
            spent=history.spent,
            best=self._own(history.best(space.target)),
        )

    def _own(self, record: Record | None) -> float | None:
        return None if record is None or record.value is None else self._signed(record.value)

    def _tell(self, name: str, what: Event | End) -> None:
        for callback in self._callbacks:
            try:
                if (function := getattr(callback, name, None)) is not None:
                    function(what)
            except Exception as error:
                LOG.warning("%s of %s raised %s", name, type(callback).__name__, describe(error))


def _nothing(_: Any) -> None:
    pass
