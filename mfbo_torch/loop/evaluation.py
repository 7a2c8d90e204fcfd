"""One evaluation, in this process or in a worker: it ends with an observation or with a reason."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mfbo_torch.history.observation import Observation, parse, within_reach
from mfbo_torch.history.record import Points
from mfbo_torch.history.storage.captured_output import Output, captured
from mfbo_torch.problems.trial import Trial
from mfbo_torch.utils import validation
from mfbo_torch.utils.errors import EvaluationError, SettingError
from mfbo_torch.utils.validation import describe

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem

FRAMES = 3
"""Number of lines of a traceback that the reason of a failure has."""


class Evaluation(NamedTuple):
    """The end of an evaluation: an observation, to be maximised, or the reason why there is none."""

    observation: Observation | None
    reason: str
    seconds: float
    raised: bool = False
    """Whether the reason is an exception of the objective's own, and not one that its worker had."""
    stopped: float | None = None
    """The step at which a training ended before its time."""
    curve: Points = ()
    """What a training has reported, to be maximised."""
    output: str = ""
    """What it has printed."""
    refused: str = ""
    """What the objective should have returned, where a value that it did is what is wrong."""

    @property
    def mistake(self) -> str:
        """What failures have in common that come from the same mistake: the reason without the value of the design."""
        return self.refused or self.reason

    @property
    def given_up(self) -> bool:
        """Whether a training was stopped: it has neither a value nor failed."""
        return self.stopped is not None and self.observation is None and not self.reason

    def of(self, trial: Trial) -> Evaluation:
        """This with what the trial tells: the curve, and where it ended before its time."""
        sign = 1.0 if trial.maximize else -1.0
        curve = tuple((step, sign * within_reach(value)) for step, value in sorted(trial.curve.items()))
        return self._replace(stopped=trial.failed_at if self.reason else trial.cut_short, curve=curve)


def evaluate(
    problem: Problem, x: Sequence[float], fidelity: int, number: int = 0, trial: Trial | None = None
) -> Evaluation:
    """Evaluate query ``number`` here; never raises for what the objective does, except for Ctrl-C."""
    started, this = time.perf_counter(), os.getpid()
    found, reason, raised, printed, refused = None, "", False, Output(), ""
    try:
        with captured() as printed:
            given = problem.observe(x, fidelity, number) if trial is None else problem.attempt(x, fidelity, trial)
        if trial is None or trial.cut_short is None:
            found = parse(given)
            reason = found.unusable(problem.space.objectives) or ""
            found = found if reason else found.judged(problem.space.outcomes)
    except BaseException as error:
        main = threading.current_thread() is threading.main_thread() and multiprocessing.parent_process() is None
        if isinstance(error, KeyboardInterrupt) and os.getpid() == this and main:  # elsewhere the objective raised it
            raise
        reason, raised = validation.reason(_message(error)), True
        refused = f"{error.setting}: {error.allowed}" if isinstance(error, SettingError) else ""
    if os.getpid() != this:  # a copy that the objective has made of this process: nobody waits for what it found
        os._exit(0)
    seconds = time.perf_counter() - started
    ended = Evaluation(None if reason else found, reason, seconds, raised, output=str(printed), refused=refused)
    return ended if trial is None else ended.of(trial)


def _message(error: BaseException) -> str:
    """The reason of a failure: one line, and more below it."""
    if isinstance(error, EvaluationError):
        return "\n  ".join([" ".join(str(error).split()) or type(error).__name__, *error.details.splitlines()])
    frames = traceback.extract_tb(error.__traceback__)[2:]  # the first two are always there
    return describe(error) + "".join(f"\n  {f.filename}:{f.lineno} in {f.name}: {f.line}" for f in frames[-FRAMES:])


def told_reason(reason: Any) -> str:
    """Why a query has failed, as a user says it."""
    if isinstance(reason, BaseException):
        return describe(reason)
    if isinstance(reason, str) and reason.strip():
        return validation.reason(reason)
    raise SettingError("reason", reason, "a text that says why, such as 'out of memory', or the exception")
