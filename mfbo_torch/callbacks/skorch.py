"""skorch: ``NeuralNet(..., callbacks=[SkorchCallback(trial)])``."""

from __future__ import annotations

import os
from typing import Any

from skorch import NeuralNet
from skorch.callbacks import Callback

from mfbo_torch.callbacks.epochs import Epochs
from mfbo_torch.problems.trial import Trial

FILES = {"f_params": "net.pt", "f_optimizer": "optimizer.pt", "f_history": "history.json"}


class SkorchCallback(Callback):
    """Saves and reports each epoch, goes on from what was saved, and ends the fit where the training is to pause.

    Let ``max_epochs`` be as many as the space has.

    Args:
        trial: The trial of the objective.
        monitor: The value that is reported, as the net's history has it.
    """

    def __init__(self, trial: Trial, monitor: str = "valid_loss") -> None:
        self.epochs = Epochs(trial, monitor, "skorch")

    def _files(self) -> dict[str, str]:
        return {name: str(self.epochs.path / file) for name, file in FILES.items()}

    def on_train_begin(self, net: NeuralNet, X: Any = None, y: Any = None, **_: Any) -> None:
        """Go on from what was saved."""
        if self.epochs.checkpoint is not None:
            net.load_params(**self._files())

    def on_epoch_end(self, net: NeuralNet, dataset_train: Any = None, dataset_valid: Any = None, **_: Any) -> None:
        """Save, report, and stop at a pause, as a key that interrupts would."""
        value = self.epochs.value(net.history[-1])
        self.epochs.path.mkdir(exist_ok=True)
        drafts = {name: f"{file}.draft" for name, file in self._files().items()}
        net.save_params(**drafts)
        for name, file in self._files().items():
            os.replace(drafts[name], file)
        if not self.epochs.ended(value):
            raise KeyboardInterrupt
