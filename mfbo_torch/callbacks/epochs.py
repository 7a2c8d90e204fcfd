"""The epochs of a trial where a library has the loop over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mfbo_torch.problems.trial import Trial
from mfbo_torch.utils.errors import SettingError


class Epochs:
    """Tells a trial the value of each epoch, in the order: train, save, :meth:`ended`.

    Args:
        trial: The trial of an objective, in a space with epochs.
        monitor: The name of the value that is reported, as the library has it.
        checkpoint: What the library saves in the trial's folder: the name of a file or a folder.

    Attributes:
        begun: The number of epochs that are behind the training.
    """

    def __init__(self, trial: Trial, monitor: str, checkpoint: str) -> None:
        if not isinstance(trial, Trial):
            raise SettingError("trial", trial, "the argument trial of the objective, training(parameters, trial)")
        self.trial, self.monitor, self.path = trial, monitor, trial.folder / checkpoint
        self._left = trial.epochs()
        first = next(self._left, None)
        self.begun = first - 1 if first is not None else trial.span.end if trial.span else 0

    @property
    def checkpoint(self) -> Path | None:
        """What was saved after the last epoch, ``None`` where the training begins."""
        return self.path if self.begun and self.path.exists() else None

    def goes_on(self, setting: str, at: float) -> None:
        """Refuse a fit that begins anew, at 0, because the checkpoint was not given back to its library."""
        if self.checkpoint is not None and not at:
            raise SettingError(setting, None, f"the callback's checkpoint: {self.begun} of the epochs are saved")

    def value(self, logs: Mapping[str, Any]) -> float:
        """The value among those that the library has measured."""
        if self.monitor not in logs:
            names = ", ".join(map(str, logs)) or "nothing"
            raise SettingError("monitor", self.monitor, f"one of what was measured after the epoch: {names}")
        return float(logs[self.monitor])

    def save(self, write: Callable[[str], object]) -> None:
        """Let the library write a file; a kill leaves the whole one before it or the whole new one."""
        draft = self.path.with_name(f"draft-{self.path.name}")
        write(str(draft))
        draft.replace(self.path)

    def ended(self, value: float) -> bool:
        """Report the value of an epoch that is saved; whether the next one is to be trained."""
        self.trial.report(value)
        return next(self._left, None) is not None


class FromCheckpoint:
    """A callback whose library is given the file that was saved."""

    epochs: Epochs

    @property
    def checkpoint(self) -> str | None:
        """The file to go on from, ``None`` where the training begins."""
        found = self.epochs.checkpoint
        return None if found is None else str(found)
