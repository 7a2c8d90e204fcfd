"""Two real tunings, on data that come with scikit-learn. Both are deterministic.

What is maximised is the negative logarithm of the cross entropy of held-out data. Nobody knows the largest value;
``optimum`` is the best that a thousand random designs, and a local search from the best of them, have found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mfbo_torch.problems import Problem
from mfbo_torch.space import Parameter, Space

LARGEST_LOSS = 1e3
"""Of a training that diverges: a long tail, but a finite one."""
CLASSES = 10
Array = NDArray[np.float64]


@cache
def digits() -> tuple[Array, Array, Array, Array]:
    """Features in [0, 1] and labels of 1,200 handwritten digits to train on and of the other 597."""
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(labels))
    features, labels = features[order] / 16, labels[order]
    return features[:1200], labels[:1200], features[1200:], labels[1200:]


def score(loss: float) -> float:
    """What is maximised."""
    return -math.log(min(max(loss, 1e-12), LARGEST_LOSS)) if math.isfinite(loss) else -math.log(LARGEST_LOSS)


def boosted(data: tuple[Array, Array, Array, Array], size: int, **settings: Any) -> float:
    """The score of boosted trees that are fitted to the first ``size`` of some data."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import log_loss
    from threadpoolctl import threadpool_limits

    features, labels, others, truth = data
    model = HistGradientBoostingClassifier(random_state=0, **settings)
    with threadpool_limits(1):
        model.fit(features[:size], labels[:size])
        chances = model.predict_proba(others)
    return score(float(log_loss(truth, chances, labels=model.classes_)))


def trained(layers: Callable[[], Sequence[torch.nn.Module]], descent: Callable[[Any], Any], epochs: int) -> float:
    """The score of a network after some epochs on the digits in batches of 50, by random numbers of its own."""
    features, labels, others, truth = (torch.as_tensor(part) for part in digits())
    features, others = features.float(), others.float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = torch.nn.Sequential(*layers())
        steps = descent(model.parameters())
        for _ in range(epochs):
            for batch in torch.randperm(len(labels)).split(50):
                steps.zero_grad()
                torch.nn.functional.cross_entropy(model(features[batch]), labels[batch]).backward()
                steps.step()
        with torch.no_grad():
            return score(torch.nn.functional.cross_entropy(model.eval()(others), truth).item())


class Trees(Problem):
    """Twelve rounds of ten boosted trees by share of the data: 100, 300 and all 1,200 digits, the target last."""

    sizes = (100, 300, 1200)

    def __init__(self) -> None:
        parameters = (
            Parameter("rate", 0.01, 1.0, log=True),
            Parameter("penalty", 1e-3, 100.0, log=True),
            Parameter("leaves", 2, 32, integer=True),
            Parameter("least", 1, 50, integer=True),
            Parameter("features", 0.1, 1.0),
        )
        self.space = Space(parameters, (1.0, 3.0, 12.0))
        self.optimum = TREES

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        (rate, penalty, leaves, least, share), level = self.checked(x, fidelity)
        return boosted(
            digits(),
            self.sizes[level],
            learning_rate=rate,
            l2_regularization=penalty,
            max_leaf_nodes=round(leaves),
            min_samples_leaf=round(least),
            max_features=share,
            max_iter=12,
            early_stopping=False,
        )


class Network(Problem):
    """A small neural network by epochs: 1, 3, 9 and 27 of them at as many units of cost, the target last.

    64 inputs, one hidden layer, ten classes; stochastic gradient descent with momentum on batches of 50. Large rates
    diverge.
    """

    epochs = (1, 3, 9, 27)

    def __init__(self) -> None:
        parameters = (
            Parameter("rate", 1e-3, 10.0, log=True),
            Parameter("decay", 1e-6, 0.1, log=True),
            Parameter("momentum", 0.0, 0.99),
            Parameter("units", 4, 64, log=True, integer=True),
            Parameter("dropout", 0.0, 0.8),
        )
        self.space = Space(parameters, tuple(map(float, self.epochs)))
        self.optimum = NETWORK

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        (rate, decay, momentum, units, dropout), level = self.checked(x, fidelity)
        hidden = round(units)
        return trained(
            lambda: (
                torch.nn.Linear(64, hidden),
                torch.nn.ReLU(),
                torch.nn.Dropout(dropout),
                torch.nn.Linear(hidden, CLASSES),
            ),
            lambda parameters: torch.optim.SGD(parameters, lr=rate, momentum=momentum, weight_decay=decay),
            self.epochs[level],
        )


TREES = 2.5621174848503445
NETWORK = 3.3286709153341336
