"""What a program is told of a run: callbacks, and loggers of other libraries made of them.

Each logger is in a module of its own, which imports its library:
:class:`~mfbo_torch.tracking.mlflow.MLflowLogger`, :class:`~mfbo_torch.tracking.wandb.WandbLogger` and
:class:`~mfbo_torch.tracking.tensorboard.TensorBoardLogger`.
"""

from mfbo_torch.tracking.callback import Callback, End, Event

__all__ = ["Callback", "End", "Event"]
