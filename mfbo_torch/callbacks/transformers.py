"""Hugging Face transformers: ``Trainer(..., callbacks=[TransformersCallback(trial)])``."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from mfbo_torch.callbacks.epochs import Epochs
from mfbo_torch.problems.trial import Trial


class TransformersCallback(TrainerCallback):
    """Reports each evaluation, and stops the trainer where the training is to pause.

    An epoch is what ends with an evaluation and a checkpoint: ``TrainingArguments(callback.folder,
    eval_strategy="epoch", save_strategy="epoch", save_total_limit=1, num_train_epochs=...)``, with as many epochs as
    the space has. Give what was saved back with ``trainer.train(resume_from_checkpoint=callback.checkpoint)``.

    Args:
        trial: The trial of the objective.
        monitor: The metric that is reported.
    """

    def __init__(self, trial: Trial, monitor: str = "eval_loss") -> None:
        self.epochs = Epochs(trial, monitor, "transformers")
        self._value: float | None = None

    @property
    def folder(self) -> str:
        """Where the trainer is to save its checkpoints."""
        return str(self.epochs.path)

    @property
    def checkpoint(self) -> str | None:
        """The folder to go on from, ``None`` where the training begins."""
        found = self.epochs.checkpoint
        return None if found is None else get_last_checkpoint(str(found))

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Go on from what was saved."""
        self.epochs.goes_on("resume_from_checkpoint", state.global_step)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        """Take the value; where nothing will be saved, report it."""
        self._value = self.epochs.value(rest["metrics"])
        if not control.should_save:
            self._report(control)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        """Report what is saved now."""
        self._report(control)

    def _report(self, control: TrainerControl) -> None:
        """Report the value once, and stop at a pause."""
        if self._value is not None and not self.epochs.ended(self._value):
            control.should_training_stop = True
        self._value = None
