"""Scalars and hyper-parameters in TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from mfbo_torch.tracking.callback import Callback, End, Event


class TensorBoardLogger(Callback):
    """``best``, ``spent``, and ``value`` at each fidelity as scalars over the number of the query; each evaluation with
    its parameters in the tab of hyper-parameters.

    Args:
        folder: Where TensorBoard looks for them, ``tensorboard --logdir FOLDER``.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.writer = SummaryWriter(str(folder))

    def on_result(self, event: Event) -> None:
        scalars = {f"value/fidelity_{event.fidelity}": event.value, "best": event.best, "spent": event.spent}
        scalars |= {f"outcomes/{name}": value for name, value in event.outcomes.items()}
        for name, value in scalars.items():
            if value is not None:
                self.writer.add_scalar(name, value, event.number)
        if event.value is not None:
            named = {name: _plain(value) for name, value in {"fidelity": event.fidelity, **event.parameters}.items()}
            self.writer.add_hparams(named, {"hparam/value": event.value}, run_name=f"evaluation {event.number}")

    def on_end(self, end: End) -> None:
        if end.parameters is not None:
            self.writer.add_text("best parameters", ", ".join(f"{n} = {value}" for n, value in end.parameters.items()))
        self.writer.close()


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)
