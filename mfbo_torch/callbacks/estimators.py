"""Estimators of scikit-learn that learn step by step: by ``partial_fit``, or by ``warm_start`` and a number."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from mfbo_torch.callbacks.epochs import Epochs
from mfbo_torch.problems.trial import Trial
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import replacing
from mfbo_torch.utils.validation import whole

COUNTS = ("n_estimators", "max_iter")
"""What a warm start counts, the first that the estimator has."""


def train(
    estimator: Any, X: Any, y: Any, trial: Trial, value: Callable[[Any], float], *, rounds: int = 1, **fit: Any
) -> Any:
    """Fit an estimator epoch by epoch up to the next pause; the fitted one.

    An epoch is one call of ``partial_fit`` where there is that, else ``rounds`` more of ``n_estimators`` or
    ``max_iter`` with ``warm_start``. The estimator is saved in the trial's folder after each, and goes on from there.

    Args:
        estimator: With ``partial_fit``, or with ``warm_start`` and ``n_estimators`` or ``max_iter``.
        X: Features.
        y: What is to be predicted.
        trial: The trial of the objective.
        value: What is reported of the fitted estimator, such as its loss on data held out.
        rounds: How many ``n_estimators`` or ``max_iter`` are in an epoch.
        **fit: More for ``partial_fit`` or ``fit``, such as ``classes``.

    Raises:
        SettingError: The estimator has neither.
    """
    epochs = Epochs(trial, "value", "estimator.pickle")
    if epochs.checkpoint is not None:
        estimator = pickle.loads(epochs.checkpoint.read_bytes())
    count = next((name for name in COUNTS if name in estimator.get_params()), None)
    partial = hasattr(estimator, "partial_fit")
    if not partial and (count is None or "warm_start" not in estimator.get_params()):
        wanted = f"one with partial_fit, or with warm_start and {' or '.join(COUNTS)}"
        raise SettingError("estimator", type(estimator).__name__, wanted)
    epoch, more = epochs.begun, True
    while more:
        epoch += 1
        if partial:
            estimator.partial_fit(X, y, **fit)
        else:
            estimator.set_params(warm_start=True, **{str(count): epoch * whole("rounds", rounds)}).fit(X, y, **fit)
        with replacing(epochs.path) as file:
            pickle.dump(estimator, file)
        more = epochs.ended(value(estimator))
    return estimator
