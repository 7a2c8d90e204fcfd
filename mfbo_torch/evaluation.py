"""One evaluation, wherever it runs: it ends with a value or with a reason."""

from __future__ import annotations

import multiprocessing
import threading
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mfbo_torch import checks

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem

FRAMES = 3
"""Lines of a traceback that a failure keeps."""


class Outcome(NamedTuple):
    """What an evaluation came to: a value, with its standard error where that is known, or the reason why not."""

    value: float | None
    reason: str
    seconds: float
    standard_error: float | None = None


def evaluate(problem: Problem, x: Sequence[float], fidelity: int, number: int = 0) -> Outcome:
    """Evaluate query ``number`` wherever this runs; never raises for what the objective does."""
    started = time.perf_counter()
    value, reason, error_of_value = None, "", None
    try:
        value, error_of_value = checks.observation("value", problem.observe(x, fidelity, number))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and _meets_the_user():
            raise
        reason = checks.reason(describe(error) + _frames(error))
    return Outcome(value, reason, time.perf_counter() - started, error_of_value)


def describe(error: BaseException) -> str:
    """An exception in one line, ``ExceptionType: message``."""
    try:
        message = " ".join(str(error)[: checks.LONGEST].split())
    except Exception as worse:
        message = f"what it says cannot be read, {type(worse).__name__}"
    return checks.reason(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def _meets_the_user() -> bool:
    """Whether Ctrl-C is for this thread; where it is for another one, an objective has raised it itself."""
    return threading.current_thread() is threading.main_thread() and multiprocessing.parent_process() is None


def _frames(error: BaseException) -> str:
    """The last lines of the traceback, without the two that are always there."""
    frames = traceback.extract_tb(error.__traceback__)[2:]
    return "".join(f"\n  {f.filename}:{f.lineno} in {f.name}: {f.line}" for f in frames[-FRAMES:])
