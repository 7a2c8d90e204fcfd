"""Estimators of scikit-learn that learn step by step: by ``partial_fit``, or by ``warm_start`` and a number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import skops.io
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from mfbo_torch.callbacks.epochs import Epochs
from mfbo_torch.problems.trial import Trial
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import content, replacing
from mfbo_torch.utils.validation import whole

COUNTS = ("n_estimators", "max_iter")
"""What a warm start counts, the first that the estimator has."""


def train(
    estimator: Any, X: Any, y: Any, trial: Trial, value: Callable[[Any], float], *, rounds: int = 1, **fit: Any
) -> Any:
    """Fit an estimator epoch by epoch up to the next pause; the fitted one.

    An epoch is one call of ``partial_fit`` where there is that, else ``rounds`` more of ``n_estimators`` or
    ``max_iter`` with ``warm_start``. The estimator is saved in the trial's folder after each, and goes on from there.
    It is saved by skops, which runs no code of a file: one with other classes than scikit-learn's and those of the
    estimator's own package is refused.

    Args:
        estimator: With ``partial_fit``, or with ``warm_start`` and ``n_estimators`` or ``max_iter``.
        X: Features.
        y: What is to be predicted.
        trial: The trial of the objective.
        value: What is reported of the fitted estimator, such as its loss on data held out.
        rounds: How many ``n_estimators`` or ``max_iter`` are in an epoch.
        **fit: More for ``partial_fit`` or ``fit``, such as ``classes``.

    Raises:
        SettingError: The estimator has neither, or the saved one is none that this function has written.
    """
    epochs = Epochs(trial, "value", "estimator.skops")
    if epochs.checkpoint is not None:
        estimator = _loaded(epochs.checkpoint, type(estimator))
    count = next((name for name in COUNTS if name in estimator.get_params()), None)
    partial = hasattr(estimator, "partial_fit")
    if not partial and (count is None or "warm_start" not in estimator.get_params()):
        wanted = f"one with partial_fit, or with warm_start and {' or '.join(COUNTS)}"
        raise SettingError("estimator", type(estimator).__name__, wanted)
    boosts = isinstance(estimator, (HistGradientBoostingClassifier, HistGradientBoostingRegressor))
    total = count == "n_estimators" or boosts  # other iterations come on top of those before
    epoch, more, rounds = epochs.begun, True, whole("rounds", rounds)
    while more:
        epoch += 1
        if partial:
            estimator.partial_fit(X, y, **fit)
        else:
            number = rounds * (epoch if total else 1)
            estimator.set_params(warm_start=True, **{str(count): number}).fit(X, y, **fit)
        with replacing(epochs.path) as file:
            skops.io.dump(estimator, file)
        more = epochs.ended(value(estimator))
    return estimator


def _loaded(path: Path, kind: type) -> Any:
    """The estimator of a checkpoint."""
    packages = {"sklearn", kind.__module__.partition(".")[0]}
    wanted = f"an estimator that was saved here; to begin anew, remove {path}"
    try:
        saved = content(path)
        own = [name for name in skops.io.get_untrusted_types(data=saved) if name.partition(".")[0] in packages]
        found = skops.io.loads(saved, trusted=own)
    except Exception as error:  # of whatever kind: the file may be anybody's
        raise SettingError("checkpoint", f"{type(error).__name__}: {error}", wanted) from error
    if type(found) is not kind:
        raise SettingError("checkpoint", type(found).__name__, wanted)
    return found
