"""Candidates that go on: as if they were fitted anew, where a warm start is exact, and for what is missing alone."""

import pickle

import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import loguniform, randint, uniform
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import Lasso, LogisticRegression, Perceptron, SGDClassifier
from sklearn.model_selection import KFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder
from sklearn.utils.estimator_checks import estimator_checks_generator

from mfbo_torch.sklearn import MultiFidelitySearchCV, warm_start
from mfbo_torch.sklearn.warm_start import EPOCHS, MORE, TOTAL, way

X, Y = make_classification(180, n_features=5, random_state=0)
SGD = SGDClassifier(tol=None, shuffle=False)


def search(estimator, parameters, fidelity, **settings):
    """A search by successive halving: nine candidates with 1, three with 3, one with 9."""
    usual = {"cv": 2, "budget": 2.4, "random_state": 0, "max_resources": 9, "strategy": "FreezeThaw"}
    return MultiFidelitySearchCV(estimator, parameters, fidelity=fidelity, **usual | settings)


class Counted(ClassifierMixin, BaseEstimator):
    """A classifier that scores by its parameter and its iterations, and counts those of all of its kind."""

    trained = 0

    def __init__(self, a=0.0, max_iter=9, warm_start=False, note=None):
        self.a, self.max_iter, self.warm_start, self.note = a, max_iter, warm_start, note

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        before = getattr(self, "iterations_", 0) if self.warm_start else 0
        self.iterations_ = before + self.max_iter
        Counted.trained += self.max_iter
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def score(self, X, y):
        assert type(self) is Counted
        return -((self.a - 2.0) ** 2) - 1.0 / self.iterations_


A = {"a": uniform(0, 4)}


@pytest.mark.parametrize(
    ("estimator", "fidelity", "how"),
    [
        (GradientBoostingRegressor(), "n_estimators", TOTAL),
        (RandomForestClassifier(), "n_estimators", TOTAL),
        (HistGradientBoostingClassifier(), "max_iter", TOTAL),
        (MLPClassifier(), "max_iter", MORE),
        (LogisticRegression(), "max_iter", MORE),
        (Lasso(), "max_iter", MORE),
        (SGD, "max_iter", EPOCHS),
        (SGDClassifier(), "partial_fit", EPOCHS),
        (GaussianNB(), "partial_fit", EPOCHS),
        (make_pipeline(StandardScaler(), MLPClassifier()), "mlpclassifier__max_iter", MORE),
        (make_pipeline(StandardScaler(), SGD), "sgdclassifier__partial_fit", EPOCHS),
        (SGDClassifier(), "max_iter", None),
        (SGDClassifier(tol=None, class_weight="balanced"), "max_iter", None),
        (Perceptron(tol=None, early_stopping=True), "max_iter", None),
        (MLPClassifier(early_stopping=True), "max_iter", None),
        (GradientBoostingRegressor(n_iter_no_change=3), "n_estimators", None),
        (GradientBoostingRegressor(), "max_depth", None),
        (LogisticRegression(solver="liblinear"), "max_iter", None),
        (KNeighborsClassifier(), "partial_fit", None),
        (make_pipeline(RandomForestClassifier(), "passthrough"), "randomforestclassifier__n_estimators", None),
        (make_pipeline(TargetEncoder(), SGD), "sgdclassifier__max_iter", None),
    ],
    ids=str,
)
def test_ways(estimator, fidelity, how):
    assert way(estimator, fidelity) == how


def scores_of_counted(found):
    """They are those of fits from the beginning."""
    for candidate, score in zip(found.cv_results_["params"], found.cv_results_["mean_test_score"], strict=True):
        assert score == pytest.approx(-((candidate["a"] - 2) ** 2) - 1 / candidate["max_iter"])


RATE = {"learning_rate": loguniform(1e-2, 1)}
ALPHA = {"alpha": loguniform(1e-6, 1e-1)}


@pytest.mark.parametrize(
    ("estimator", "parameters", "fidelity"),
    [
        (GradientBoostingRegressor(subsample=0.5, random_state=0), RATE, "n_estimators"),
        (ExtraTreesClassifier(random_state=0), {"min_samples_leaf": randint(1, 40)}, "n_estimators"),
        (HistGradientBoostingClassifier(), RATE, "max_iter"),
        (SGD, ALPHA, "max_iter"),
        (make_pipeline(StandardScaler(), SGD), {"sgdclassifier__alpha": ALPHA["alpha"]}, "sgdclassifier__max_iter"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_scores_are_those_of_fits_from_the_beginning(estimator, parameters, fidelity):
    found = search(estimator, parameters, fidelity).fit(X, Y)
    assert found.n_resources_ == [1, 3, 9]
    for candidate, score in zip(found.cv_results_["params"], found.cv_results_["mean_test_score"], strict=True):
        anew = clone(estimator).set_params(**candidate)
        assert cross_val_score(anew, X, Y, cv=2).mean() == pytest.approx(score, abs=1e-9)
    assert found.history_.spent < sum(found.cv_results_["n_resources"]) / 9
    anew = clone(estimator).set_params(**found.best_params_).fit(X, Y)
    assert type(found.best_estimator_) is type(estimator)
    assert np.allclose(found.predict(X), anew.predict(X), atol=1e-9)


def test_only_what_is_missing_is_trained():
    """And the search pays for just that; the user's estimator, and the folder, are as before."""
    given, Counted.trained = Counted(), 0
    found = search(given, A, "max_iter", refit=False).fit(X, Y)
    assert Counted.trained == pytest.approx(2 * 9 * found.history_.spent)
    assert sum(found.cv_results_["n_resources"]) > 9 * found.history_.spent
    scores_of_counted(found)
    assert found.estimator is given
    assert vars(given) == vars(Counted())
    assert pickle.loads(pickle.dumps(found)).best_params_ == found.best_params_


@pytest.mark.parametrize("attack", ["few", "estimator", "candidate", "disk"])
def test_what_cannot_go_on_begins_anew_and_pays_for_it(attack, monkeypatch):
    """Where estimators were dropped, could not be pickled, or not be written; the scores are the same."""
    if attack == "few":
        monkeypatch.setattr(warm_start, "KEPT", 5)
    if attack == "disk":
        monkeypatch.setattr(warm_start.joblib, "dump", lambda *_: 1 / 0)
    given, Counted.trained = Counted(note=(lambda: 0) if attack == "estimator" else None), 0
    more = {"note": [lambda: 0]} if attack == "candidate" else {}
    results = search(given, A | more, "max_iter", refit=False).fit(X, Y)
    assert Counted.trained == pytest.approx(2 * 9 * results.history_.spent)
    anew = sum(results.cv_results_["n_resources"]) == pytest.approx(9 * results.history_.spent)
    assert anew == (attack != "few")
    scores_of_counted(results)


def test_epochs_of_partial_fit():
    """Each is a call; the best one is refitted by as many."""
    estimator, folds = SGDClassifier(random_state=0), [*KFold(2).split(X)]

    def trained(candidate, epochs, part):
        model = clone(estimator).set_params(**candidate)
        for _ in range(epochs):
            model.partial_fit(X[part], Y[part], classes=[0, 1])
        return model

    found = search(estimator, ALPHA, "partial_fit", cv=KFold(2)).fit(X, Y)
    columns = (found.cv_results_[name] for name in ("params", "n_resources", "mean_test_score"))
    for candidate, epochs, score in zip(*columns, strict=True):
        scores = [trained(candidate, epochs, train).score(X[test], Y[test]) for train, test in folds]
        assert np.mean(scores) == pytest.approx(score)
    assert np.array_equal(found.best_estimator_.coef_, trained(found.best_params_, 9, slice(None)).coef_)


def test_workers_see_the_same():
    one = search(SGD, ALPHA, "max_iter").fit(X, Y)
    with parallel_config(backend="threading"):
        other = search(SGD, ALPHA, "max_iter", n_jobs=2).fit(X, Y)
    assert one.cv_results_["mean_test_score"].tolist() == other.cv_results_["mean_test_score"].tolist()


@pytest.mark.slow
def test_processes_see_the_same():
    one, other = (search(SGD, ALPHA, "max_iter", n_jobs=n).fit(X, Y) for n in (None, 2))
    assert one.cv_results_["mean_test_score"].tolist() == other.cv_results_["mean_test_score"].tolist()


def test_a_few_candidates():
    found = search(Counted(), {"a": [0, 1, 2, 3]}, "max_iter", strategy=None, budget=4).fit(X, Y)
    assert found.best_params_ == {"a": 2, "max_iter": 9}


def test_several_metrics():
    settings = {"strategy": None, "budget": 1.5, "scoring": ["accuracy", "recall"], "refit": False}
    found = search(SGD, ALPHA, "max_iter", **settings).fit(X, Y)
    assert found.front_
    assert found.history_.spent < sum(found.cv_results_["n_resources"]) / 9


def test_an_estimator_without_warm_start_begins_anew():
    found = search(SGDClassifier(random_state=0), ALPHA, "max_iter").fit(X, Y)
    plain = search(SGDClassifier(random_state=0), ALPHA, None, resource="max_iter").fit(X, Y)
    assert found.cv_results_["mean_test_score"].tolist() == plain.cv_results_["mean_test_score"].tolist()
    assert found.history_.spent == pytest.approx(sum(found.cv_results_["n_resources"]) / 9)


NAMED = (
    "check_dict_unchanged",
    "check_dont_overwrite_attributes",
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_estimators_empty_data_messages",
)
CHECKS = [
    (estimator, check)
    for estimator, check in estimator_checks_generator(search(SGD, ALPHA, "max_iter", budget=1), mark="skip")
    if getattr(check, "func", check).__name__ in NAMED
]


@pytest.mark.parametrize("place", range(len(CHECKS)))
def test_checks(place):
    estimator, check = CHECKS[place]
    check(estimator)


@pytest.mark.parametrize(
    ("fidelity", "settings", "said"),
    [
        (
            "max_iter",
            {"resource": "alpha"},
            "resource = 'alpha': must be left out where there is a fidelity, 'max_iter'",
        ),
        ("rats", {}, "fidelity = 'rats': must be 'n_samples' or a parameter of"),
        ("a__partial_fit", {}, "fidelity = 'a__partial_fit': must be 'n_samples' or a parameter of"),
        ("max_iter", {"max_resources": "auto"}, "max_resources = 'auto': must be a number, where the fidelity is"),
        ("alpha", {}, "fidelity = 'alpha': must be none of the parameters that are searched"),
    ],
)
def test_what_is_wrong_is_said(fidelity, settings, said):
    with pytest.raises(ValueError, match=said):
        search(SGD, ALPHA, fidelity, **settings).fit(X, Y)


@pytest.mark.parametrize("head_asks", [False, True])
def test_weights_are_routed_to_the_steps_that_ask_for_them(head_asks):
    X, y = make_classification(60, random_state=0)
    weights = np.where(np.arange(60) % 2, 1.0, 1e-9)
    with config_context(enable_metadata_routing=True):
        last = SGDClassifier(random_state=0).set_partial_fit_request(sample_weight=True)
        last = last.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        head = StandardScaler().set_fit_request(sample_weight=head_asks)
        search = MultiFidelitySearchCV(
            make_pipeline(head, last),
            {"sgdclassifier__alpha": loguniform(1e-5, 1)},
            fidelity="sgdclassifier__partial_fit",
            max_resources=9,
            budget=3,
            error_score="raise",
        ).fit(X, y, sample_weight=weights)
        alone = clone(last).set_params(alpha=search.best_params_["sgdclassifier__alpha"])
        scaled = StandardScaler().fit(X, sample_weight=weights if head_asks else None).transform(X)
        for _ in range(9):
            alone.partial_fit(scaled, y, classes=[0, 1], sample_weight=weights)
    assert np.array_equal(search.best_estimator_[-1].coef_, alone.coef_)
