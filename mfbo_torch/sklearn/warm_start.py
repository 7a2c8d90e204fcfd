"""Candidates that go on: the fitted estimators of their folds are kept, and trained for what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn import get_config
from sklearn.base import clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model._stochastic_gradient import BaseSGD
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import TargetEncoder

from mfbo_torch.utils.files import replacing

EPOCHS, TOTAL, MORE = "partial_fit", "total", "more"
"""Ways to go on: a call of ``partial_fit`` an epoch; a warm start with a parameter that is the total (``n_estimators``)
or what comes on top (most ``max_iter``)."""
KEPT = 100
"""Most candidates whose estimators are kept, those that were trained last."""


def way(estimator: Any, name: str) -> str | None:
    """How an estimator goes on to more of ``"partial_fit"``, ``"n_estimators"`` or ``"max_iter"``, in a pipeline those
    of its last step; ``None`` where it begins anew.

    It does where a warm start is another training: early stopping forgets its record; stochastic gradients forget how
    small their steps are, if no ``tol=None`` lets ``partial_fit`` stand for an iteration; ``liblinear`` forgets all;
    :class:`~sklearn.preprocessing.TargetEncoder` gives other features once it is fitted.
    """
    step, count = last_step(estimator, name)
    if step is None or any(isinstance(each, TargetEncoder) for each in estimator.get_params().values()):
        return None
    if count == EPOCHS:
        return EPOCHS if hasattr(step, EPOCHS) else None
    given = step.get_params(deep=False)
    stops = given.get("early_stopping", given.get("n_iter_no_change") is not None)
    if "warm_start" not in given or stops is True or given.get("solver") == "liblinear":
        return None
    if isinstance(step, BaseSGD):
        by_epochs = count == "max_iter" and given["tol"] is None and given.get("class_weight") != "balanced"
        return EPOCHS if by_epochs else None
    if isinstance(step, (HistGradientBoostingClassifier, HistGradientBoostingRegressor)) or count == "n_estimators":
        return TOTAL
    return MORE if count == "max_iter" else None


def last_step(estimator: Any, name: str) -> tuple[Any, str]:
    """The estimator, or the last step of a pipeline, that has a parameter, and its name there; else ``None``."""
    step, _, count = name.rpartition("__")
    if not step:
        return estimator, count
    last = isinstance(estimator, Pipeline) and estimator.steps[-1][0] == step and hasattr(estimator[-1], "get_params")
    return estimator[-1] if last else None, count


class Checkpoints:
    """Fitted estimators of candidates, a folder each with a file for every fold.

    Attributes:
        name: The parameter that grows.
        most: All of it; with that nobody goes on.
        level: How much of it is evaluated now.
        folder: Where they are; ``None`` before and after the search, when all begin anew.
    """

    def __init__(self, name: str, most: int) -> None:
        self.name, self.most, self.level = name, most, most
        self.folder: Path | None = None

    def of(self, candidate: Mapping[str, Any]) -> Path | None:
        """The folder of a candidate; ``None`` where it has none, also as its parameters cannot be pickled."""
        key = _key({name: value for name, value in candidate.items() if name != self.name})
        return self.folder / key if self.folder and key else None

    def hold(self, candidate: Mapping[str, Any]) -> bool:
        """Whether a candidate can go on."""
        folder = self.of(candidate)
        return folder is not None and any(folder.glob("*"))

    def trim(self, ended: Iterable[Mapping[str, Any]]) -> None:
        """Remove those of the candidates that have ended, and all but the last :data:`KEPT`."""
        found = [] if self.folder is None else sorted(self.folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for folder in [*found[:-KEPT], *filter(None, map(self.of, ended))]:
            shutil.rmtree(folder, ignore_errors=True)


def _key(given: Any) -> str | None:
    """A name for what is given; ``None`` where it cannot be pickled."""
    with suppress(Exception):  # of whatever kind: it may be anything
        return str(joblib.hash(given))
    return None


class WarmStart:
    """An estimator that goes on where it was fitted before with less of a parameter, all else being equal.

    It may stand for the estimator of a search. ``fit`` makes it the fitted estimator itself, which scorers then see.
    """

    def __init__(self, estimator: Any, checkpoints: Checkpoints) -> None:
        self.estimator, self.checkpoints = estimator, checkpoints
        self.candidate: dict[str, Any] = {}

    def __sklearn_clone__(self) -> WarmStart:
        return WarmStart(clone(self.estimator), self.checkpoints)

    def __sklearn_tags__(self) -> Any:
        return self.estimator.__sklearn_tags__()

    def set_params(self, **candidate: Any) -> WarmStart:
        self.estimator.set_params(**candidate)
        self.candidate = candidate
        return self

    def fit(self, X: Any, y: Any = None, **params: Any) -> WarmStart:
        """Fit up to the level, from where the same candidate was on the same data."""
        fitted, kept, begun = self.estimator, self.checkpoints, 0
        name, level, data = kept.name, kept.level, (X,) if y is None else (X, y)
        step, count = last_step(fitted, name)
        routed = step is not fitted and not all("__" in each for each in params)
        folder = None if routed or way(fitted, name) is None else kept.of(self.candidate)
        key = folder and _key((data, params))
        file = folder / key if folder and key else None
        if file is not None and file.is_file():
            saved = joblib.load(file)
            begun, fitted = saved if saved[0] < level else (0, fitted)
        if begun or count == EPOCHS:
            go_on(fitted, name, begun, level, *data, **params)
        else:
            fitted.fit(*data, **params)
        if file is not None and level < kept.most:
            with suppress(Exception):  # of whatever kind: it cannot be pickled, the folder is on another machine
                file.parent.mkdir(exist_ok=True)
                with replacing(file) as to:
                    joblib.dump((level, fitted), to)
        for own in ("estimator", "checkpoints", "candidate"):
            delattr(self, own)
        vars(self).update(vars(fitted))
        self.__class__ = type(fitted)
        return self


def _classes(estimator: Any, y: np.ndarray) -> Any:
    """What ``partial_fit`` wants to know of the classes, of each output where there are several."""
    if y.ndim == 1 or y.shape[1] == 1:
        return np.unique(y)
    if isinstance(estimator, MultiOutputClassifier):
        return [np.unique(each) for each in y.T]
    return np.arange(y.shape[1])


def _shares(
    step: Any, head: Pipeline | None, prefix: str, method: str, params: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the last step of a pipeline takes of the parameters of a fit, and what the steps before it take: what they
    request where metadata is routed, else by the prefix of the last one."""
    if head is None or not get_config()["enable_metadata_routing"]:
        own = {each.removeprefix(prefix): value for each, value in params.items() if each.startswith(prefix)}
        return own, {each: value for each, value in params.items() if not each.startswith(prefix)}
    asked = (step, method), (head, "fit_transform")
    own, others = ({k: params[k] for k in one.get_metadata_routing().consumes(how, params)} for one, how in asked)
    return own, others


def go_on(estimator: Any, name: str, begun: int, level: int, X: Any, y: Any = None, **params: Any) -> None:
    """Train a fitted estimator, or a new one by ``partial_fit``, up to a level; the former steps of a pipeline stay."""
    how, (step, count) = way(estimator, name), last_step(estimator, name)
    head = estimator[:-1] if step is not estimator and len(estimator) > 1 else None
    own, others = _shares(step, head, name.removesuffix(count), EPOCHS if how == EPOCHS else "fit", params)
    if head is not None:
        X = head.transform(X) if begun else head.fit_transform(X, y, **others)
        estimator.steps[:-1] = head.steps  # with a memory, copies were fitted
    data = (X,) if y is None else (X, y)
    if how == EPOCHS:
        if is_classifier(step):
            own["classes"] = _classes(step, np.asarray(y))
        for _ in range(begun, level):
            step.partial_fit(*data, **own)
        return
    usual = step.get_params(deep=False)["warm_start"]
    step.set_params(warm_start=True, **{count: level if how == TOTAL else level - begun}).fit(*data, **own)
    step.set_params(warm_start=usual, **{count: level})
