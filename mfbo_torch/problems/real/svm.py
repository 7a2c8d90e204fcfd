"""Tuning a support vector machine, on all the data or on a part of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np

from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.real import data as datasets
from mfbo_torch.space import Parameter, Space
from mfbo_torch.utils.validation import one_of, whole

_SIZES = {"digits": (400, 1797), "magic": (500, 2000)}


class SVM(Problem):
    r"""Cross-validated accuracy of a Gaussian-kernel SVM, to be maximised.

    The parameters, both searched on a log scale, are the ``bandwidth`` ``h`` in ``(1e-3, 1e1)`` of the kernel
    :math:`e^{-\|x - x'\|^2 / (2 p h^2)}` on ``p`` standardised features (scikit-learn's ``gamma`` is ``1 / (2 p h^2)``)
    and the soft margin ``C`` in ``(1e-1, 1e5)``. A fidelity is a number of data points: nested subsets in one random
    order, five stratified folds, features standardised on each training fold. The accuracy on few points is too low,
    and most so where kernels are narrow. Deterministic.

    ``data="magic"`` is the problem of [Kandasamy2016mfgpucb] (2,000 points of MAGIC gamma, 500 cheaply); the default
    needs no file: scikit-learn's handwritten digits, 1,797 points and 400 cheaply.

    Costs are nominal, ``(n / n_0)^(5/3)`` for ``n`` points, ``n_0`` the fewest: about what the seconds do. libsvm stops
    after 100,000 iterations a fit, which bounds the seconds at wide kernels with the largest ``C``, where it would not
    converge and the accuracy is poor.

    Args:
        data: ``"digits"``, or ``"magic"`` (see :func:`mfbo_torch.problems.real.data.load`).
        sizes: Increasing numbers of points, from 100 on, the target last; those above by default.
        seed: Seed of the order of the points and of the folds.
        measured: Whether a query costs the seconds it takes.
    """

    max_iterations = 100_000

    def __init__(
        self,
        data: Literal["digits", "magic"] = "digits",
        sizes: Sequence[int] | None = None,
        seed: int = 0,
        measured: bool = False,
    ) -> None:
        if one_of("data", data, _SIZES) == "digits":
            from sklearn.datasets import load_digits

            features, labels = load_digits(return_X_y=True)
        else:
            table = datasets.load("magic")
            features, labels = table[:, :-1], table[:, -1]
        self.sizes = datasets.checked_sizes(_SIZES[data] if sizes is None else sizes, 100, len(labels))
        order = np.random.default_rng(whole("seed", seed, 0)).permutation(len(labels))[: self.sizes[-1]]
        self.features, self.labels, self.seed = features[order], labels[order].astype(int), seed
        parameters = (Parameter("bandwidth", 1e-3, 1e1, log=True), Parameter("C", 1e-1, 1e5, log=True))
        self.space = Space(parameters, tuple((n / self.sizes[0]) ** (5 / 3) for n in self.sizes), measured)
        self.worst = 0.0

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        """The mean accuracy, in ``[0, 1]``, over five folds of the points of ``fidelity``."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.model_selection import StratifiedKFold, cross_val_score
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        (bandwidth, C), level = self.checked(x, fidelity)
        n = self.sizes[level]
        machine = SVC(C=C, gamma=0.5 / (self.features.shape[1] * bandwidth**2), max_iter=self.max_iterations)
        scaled = make_pipeline(StandardScaler(), machine)
        folds = StratifiedKFold(5, shuffle=True, random_state=self.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            scores = cross_val_score(scaled, self.features[:n], self.labels[:n], cv=folds)
        return math.fsum(scores) / len(scores)
