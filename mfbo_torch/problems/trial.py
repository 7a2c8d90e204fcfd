"""What an objective knows of its evaluation: its number, a folder that survives, the training it goes on from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

from mfbo_torch.space.fidelities import Value
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number

REPORTS = "reports.csv"
OTHERS = 5
"""Number of other designs that must have reported as far before a training can be hopeless."""


class PreviousTraining(NamedTuple):
    """The training at the design of a trial that it goes on from: the highest ``fidelity`` below the trial's own,
    ``at`` its value, such as 3 where it is called ``epochs = 3`` (its number without a name), or how far it had come
    where it was stopped before, and the ``value`` that the objective returned."""

    fidelity: int
    at: Value
    value: float


class Trial:
    """One evaluation, as its objective sees it where it has an argument ``trial``.

    Args:
        number: The number of its query.
        folder: Where to keep what is to survive; the same one for a design at all fidelities.
        below: The training that it goes on from, ``None`` where it begins.
        maximize: Whether larger values are better.
    """

    def __init__(self, number: int, folder: Path, below: PreviousTraining | None = None, maximize: bool = True) -> None:
        self.number, self.folder, self.below, self.maximize = number, folder, below, maximize
        self.stopped: float | None = None
        """The step at which :meth:`should_stop` has said so."""
        self._last: float | None = None

    def open(self) -> None:
        """Make the folder; a ``SettingError`` where the training that this one goes on from has left none."""
        if self.below is not None and not self.folder.is_dir():
            wanted = "there, as the training at a lower fidelity left it; an empty one there begins anew, at no cost"
            raise SettingError("trial.folder", str(self.folder), wanted)
        self.folder.mkdir(parents=True, exist_ok=True)

    def report(self, step: float, value: float) -> None:
        """Store an intermediate value, such as the accuracy after an epoch; it is on disk when this returns. A
        ``SettingError`` where step or value is not finite."""
        step, value = number("trial.report's step", step), number("trial.report's value", value)
        with open(self.folder / REPORTS, "a", encoding="utf-8", opener=_no_link) as file:
            # one write: a line is there or it is not
            file.write(f"{self.number},{step!r},{value!r}\n")
            file.flush()
            os.fsync(file.fileno())
        self._last = step

    def should_stop(self) -> bool:
        """Whether this training is hopeless: an objective that asks may return the value it has, and pays for as much.

        The median rule [Golovin2017vizier]_ (Sec. 3.2.1): its best value so far is worse than the median of what the
        other designs had reported by the same step, the best of each, if at least :data:`OTHERS` have come as far. It
        is as good as half of them by chance alone, and needs no curve to be fitted.
        """
        if self._last is None:
            return False
        sign = 1.0 if self.maximize else -1.0
        best: dict[Path, float] = {}
        for folder in self.folder.parent.iterdir():
            found = [*reports(folder)]
            so_far = [sign * value for step, value in found if step <= self._last]
            if so_far and any(step >= self._last for step, _ in found):
                best[folder] = max(so_far)
        own = best.pop(self.folder, None)
        if own is not None and len(best) >= OTHERS and own < median(best.values()):
            self.stopped = self._last
        return self.stopped is not None


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def reports(folder: Path) -> Iterator[tuple[float, float]]:
    """The steps and values that trainings in a folder have reported; a line that is not whole is passed over."""
    try:
        lines = (folder / REPORTS).read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        parts = line.split(",")
        with suppress(ValueError, IndexError):
            yield float(parts[1]), float(parts[2])
