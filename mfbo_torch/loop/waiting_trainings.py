"""Trainings without checkpoints: at a pause each waits in a thread of this process until it goes on."""

from __future__ import annotations

import time
from contextvars import copy_context
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from mfbo_torch.history.observation import parse, unusable
from mfbo_torch.history.storage.captured_output import taken
from mfbo_torch.loop.evaluation import Evaluation, evaluate
from mfbo_torch.problems.trial import Trial, saved
from mfbo_torch.utils.global_state import GlobalState

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem

PATIENCE = 1.0
"""Seconds that the end of a run waits for what an objective does after its last epoch."""


class WaitingTrainings:
    """Evaluates trainings one at a time, each in a thread of its own, which lives on while the training pauses.

    Only one of the threads runs at any time. A training that has left a checkpoint in its folder does not wait.
    """

    def __init__(self) -> None:
        self._waiting: dict[Path, _Training] = {}

    def __contains__(self, folder: Path) -> bool:
        return folder in self._waiting

    def evaluate(self, problem: Problem, x: tuple[float, ...], fidelity: int, number: int, trial: Trial) -> Evaluation:
        """:func:`~mfbo_torch.loop.evaluation.evaluate`, up to the next pause."""
        training = self._waiting.pop(trial.folder, None)
        if training is not None and not training.goes_on_as(trial):
            training.drop()
            training, trial.span = None, trial.span and trial.span._replace(begun=0)  # there is no checkpoint
        if training is None:
            training = _Training(problem, x, fidelity, number, trial)
        ended = training.until_it_pauses(trial)
        if ended is None:
            self._waiting[trial.folder] = training
            return training.paused(time.perf_counter())
        return ended

    def close(self) -> None:
        """Let the objectives that wait return."""
        for training in self._waiting.values():
            training.drop()
        self._waiting.clear()


class _Training:
    """A thread with an objective."""

    def __init__(self, problem: Problem, x: tuple[float, ...], fidelity: int, number: int, trial: Trial) -> None:
        self.problem, self.trial, self.started, self.printed = problem, trial, 0.0, ""
        self.begun = False
        self.going: SimpleQueue[Trial | None] = SimpleQueue()
        self.ended: SimpleQueue[Evaluation | None] = SimpleQueue()
        trial.waits = self.pause
        run = partial(copy_context().run, self._run, GlobalState(), x, fidelity, number)
        self.thread = Thread(target=run, name=f"mfbo-training-{number}", daemon=True)

    def _run(self, state: GlobalState, x: tuple[float, ...], fidelity: int, number: int) -> None:
        state.enter_thread()
        self.ended.put(evaluate(self.problem, x, fidelity, number, self.trial))

    def pause(self) -> Trial | None:
        """Called in the thread, at the last epoch of its trial."""
        last = self.trial.end_value
        target = self.problem.space.fidelity_value(self.problem.space.target)
        at_end = self.trial.span is not None and self.trial.span.end in target.values()
        more = self.problem.space.limits or self.problem.space.objectives  # than the value that was reported
        if at_end or last is None or unusable(last) or more or saved(self.trial.folder):
            return None
        self.printed = taken()
        self.ended.put(None)
        return self.going.get()

    def goes_on_as(self, trial: Trial) -> bool:
        """Whether a trial begins where this one pauses."""
        return self.trial.span is not None and trial.span is not None and trial.span.begun == self.trial.span.end

    def until_it_pauses(self, trial: Trial) -> Evaluation | None:
        """The end of the evaluation, ``None`` at a pause."""
        self.started = time.perf_counter()
        if self.begun:
            self.going.put(trial)
        else:
            self.begun = True
            self.thread.start()
        return self.ended.get()

    def paused(self, now: float) -> Evaluation:
        """What is known at a pause."""
        value = self.trial.curve[max(self.trial.curve)]
        found = parse(value).to_maximize(self.problem.maximize)
        return Evaluation(found, "", now - self.started, output=self.printed).of(self.trial)

    def drop(self) -> None:
        self.going.put(None)
        self.thread.join(PATIENCE)
