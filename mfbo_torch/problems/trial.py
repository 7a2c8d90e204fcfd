"""What an objective knows of its evaluation: its number, a folder that survives, the training it goes on from."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple, Self

from mfbo_torch.space.fidelities import Value
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import content
from mfbo_torch.utils.validation import number, whole

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


class Span(NamedTuple):
    """The epochs of a trial: how many were trained before, and after how many it ends; ``known`` where the run says
    that its fidelities are epochs, and not the objective alone, by a loop over :meth:`Trial.epochs`; ``told`` where
    each is reported."""

    begun: int
    end: int
    known: bool = True
    told: bool = True


class Trial:
    """One evaluation, as its objective sees it where it has an argument ``trial``.

    Args:
        number: The number of its query.
        folder: Where to keep what is to survive; the same one for a training at all its fidelities.
        below: The training that it goes on from, ``None`` where it begins.
        maximize: Whether larger values are better.
        span: Its epochs, where fidelities are numbers of them.
    """

    def __init__(
        self,
        number: int,
        folder: Path,
        below: PreviousTraining | None = None,
        maximize: bool = True,
        span: Span | None = None,
    ) -> None:
        self.number, self.folder, self.below, self.maximize, self.span = number, folder, below, maximize, span
        self.stopped: float | None = None
        """The step at which :meth:`should_stop` has said so."""
        self.epoch: int | None = None
        """The epoch that :meth:`epochs` is in, or was in last."""
        self.waits: Callable[[], Self | None] | None = None
        """Called at a pause: gives the trial that this one goes on as, ``None`` where it does not."""
        self.curve: dict[float, float] = {}
        """What was reported, by step; what an attempt that was killed had reported too, where there is a checkpoint."""
        self._left = False
        self._last: float | None = None
        if span is not None and saved(folder):
            self.curve = dict(reports(folder, number))

    def open(self) -> None:
        """Make the folder; a ``SettingError`` where the training that this one goes on from has left none."""
        if self.below is not None and not self.folder.is_dir():
            wanted = "there, as the training at a lower fidelity left it; with an empty one there it begins anew"
            raise SettingError("trial.folder", str(self.folder), wanted)
        self.folder.mkdir(parents=True, exist_ok=True)

    def epochs(self, done: int | None = None) -> Iterator[int]:
        """The epochs still to train, counted from 1, in each of which :meth:`report` gives the value.

        They end where the training is to pause. One that goes on later begins after the last epoch that was reported,
        where its :attr:`folder` holds a checkpoint: save it, then report. One without a checkpoint waits here, in a
        thread of this process, or begins anew (:mod:`~mfbo_torch.loop.waiting_trainings`).

        Args:
            done: Number of epochs in the checkpoint, where that is not written in every one, or may be ahead of the
                last report after a kill. The last epoch is given again where it was saved and not reported.

        Raises:
            SettingError: The fidelities are no numbers of epochs, or ``done`` is none of those before the end.
        """
        if self.span is None:
            raise SettingError("trial.epochs", "called", "called where fidelities are epochs: Space(..., epochs=27)")
        span = self.span
        epoch = max(span.begun, self.epoch or 0)
        if done is not None:
            last = span.end if span.end in self.curve else span.end - 1
            epoch = min(whole("done", done, 0, span.end), last)
        while True:
            while epoch < span.end and self.stopped is None:
                self.epoch, self._left = epoch + 1, True
                yield epoch + 1
                epoch, self._left = epoch + 1, False
            going = None if self.waits is None or self.stopped is not None else self.waits()
            if going is None or going.span is None:
                return
            self.number, self.below, self.span, self.curve = going.number, going.below, going.span, {}
            span = going.span

    @property
    def end_value(self) -> float | None:
        """The value reported after the last epoch, where steps are epochs."""
        return None if (span := self._counted) is None else self.curve.get(span.end)

    @property
    def _counted(self) -> Span | None:
        """The epochs where steps are epochs: the run says so, or the objective is in a loop over them."""
        return self.span if self.span is not None and (self.span.known or self.epoch is not None) else None

    @property
    def failed_at(self) -> float | None:
        """The epoch in which the evaluation has failed: that of the loop, else the one after the last report; the first
        one where each is reported and none was; ``None`` where nothing tells."""
        span = self.span
        if self.epoch is not None or span is None or not span.known:
            return self.epoch
        last = max(map(int, self.curve), default=span.begun if span.told else None)
        return None if last is None else min(last + 1, span.end)

    @property
    def cut_short(self) -> float | None:
        """The step at which it was stopped before its time: :meth:`should_stop` said so, or the loop over its epochs
        was left in one before the value of the last; ``None`` where it was not."""
        left = self._left and self.span is not None and max(self.curve, default=0.0) < self.span.end
        return self.epoch if self.stopped is None and left else self.stopped

    def report(self, step: float | None = None, value: float | None = None) -> None:
        """Store an intermediate value, such as the loss after an epoch; it is on disk when this returns.

        ``report(step, value)``, or in a loop over :meth:`epochs` just ``report(value)``. A ``SettingError`` where one
        of them is missing or not finite, or the step is none of the epochs.
        """
        if value is None or step is None:
            value = step if value is None else value
            if (step := self.epoch) is None:
                raise SettingError("trial.report", value, "given as report(step, value) outside of trial.epochs()")
        step, value = number("trial.report's step", step), number("trial.report's value", value)
        span = self._counted
        if span is not None and not (step == round(step) and 1 <= step <= span.end):
            wanted = f"an epoch, 1 to {span.end}, as in report(step, value) or in trial.epochs() report(value)"
            raise SettingError("trial.report's step", step, wanted)
        with open(self.folder / REPORTS, "a", encoding="utf-8", opener=_no_link) as file:
            # one write: a line is there or it is not
            file.write(f"{self.number},{step!r},{value!r}\n")
            file.flush()
            os.fsync(file.fileno())
        self._last, self.curve[step] = step, value

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
    """Open a file of a trial's folder, neither a link nor a pipe, which would wait for a reader."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)


def saved(folder: Path) -> bool:
    """Whether a training has left something in its folder beside its reports: a checkpoint."""
    with suppress(OSError), os.scandir(folder) as entries:
        return any(entry.name != REPORTS for entry in entries)
    return False


def reports(folder: Path, number: int | None = None) -> Iterator[tuple[float, float]]:
    """The steps and values that the trainings in a folder have reported, or that with a number alone; a line that no
    report has written is passed over, and a file that is none is empty."""
    try:
        lines = content(folder / REPORTS).decode(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        parts = line.split(",")
        with suppress(ValueError, IndexError):
            step, value = float(parts[1]), float(parts[2])
            if math.isfinite(step) and math.isfinite(value) and (number is None or int(parts[0]) == number):
                yield step, value
