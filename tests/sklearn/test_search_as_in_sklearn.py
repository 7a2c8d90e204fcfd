"""What scikit-learn's own searches take, and how they fail."""

import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy.stats import rv_discrete, uniform
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge, SGDClassifier
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from mfbo_torch.sklearn import MultiFidelitySearchCV
from mfbo_torch.utils.errors import SettingError

X, Y = load_iris(return_X_y=True)
USUAL = {"strategy": "RandomSearch", "budget": 2, "random_state": 0}


def searched(estimator, space, y=Y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MultiFidelitySearchCV(estimator, space, **{"cv": 3, **USUAL, **settings}).fit(X, y)


def test_a_discrete_distribution_with_gaps():
    found = searched(Ridge(), {"alpha": rv_discrete(values=([1, 10, 100], [0.3, 0.3, 0.4]))}, budget=4)
    assert {each["alpha"] for each in found.cv_results_["params"]} <= {1, 10, 100}


@pytest.mark.parametrize("kind", ["lists", "masks"])
@pytest.mark.parametrize("estimator", [Ridge(), SVC()])
def test_folds_that_are_lists_or_masks(kind, estimator):
    folds = [(train, test) for train, test in KFold(3, shuffle=True, random_state=0).split(X)]
    if kind == "lists":
        given = [(list(train), list(test)) for train, test in folds]
    else:
        given = [tuple(np.isin(np.arange(len(X)), part) for part in fold) for fold in folds]
    name = "alpha" if isinstance(estimator, Ridge) else "C"
    same = [searched(estimator, {name: uniform(0.1, 1)}, cv=cv).cv_results_["mean_test_score"] for cv in (given, folds)]
    assert np.array_equal(*same)


def test_draws_that_are_lists():
    class Layers:
        def rvs(self, random_state=None):
            return [int(random_state.randint(3, 5))] * 2

    found = searched(MLPClassifier(max_iter=3), {"hidden_layer_sizes": Layers()})
    assert found.best_params_["hidden_layer_sizes"] in ([3, 3], [4, 4])


def test_where_all_fits_fail_it_is_said():
    with pytest.raises(ValueError, match="All the 3 fits failed"):
        searched(SVC(), {"C": uniform(-2, 1)}, min_resources=150)


def test_a_time_limit_that_is_over_at_once_leaves_one_decision():
    assert searched(Ridge(), {"alpha": uniform(0.1, 1)}, time_limit=1e-6).history_


def test_a_function_that_gives_several_metrics_needs_one_to_refit():
    def scoring(estimator, X, y):
        return {"a": estimator.score(X, y), "b": 1.0}

    with pytest.raises(SettingError, match="a or b; or give scoring as a list or a mapping"):
        searched(SVC(), {"C": uniform(0.1, 1)}, scoring=scoring, refit=False)


@pytest.mark.parametrize(
    ("estimator", "name"),
    [(MLPClassifier((4,)), "alpha"), (MultiOutputClassifier(SGDClassifier()), "estimator__alpha")],
)
def test_partial_fit_with_several_outputs(estimator, name):
    y = np.stack([Y > 0, Y > 1, Y < 1], 1).astype(int)
    folds = KFold(3, shuffle=True, random_state=0)
    settings = {"fidelity": "partial_fit", "max_resources": 3, "error_score": "raise", "cv": folds}
    assert searched(estimator, {name: uniform(1e-4, 1e-2)}, y, **settings).best_score_ >= 0
