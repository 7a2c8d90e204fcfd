"""The trials of a run: their folders, the trainings they continue, and their costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mfbo_torch.history import History, Record
from mfbo_torch.history.continuation import Training, lower_training
from mfbo_torch.history.record import Points
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.evaluation import Evaluation, evaluate
from mfbo_torch.loop.waiting_trainings import WaitingTrainings
from mfbo_torch.problems.trial import PreviousTraining, Span, Trial, reports, saved
from mfbo_torch.space.fidelities import Value
from mfbo_torch.utils.files import temporary_folder

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem


@contextmanager
def trials(problem: Problem, folder: Path | None, journal: Journal | None) -> Iterator[Trials]:
    """The trials of a run, in the user's folder, beside the journal, or in a temporary one."""
    with ExitStack() as stack:
        if folder is None and problem.takes_trial:
            beside = journal and journal.path.with_name(f"{journal.path.stem}.trials")
            folder = beside or stack.enter_context(temporary_folder())
        found = Trials(problem, folder)
        stack.callback(found.waiting.close)
        yield found


class Trials:
    """Makes the trials of a run, where its objective takes them; each design has the folder of its first query, each
    training that begins anew its own."""

    def __init__(self, problem: Problem, folder: Path | None) -> None:
        self.problem, self.folder = problem, folder
        self.waiting = WaitingTrainings()
        self._due: dict[int, float] = {}
        self._below: dict[int, Any] = {}

    def of(self, record: Record, history: History) -> Trial | None:
        """The trial of a pending query, its folder made; ``None`` where the objective takes none."""
        if not self.problem.takes_trial or self.folder is None:
            return None
        query, space = record.query, self.problem.space
        anew = bool(space.epochs) and not space.continues
        base, previous = None if anew else lower_training(history, query.x, query.fidelity), None
        if base is not None:
            m, value = base.record.query.fidelity, self.problem.value_of(base.record)
            previous = PreviousTraining(m, self._reached(base), float(value or 0.0))
        first = record.id if anew else next(r.id for r in history if r.query.x == query.x)
        folder = self.folder / f"{first:05d}"
        span = self._span(record, previous, folder)
        if space.continues and not space.measured and base is not None:
            self._due[record.id] = space.costs[query.fidelity] - self._paid(base)
            self._below[record.id] = previous and previous.at
        trial = Trial(record.id, folder, previous, self.problem.maximize, span)
        trial.open()
        return trial

    def evaluate(self, *attempt: Any) -> Evaluation:
        """The end of an attempt in this process, at the next pause where it is a training that may wait there."""
        trial = attempt[-1]
        if trial is not None and trial.span is not None and self.problem.space.continues:
            return self.waiting.evaluate(*attempt)
        return evaluate(*attempt)

    def _span(self, record: Record, previous: PreviousTraining | None, folder: Path) -> Span | None:
        """The epochs of a trial, ``None`` where its fidelities are no numbers of them.

        It begins where the checkpoint of its folder is: after what it had reported itself before it was ended, or after
        the training below. Without one, and not waiting in this process, it begins anew.
        """
        space = self.problem.space
        known = bool(space.epochs or space.continues)
        end = next(iter(space.fidelity_value(record.query.fidelity).values()), None)
        if not isinstance(end, (int, float)) or end != round(end):
            return None
        mark = 0 if previous is None or not space.continues else int(previous.at)
        if folder in self.waiting:
            return Span(mark, int(end), known)
        own = max((int(step) for step, _ in reports(folder, record.id)), default=0)
        return Span(min(max(mark, own), int(end)) if saved(folder) else 0, int(end), known)

    def _reached(self, base: Training) -> Value:
        """The fidelity value that a training has reached, from its cost: it may have been stopped on the way."""
        space, m = self.problem.space, base.record.query.fidelity
        at, named = next(iter(space.fidelity_value(m).values()), m), space.fidelities
        if isinstance(at, str) or named is None or named.costs is None or space.measured or not space.continues:
            return at
        reached = float(np.interp(self._paid(base), [0.0, *space.costs], [0.0, *named.costs]))
        return at if math.isclose(reached, at) else round(reached) if math.isclose(reached, round(reached)) else reached

    def _paid(self, base: Training) -> float:
        """What a training has cost up to where it is: what it repeated, for want of a checkpoint, counts once."""
        return min(base.paid, self.problem.space.costs[base.record.query.fidelity])

    def ready(self, waiting: list[Record], flying: list[Record]) -> Record | None:
        """The first of some queries that may be evaluated beside others: one at a time in a folder."""
        busy = {record.query.x for record in flying} if self.problem.takes_trial else set()
        return next((record for record in waiting if record.query.x not in busy), None)

    def cost(self, record: Record, seconds: float, stopped: float | None, curve: Points = ()) -> float:
        """The cost of an attempt: less than the record's if it continues a training or ended at step ``stopped``; all
        that was trained where it repeated what had been trained below."""
        space = self.problem.space
        if space.measured:
            return seconds
        due, below = self._due.get(record.id, record.cost - record.sunk), self._below.get(record.id)
        if curve and isinstance(below, (int, float)) and curve[0][0] <= below:
            due = space.costs[record.query.fidelity]
        named = space.fidelities
        if stopped is None or named is None or named.costs is None:
            return due
        reached = float(np.interp(stopped, [0.0, *named.costs], [0.0, *space.costs]))
        return min(max(due - (space.costs[record.query.fidelity] - reached), 0.0), due)
