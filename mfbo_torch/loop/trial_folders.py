"""The trials of a run: their folders, the trainings they continue, and their costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mfbo_torch.history import History, Record, Status
from mfbo_torch.history.continuation import Training, lower_training
from mfbo_torch.history.record import Points
from mfbo_torch.history.storage.beside import beside
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.evaluation import Evaluation, evaluate
from mfbo_torch.loop.waiting_trainings import WaitingTrainings
from mfbo_torch.problems.trial import PreviousTraining, Span, Trial, reports, saved
from mfbo_torch.space.fidelities import Value
from mfbo_torch.strategies.common.deduplicate import used_up
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import temporary_folder

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem


@contextmanager
def trials(problem: Problem, folder: Path | None, journal: Journal | None, asked: int) -> Iterator[Trials]:
    """The trials of a run that has asked so many queries, in the user's folder, beside the journal, or in a temporary
    one; a ``SettingError`` where that holds what another run has left."""
    with ExitStack() as stack:
        folder = None if folder is None else Path(folder).absolute()  # the objective may change the current one
        if folder is None and problem.takes_trial:
            folder = beside(journal.path, "trials") if journal else stack.enter_context(temporary_folder())
        if folder is not None and problem.takes_trial:
            _check_own(folder, asked)
        found = Trials(problem, folder)
        stack.callback(found.waiting.close)
        yield found


def _check_own(folder: Path, asked: int) -> None:
    """Refuse a folder with trials that this run has not asked for: their reports would count as its own."""
    for found in sorted(folder.iterdir()) if folder.is_dir() else ():
        if found.name.isdecimal() and int(found.name) >= asked:
            wanted = f"left by this run, which has asked {asked} queries: move {folder} away, or give another journal"
            raise SettingError("trial.folder", str(found), wanted)


class Trials:
    """Makes the trials of a run, where its objective takes them; each design has the folder of its first query, or each
    training that begins anew its own where trainings continue."""

    def __init__(self, problem: Problem, folder: Path | None) -> None:
        self.problem, self.folder = problem, folder
        self.waiting = WaitingTrainings()
        self._due: dict[int, float] = {}
        self._below: dict[int, tuple[Any, bool]] = {}
        self._made: dict[int, Trial] = {}

    def of(self, record: Record, history: History) -> Trial | None:
        """The trial of a pending query, its folder made; ``None`` where the objective takes none."""
        if not self.problem.takes_trial or self.folder is None:
            return None
        query, space = record.query, self.problem.space
        number, base = self._place(record, history)
        previous = None
        if base is not None:
            m, value = base.record.query.fidelity, self.problem.value_of(base.record)
            previous = PreviousTraining(m, self._reached(base), float(value or 0.0))
        folder = self.folder / f"{number:05d}"
        span = self._span(record, previous, folder)
        if space.continues and not space.measured:
            self._due[record.id] = space.costs[query.fidelity] - (0.0 if base is None else self._paid(base))
            self._below[record.id] = previous and previous.at, span is not None and span.begun > 0
        trial = self._made[record.id] = Trial(record.id, folder, previous, self.problem.maximize, span)
        trial.open()
        return trial

    def _place(self, record: Record, history: History) -> tuple[int, Training | None]:
        """The number of the query that has made the folder of a trial, and the training that it goes on from.

        A checkpoint is that of the last query that has trained in its folder. So where one has gone on from there
        already, or begun anew at the design, another one begins anew too, in a folder of its own.
        """
        x, space = record.query.x, self.problem.space
        if space.epochs and not space.continues:
            return record.id, None
        here = [r for r in history if r.query.x == x and r.id <= record.id]
        if not space.continues:
            return here[0].id, lower_training(history, x, record.query.fidelity)
        places, newest = dict[int, int](), dict[int, int]()
        for i, each in enumerate(here):
            base = lower_training(here[:i], x, each.query.fidelity)
            if base is not None and newest[places[base.record.id]] != base.record.id:
                base = None
            place = places[each.id] = each.id if base is None else places[base.record.id]
            if each.curve or (each.status == Status.DONE and each.cost > each.sunk):
                newest[place] = each.id
        return place, base

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
            return Span(mark, int(end), known, bool(space.epochs))
        own = self._last_reported(record, folder)
        return Span(min(max(mark, own), int(end)) if saved(folder) else 0, int(end), known, bool(space.epochs))

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

    def completed(self, record: Record, end: Evaluation) -> Evaluation:
        """The end of a training with what it had reported before its worker was lost, in the epoch after that."""
        trial = self._made.get(record.id)
        if trial is None or trial.span is None or not trial.span.known or end.curve or end.raised:
            return end
        trial.curve, trial.epoch = dict(reports(trial.folder, record.id)), None
        return end.of(trial)

    def all_trained(self, history: History) -> str:
        """The reason to train no more: of few designs each one has come to its last epoch; empty while it has not."""
        space = self.problem.space
        known = space.epochs and space.continues and used_up(space, history.select(Status.DONE), space.target)
        return "every design was trained to its last epoch" if known else ""

    def cost(self, record: Record, seconds: float, stopped: float | None, curve: Points = ()) -> float:
        """The cost of an attempt: less than the record's if it continues a training or ended at step ``stopped``; all
        that was trained where it repeated what had been trained below."""
        space = self.problem.space
        self._made.pop(record.id, None)
        if space.measured:
            return seconds
        due, whole = self._due.get(record.id, record.cost - record.sunk), space.costs[record.query.fidelity]
        below, saved_some = self._below.get(record.id, (None, False))
        if curve and isinstance(below, (int, float)) and curve[0][0] <= below:
            due = whole - (self._cost_of(curve[0][0] - 1) if saved_some else 0.0)
        if stopped is None or space.fidelities is None or space.fidelities.costs is None:
            return due
        return min(max(due - (whole - self._cost_of(stopped)), 0.0), due)

    def kept(self, record: Record) -> float:
        """The cost of what a failed attempt has left in a checkpoint, beyond the training that it went on from: the
        next one begins there."""
        trial = self._made.get(record.id)
        if trial is None or trial.span is None or self.problem.space.measured or not self.problem.space.continues:
            return 0.0
        below, _ = self._below.get(record.id, (None, False))
        own = self._last_reported(record, trial.folder) if saved(trial.folder) else 0
        return max(self._cost_of(own) - self._cost_of(below or 0), 0.0)

    def _last_reported(self, record: Record, folder: Path) -> int:
        return max((int(step) for step, _ in reports(folder, record.id)), default=0)

    def _cost_of(self, step: float) -> float:
        """The cost of a training up to a step; 0 where its fidelities are no numbers."""
        named = self.problem.space.fidelities
        if named is None or named.costs is None:
            return 0.0
        return float(np.interp(step, [0.0, *named.costs], [0.0, *self.problem.space.costs]))
