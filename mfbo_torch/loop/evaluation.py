"""One evaluation, wherever it runs: it ends with a value or with a reason."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mfbo_torch.history import Observed
from mfbo_torch.history.observation import Observation, outcomes_of
from mfbo_torch.problems.trial import Trial
from mfbo_torch.utils import validation
from mfbo_torch.utils.errors import EvaluationError

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem

FRAMES = 3
"""Lines of a traceback that a failure keeps."""


class Outcome(NamedTuple):
    """What an evaluation came to: a value, with its standard error and outcomes where there are, or why not.

    ``raised`` tells a reason that is the objective's own exception from one that its worker had; ``stopped`` is the
    step at which a trial was found hopeless.
    """

    value: float | None
    reason: str
    seconds: float
    standard_error: float | None = None
    raised: bool = False
    stopped: float | None = None
    outcomes: Mapping[str, Any] | None = None

    @property
    def observed(self) -> Observed:
        """The value as an optimiser is told it."""
        if self.value is None:
            raise ValueError("value: must be there")
        if self.outcomes is not None:
            return Observation(self.value, self.standard_error, self.outcomes)
        return self.value if self.standard_error is None else (self.value, self.standard_error)


def evaluate(
    problem: Problem, x: Sequence[float], fidelity: int, number: int = 0, trial: Trial | None = None
) -> Outcome:
    """Evaluate query ``number`` wherever this runs; never raises for what the objective does."""
    started, this = time.perf_counter(), os.getpid()
    value, reason, error_of_value, outcomes = None, "", None, None
    try:
        found = problem.observe(x, fidelity, number) if trial is None else problem.attempt(x, fidelity, trial)
        outcomes_of(found, problem.space.limits)
        value, error_of_value = validation.observation("value", found)
        outcomes = getattr(found, "outcomes", None)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and os.getpid() == this and _meets_the_user():
            raise
        reason = validation.reason(_told(error))
    if os.getpid() != this:  # a copy that the objective has made of this process: nobody waits for what it found
        os._exit(0)
    stopped = None if trial is None else trial.stopped
    return Outcome(value, reason, time.perf_counter() - started, error_of_value, bool(reason), stopped, outcomes)


def _told(error: BaseException) -> str:
    """Why an evaluation failed: one line, and more below it."""
    if isinstance(error, EvaluationError):
        return "\n  ".join([" ".join(str(error).split()), *error.details.splitlines()])
    return describe(error) + _frames(error)


def describe(error: BaseException) -> str:
    """An exception in one line, ``ExceptionType: message``."""
    try:
        message = " ".join(str(error)[: validation.LONGEST].split())
    except Exception as worse:
        message = f"what it says cannot be read, {type(worse).__name__}"
    return validation.reason(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def _meets_the_user() -> bool:
    """Whether Ctrl-C is for this thread; where it is for another one, an objective has raised it itself."""
    return threading.current_thread() is threading.main_thread() and multiprocessing.parent_process() is None


def _frames(error: BaseException) -> str:
    """The last lines of the traceback, without the two that are always there."""
    frames = traceback.extract_tb(error.__traceback__)[2:]
    return "".join(f"\n  {f.filename}:{f.lineno} in {f.name}: {f.line}" for f in frames[-FRAMES:])
