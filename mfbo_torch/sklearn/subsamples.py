"""Folds with a part of the training samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


class Subsamples:
    """The folds of a splitter, each with a part of its training samples and the whole of its test samples.

    The part depends on the fold and the seed alone, and a smaller one is within a larger one: candidates are compared
    on the same samples, and fidelities differ by what was left out only. If ``stratified``, each class keeps its share.
    """

    def __init__(self, folds: Any, fraction: float, seed: int, stratified: bool) -> None:
        self.folds, self.fraction, self.seed, self.stratified = folds, fraction, seed, stratified

    def split(self, X: Any, y: Any = None, **params: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The indices of each fold's training and test samples."""
        for i, (given, test) in enumerate(self.folds.split(X, y, **params)):
            train = np.asarray(given)
            train = np.flatnonzero(train) if train.dtype == bool else train
            order = np.random.default_rng((self.seed, i)).permutation(len(train))
            if self.stratified:
                order = _interleaved(order, np.asarray(y)[train].ravel())
            size = max(1, int(self.fraction * len(train)))
            yield train[np.sort(order[:size])], test


def _interleaved(order: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """An order with the classes spread evenly, one of each first."""
    found = np.empty(len(order))
    for each in np.unique(classes):
        (own,) = np.nonzero(classes[order] == each)
        found[own] = np.arange(len(own)) / len(own)
    return order[np.argsort(found, kind="stable")]
