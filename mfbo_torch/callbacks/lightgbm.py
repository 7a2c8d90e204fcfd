"""LightGBM: ``lightgbm.train(..., callbacks=[LightGBMCallback(trial, "valid-l2")])``."""

from __future__ import annotations

from lightgbm.callback import CallbackEnv, EarlyStopException

from mfbo_torch.callbacks.epochs import Epochs, FromCheckpoint
from mfbo_torch.problems.trial import Trial
from mfbo_torch.utils.validation import whole


class LightGBMCallback(FromCheckpoint):
    """Saves and reports each epoch, which is a number of boosting rounds, and stops where the training is to pause.

    Give what was saved back with ``lightgbm.train(..., init_model=callback.checkpoint)``, and let
    ``num_boost_round`` be ``rounds`` times as many as the space has epochs.

    Args:
        trial: The trial of the objective.
        monitor: The value that is reported, ``"DATA-METRIC"`` by the names in ``valid_names`` and in ``metric``.
        rounds: The number of boosting rounds in an epoch.
    """

    order = 40
    """LightGBM calls it after those that record, and after early stopping."""

    def __init__(self, trial: Trial, monitor: str, rounds: int = 1) -> None:
        self.epochs, self.rounds = Epochs(trial, monitor, "lightgbm.txt"), whole("rounds", rounds)

    def __call__(self, env: CallbackEnv) -> None:
        """At the end of an epoch save, report, and stop at a pause."""
        self.epochs.goes_on("init_model", env.begin_iteration)
        measured = env.evaluation_result_list or []
        if (env.iteration + 1 - env.begin_iteration) % self.rounds:
            return
        value = self.epochs.value({f"{data}-{name}": value for data, name, value, *_ in measured})
        self.epochs.save(env.model.save_model)
        if not self.epochs.ended(value):
            raise EarlyStopException(env.iteration, measured)
