"""The trials of a run: their folders, the trainings they continue, and their costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mfbo_torch.history import History, Record
from mfbo_torch.history.continuation import Training, lower_training
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.problems.trial import PreviousTraining, Trial
from mfbo_torch.space.fidelities import Value
from mfbo_torch.utils.files import temporary_folder

if TYPE_CHECKING:
    from mfbo_torch.problems.base import Problem


@contextmanager
def trials_folder(problem: Problem, folder: Path | None, journal: Journal | None) -> Iterator[Path | None]:
    """The folder of the trials' folders: the user's, beside the journal, or temporary; ``None`` without trials."""
    if folder is not None or not problem.takes_trial:
        yield folder
    elif journal is not None:
        yield journal.path.with_name(f"{journal.path.stem}.trials")
    else:
        with temporary_folder() as made:
            yield made


class Trials:
    """Makes the trials of a run, where its objective takes them; each design has the folder of its first query."""

    def __init__(self, problem: Problem, folder: Path | None) -> None:
        self.problem, self.folder = problem, folder
        self._due: dict[int, float] = {}

    def of(self, record: Record, history: History) -> Trial | None:
        """The trial of a pending query, its folder made; ``None`` where the objective takes none."""
        if not self.problem.takes_trial or self.folder is None:
            return None
        query, space = record.query, self.problem.space
        base, previous = lower_training(history, query.x, query.fidelity), None
        if base is not None:
            m, value = base.record.query.fidelity, self.problem.value_of(base.record)
            previous = PreviousTraining(m, self._reached(base), float(value or 0.0))
        if space.continues and not space.measured and base is not None:
            self._due[record.id] = space.costs[query.fidelity] - base.paid
        first = next(r.id for r in history if r.query.x == query.x)
        trial = Trial(record.id, self.folder / f"{first:05d}", previous, self.problem.maximize)
        trial.open()
        return trial

    def _reached(self, base: Training) -> Value:
        """The fidelity value that a training has reached, from its cost: it may have been stopped on the way."""
        space, m = self.problem.space, base.record.query.fidelity
        at, named = next(iter(space.fidelity_value(m).values()), m), space.fidelities
        if isinstance(at, str) or named is None or named.costs is None or space.measured or not space.continues:
            return at
        reached = float(np.interp(base.paid, [0.0, *space.costs], [0.0, *named.costs]))
        return at if math.isclose(reached, at) else round(reached) if math.isclose(reached, round(reached)) else reached

    def ready(self, waiting: list[Record], flying: list[Record]) -> Record | None:
        """The first of some queries that may be evaluated beside others: one at a time in a folder."""
        busy = {record.query.x for record in flying} if self.problem.takes_trial else set()
        return next((record for record in waiting if record.query.x not in busy), None)

    def cost(self, record: Record, seconds: float, stopped: float | None) -> float:
        """The cost of an attempt: less than the record's if it continues a training or ended at step ``stopped``."""
        space = self.problem.space
        if space.measured:
            return seconds
        due = min(self._due.get(record.id, record.cost), record.cost - record.sunk)
        named = space.fidelities
        if stopped is None or named is None or named.costs is None:
            return due
        reached = float(np.interp(stopped, [0.0, *named.costs], [0.0, *space.costs]))
        return min(max(due - (space.costs[record.query.fidelity] - reached), 0.0), due)
