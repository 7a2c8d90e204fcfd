"""The objective of own_objective.yaml: the validation accuracy of a small neural network."""

import warnings
from collections.abc import Mapping

from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

EPOCHS = (3, 30)


def accuracy(parameters: Mapping[str, float], fidelity: int) -> float:
    """Train for 3 epochs at fidelity 0, for 30 at fidelity 1, which costs ten times as much."""
    X, y = load_digits(return_X_y=True)
    X, X_held_out, y, y_held_out = train_test_split(X / 16, y, test_size=0.3, random_state=0)
    network = MLPClassifier(
        hidden_layer_sizes=(int(parameters["neurons"]),),
        learning_rate_init=parameters["learning_rate"],
        alpha=parameters["penalty"],
        max_iter=EPOCHS[fidelity],
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return float(network.fit(X, y).score(X_held_out, y_held_out))
