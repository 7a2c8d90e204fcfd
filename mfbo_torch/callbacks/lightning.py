"""Lightning: ``Trainer(callbacks=[LightningCallback(trial)])``."""

from __future__ import annotations

import lightning
from lightning.pytorch.callbacks import Callback

from mfbo_torch.callbacks.epochs import Epochs, FromCheckpoint
from mfbo_torch.problems.trial import Trial


class LightningCallback(FromCheckpoint, Callback):
    """Saves and reports each epoch, and stops the trainer where the training is to pause.

    Give what was saved back with ``trainer.fit(model, data, ckpt_path=callback.checkpoint, weights_only=True)``, and
    let ``max_epochs`` be as many as the space has.

    Args:
        trial: The trial of the objective.
        monitor: The metric that is reported, logged in ``validation_step`` or ``training_step``.
    """

    def __init__(self, trial: Trial, monitor: str = "val_loss") -> None:
        self.epochs = Epochs(trial, monitor, "lightning.ckpt")

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Go on from what was saved."""
        self.epochs.goes_on("ckpt_path", trainer.global_step)

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Save, report, and stop at a pause."""
        value = self.epochs.value(trainer.callback_metrics)
        self.epochs.save(trainer.save_checkpoint)
        if not self.epochs.ended(value):
            trainer.should_stop = True
