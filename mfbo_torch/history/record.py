"""A query with its result, and what a strategy recommends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from mfbo_torch.history.observation import Observation, Outcome, unusable
from mfbo_torch.history.query import ENQUEUED, GIVEN, Query

Points = tuple[tuple[float, float], ...]
"""Steps of a training and the values there, in the order of the steps."""


class Status(StrEnum):
    """The state of a query."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Record:
    """A query and its result.

    Args:
        id: Its number, counted from 0 in the order of queries.
        query: The query.
        cost: Its cost, which counts as spent from the query on.
        value: The observed value, to be maximised; ``None`` until known.
        status: ``"pending"``, ``"done"``, ``"failed"``, or ``"stopped"``: a training that ended before its time, which
            has a curve but no value.
        reason: Why it failed, or why its last attempt did; the first line is enough to show.
        decision_seconds: Time spent deciding it.
        evaluation_seconds: Time spent evaluating it.
        retries: Number of attempts after the first one.
        sunk: The part of ``cost`` that failed attempts have taken.
        standard_error: The standard deviation of the noise in ``value``, in its unit; ``None`` where it is not known.
        outcomes: The outcomes that were measured beside it, where the space has limits.
        curve: The values, to be maximised, that a training has reported, each with its step, such as the epoch.
    """

    id: int
    query: Query
    cost: float
    value: float | None = None
    status: Status = Status.PENDING
    reason: str = ""
    decision_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    retries: int = 0
    sunk: float = 0.0
    standard_error: float | None = None
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    curve: Points = ()

    @property
    def feasible(self) -> bool:
        """Whether every outcome keeps its limit."""
        return all(outcome.met for outcome in self.outcomes.values())

    @property
    def given(self) -> bool:
        """Whether the value was observed elsewhere, at no cost."""
        return self.query.meta.get("stage") == GIVEN["stage"]

    @property
    def decided(self) -> bool:
        """Whether a strategy has decided it."""
        return self.query.meta.get("stage") not in (GIVEN["stage"], ENQUEUED["stage"])

    def done(self, value: float, standard_error: float | None = None, **changes: Any) -> Record:
        """This record with its value; a value that is :func:`~mfbo_torch.history.observation.unusable` is a failure."""
        if (reason := unusable(value)) is not None:
            return self.failed(reason, **changes)
        found, status = float(value), Status.DONE
        return replace(self, value=found, standard_error=standard_error, status=status, reason="", **changes)

    def observed(self, found: Observation, **changes: Any) -> Record:
        """:meth:`done` with an observation whose outcomes are judged."""
        return self.done(found.value, found.standard_error, outcomes=found.outcomes, **changes)

    def failed(self, reason: str, **changes: Any) -> Record:
        """This record as failed: it keeps its cost and has no value."""
        return replace(self, value=None, status=Status.FAILED, reason=reason, **changes)

    def stopped(self, reason: str, **changes: Any) -> Record:
        """This record as that of a training which ended before its time: what it reported is no value at its end."""
        return replace(self, value=None, status=Status.STOPPED, reason=reason, **changes)

    def retried(self, reason: str, cost: float) -> Record:
        """This record after a failed attempt that is tried again; ``cost`` is that of all its attempts."""
        return replace(self, reason=reason, cost=cost, retries=self.retries + 1, sunk=cost - (self.cost - self.sunk))


@dataclass(frozen=True)
class Recommendation:
    """The best by the model: an input, where inputs cannot be queried themselves; a design, where values are noisy.

    Args:
        x: The input or the design, in the user's own units.
        mean: Its posterior mean at the target, without noise, to be maximised.
        deviation: The posterior standard deviation of that.
        noise: The standard deviation of the noise at each fidelity, ``None`` where it is not known; empty for an input.
        best: The best observation at the target, which may have been lucky; ``None`` for an input.
        feasible: The probability that its outcomes keep their limits at the target; ``None`` where there are none.
    """

    x: tuple[float, ...]
    mean: float
    deviation: float
    noise: tuple[float | None, ...] = ()
    best: Record | None = None
    feasible: float | None = None

    @property
    def value(self) -> float:
        """``mean``: what a recommended record calls its value."""
        return self.mean
