"""Choosing among classifiers and their hyper-parameters, on all of the training data or on a share of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import cache, partial
from operator import lt
from typing import Any

from mfbo_torch.problems.bandit.bandit import played
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.noise import generator
from mfbo_torch.space import Parameter, Space, checked_zeta
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number, several

TRAINING, VALIDATION = 1200, 400
ZETA = (0.25, 0.11, 0.0)
"""The largest bias of any of the classifiers at 10 % and 30 %, measured, with some room."""


@cache
def classifiers() -> tuple[Any, ...]:
    """The arms, imported only where they are played."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    return (
        *(KNeighborsClassifier(neighbors) for neighbors in (1, 3, 5, 10)),
        *(SVC(C=C, gamma=gamma) for C in (1.0, 10.0) for gamma in (0.03, 0.1, 0.3)),
        *(LogisticRegression(C=C, max_iter=50) for C in (1.0, 10.0)),
        *(RidgeClassifier(alpha=alpha) for alpha in (0.01, 1.0, 10.0)),
        *(LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage) for shrinkage in (0.01, 0.1, 0.5)),
        *(DecisionTreeClassifier(max_depth=depth, random_state=0) for depth in (4, 8, 16)),
        *(RandomForestClassifier(trees, random_state=0) for trees in (5, 20)),
        *(GaussianNB(var_smoothing=share) for share in (1e-4, 1e-2)),
    )


class ClassifierBandit(Problem):
    """Accuracy of 25 scikit-learn classifiers on handwritten digits; a play trains one of them on a random split.

    The parameter is ``arm``, an index into :attr:`labels`. Query ``t`` splits the 1,797 digits at random, trains on a
    share of 1,200 images and tells the accuracy on 400 others: an average over all splits is what is to be maximised. A
    fidelity is a share of the 1,200. The split is a function of ``(trial, t)``.

    Args:
        shares: Increasing shares of the training data, from 0.05 on, 1 the last.
        zeta: Bounds on what the accuracy at a share misses, decreasing to 0; those measured over 100 splits, rounded
            up, where the shares are the default ones.
        trial: Which stream of splits; a run takes its seed if not given.
        measured: Whether a query costs the seconds it takes; otherwise its share, the smallest being 1.
    """

    def __init__(
        self,
        shares: Sequence[float] = (0.1, 0.3, 1.0),
        zeta: Sequence[float] | None = None,
        trial: int | None = None,
        measured: bool = False,
    ) -> None:
        wanted = "increasing numbers from 0.05 on, the last 1"
        self.shares = several("shares", shares, partial(number, least=0.05), wanted, order=lt)
        if self.shares[-1] != 1:
            raise SettingError("shares", list(shares), wanted)
        if zeta is None and self.shares != (0.1, 0.3, 1.0):
            raise SettingError("zeta", None, f"{len(self.shares)} numbers that decrease to 0 for shares of your own")
        from sklearn.datasets import load_digits

        self.trial = trial
        pixels, self.digits = load_digits(return_X_y=True)
        self.pixels = pixels / 16.0
        costs = tuple(share / self.shares[0] for share in self.shares)
        arm = Parameter("arm", 0, len(classifiers()) - 1, integer=True)
        self.space = Space((arm,), costs, measured, zeta=checked_zeta(ZETA if zeta is None else zeta, len(costs)))
        self.worst = 0.0

    @property
    def labels(self) -> list[str]:
        """The name of each arm."""
        return [" ".join(str(classifier).split()) for classifier in classifiers()]

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        """The accuracy, in ``[0, 1]``, on the first split."""
        return self.observe(x, fidelity, 0)

    def observe(self, x: Sequence[float], fidelity: int, number: int) -> float:
        """The accuracy, in ``[0, 1]``, on the split of query ``number``."""
        from sklearn.base import clone
        from sklearn.exceptions import ConvergenceWarning

        arm, level = played(self, x, fidelity)
        order = generator(self.trial, number).permutation(len(self.digits))
        test = order[:VALIDATION]
        train = order[VALIDATION:][: math.ceil(self.shares[level] * TRAINING)]
        classifier = clone(classifiers()[arm])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            classifier.fit(self.pixels[train], self.digits[train])
        return float((classifier.predict(self.pixels[test]) == self.digits[test]).mean())
