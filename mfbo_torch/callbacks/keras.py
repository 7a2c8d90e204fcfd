"""Keras 3: ``model.fit(..., callbacks=[KerasCallback(trial)])``."""

from __future__ import annotations

from typing import Any

import keras

from mfbo_torch.callbacks.epochs import Epochs
from mfbo_torch.problems.trial import Trial


class KerasCallback(keras.callbacks.BackupAndRestore):
    """Saves and reports each epoch, goes on from what was saved, and stops the fit where the training is to pause.

    Let ``epochs`` of the fit be as many as the space has.

    Args:
        trial: The trial of the objective.
        monitor: The value that is reported, as the logs of the fit have it.
    """

    def __init__(self, trial: Trial, monitor: str = "val_loss") -> None:
        self.epochs = Epochs(trial, monitor, "keras")
        super().__init__(str(self.epochs.path), delete_checkpoint=False)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Go on from what was saved."""
        if self.epochs.checkpoint is not None:
            super().on_train_begin(logs)
        self.model._initial_epoch = self.epochs.begun

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Save, report, and stop at a pause."""
        value = self.epochs.value(logs or {})
        super().on_epoch_end(epoch, logs)
        if not self.epochs.ended(value):
            self.model.stop_training = True
