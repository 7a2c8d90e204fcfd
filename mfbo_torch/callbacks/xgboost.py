"""XGBoost: ``xgboost.train(..., callbacks=[XGBoostCallback(trial, "valid-rmse")])``."""

from __future__ import annotations

from typing import Any

import xgboost

from mfbo_torch.callbacks.epochs import Epochs, FromCheckpoint
from mfbo_torch.problems.trial import Trial
from mfbo_torch.utils.validation import whole


class XGBoostCallback(FromCheckpoint, xgboost.callback.TrainingCallback):
    """Saves and reports each epoch, which is a number of boosting rounds, and stops where the training is to pause.

    Give what was saved back with ``xgboost.train(..., xgb_model=callback.checkpoint)``, and let ``num_boost_round`` be
    ``rounds`` times as many as the space has epochs.

    Args:
        trial: The trial of the objective.
        monitor: The value that is reported, ``"DATA-METRIC"`` by the names in ``evals`` and in ``eval_metric``.
        rounds: The number of boosting rounds in an epoch.
    """

    def __init__(self, trial: Trial, monitor: str, rounds: int = 1) -> None:
        self.epochs, self.rounds = Epochs(trial, monitor, "xgboost.json"), whole("rounds", rounds)

    def before_training(self, model: Any) -> Any:
        """Go on from what was saved."""
        self.epochs.goes_on("xgb_model", model.num_boosted_rounds())
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: dict[str, dict[str, Any]]) -> bool:
        """At the end of an epoch save, report, and stop at a pause."""
        if model.num_boosted_rounds() % self.rounds:
            return False
        logs = {f"{data}-{name}": values[-1] for data, found in evals_log.items() for name, values in found.items()}
        value = self.epochs.value(logs)
        self.epochs.save(model.save_model)
        return not self.epochs.ended(value)
