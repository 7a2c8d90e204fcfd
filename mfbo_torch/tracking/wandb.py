"""A run in Weights & Biases."""

from __future__ import annotations

from typing import Any

import wandb

from mfbo_torch.tracking.callback import Callback, End, Event


class WandbLogger(Callback):
    """A run of Weights & Biases with a row for each evaluation, and the best parameters in its summary.

    Args:
        project: The project.
        **settings: Those of ``wandb.init``, such as ``mode="offline"``, ``name`` and ``dir``.
    """

    def __init__(self, project: str = "mfbo_torch", **settings: Any) -> None:
        super().__init__()
        self.run = wandb.init(project=project, **settings)

    def on_result(self, event: Event) -> None:
        told = {"number": event.number, "fidelity": event.fidelity, "value": event.value, "best": event.best}
        told |= {"cost": event.cost, "spent": event.spent, "seconds": event.seconds, "status": event.status}
        named = {f"parameters/{name}": value for name, value in event.parameters.items()}
        named |= {f"outcomes/{name}": value for name, value in event.outcomes.items()}
        self.run.log({name: value for name, value in {**told, **named}.items() if value is not None})

    def on_end(self, end: End) -> None:
        self.run.summary.update({"best": end.best, "best_parameters": end.parameters, "stopped": end.stopped})
        self.run.finish(exit_code=0 if end.finished else 1)
