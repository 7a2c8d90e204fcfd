"""The search of scikit-learn: its own checks of estimators, what its searches promise, and what fidelities add."""

import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import expon, geom, loguniform, randint, uniform
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import estimator_checks_generator

from mfbo_torch import GPBUCB
from mfbo_torch.history import History, Status
from mfbo_torch.sklearn import MultiFidelitySearchCV, knee
from mfbo_torch.sklearn.codec import SearchCodec
from mfbo_torch.sklearn.search import _design
from mfbo_torch.sklearn.subsamples import Subsamples
from mfbo_torch.strategies import RandomSearch

X, Y = make_classification(180, n_features=5, random_state=0)
C = {"C": loguniform(1e-4, 1e3)}


def search(estimator=None, parameters=C, **settings):
    """A small search."""
    estimator = LogisticRegression() if estimator is None else estimator
    return MultiFidelitySearchCV(estimator, parameters, **{"cv": 2, "budget": 3, "random_state": 0, **settings})


CHECKS = list(estimator_checks_generator(search(budget=1, error_score="raise"), mark="skip"))


def _named(place):
    """An identifier that is the same in every process: a distribution's own has its address."""
    check = CHECKS[place][1]
    return f"{place}-{getattr(check, 'func', check).__name__}"


@pytest.mark.parametrize("place", range(len(CHECKS)), ids=_named)
def test_checks(place):
    estimator, check = CHECKS[place]
    check(estimator)


class Classifier(ClassifierMixin, BaseEstimator):
    """A classifier that scores by its parameters alone: best at a = 2, more with more rounds; or fails."""

    def __init__(self, a=0.0, kind="good", fail=None, rounds=8):
        self.a, self.kind, self.fail, self.rounds = a, kind, fail, rounds

    def fit(self, X, y, wanted=None):
        if self.fail == "fit":
            raise RuntimeError("cannot be fitted")
        self.classes_ = np.unique(y)
        self.n_features_in_, self.samples_, self.wanted_ = X.shape[1], len(X), wanted
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def score(self, X, y):
        if self.fail == "predict":
            raise RuntimeError("cannot predict")
        return -((self.a - 2.0) ** 2) - 1.0 / self.rounds - (0.0 if self.kind == "good" else 1.0)


A = {"a": uniform(0, 4)}


def test_results_are_those_of_cross_validation():
    """With all of the samples the scores are scikit-learn's, and the best of these is refitted."""
    found = search().fit(X, Y)
    results = found.cv_results_
    full = np.flatnonzero(results["n_resources"] == len(X))
    assert found.best_index_ == full[results["mean_test_score"][full].argmax()]
    assert found.best_score_ == results["mean_test_score"][found.best_index_]
    assert found.best_params_ == results["params"][found.best_index_]
    for i in full:
        model = LogisticRegression(**results["params"][i])
        assert results["mean_test_score"][i] == pytest.approx(cross_val_score(model, X, Y, cv=2).mean())
    assert np.array_equal(found.predict(X), LogisticRegression(**found.best_params_).fit(X, Y).predict(X))
    assert found.n_resources_ == [20, 60, 180]
    assert set(results["n_resources"]) <= set(found.n_resources_)
    assert list(results["iter"]) == list(range(len(results["iter"])))
    assert results["param_C"].tolist() == [each["C"] for each in results["params"]]
    assert sum(results["n_resources"]) / len(X) == pytest.approx(found.history_.spent)
    assert found.history_.spent <= 3
    assert [r.value for r in found.history_] == results["mean_test_score"].tolist()


@pytest.mark.slow
def test_what_is_found_depends_on_the_seed_alone():
    seeds = (1, np.random.RandomState(1), 2)
    searches = [search(Classifier(), A, random_state=seed, budget=2.5) for seed in seeds]
    one, same, other = (clone(each).fit(X, Y).cv_results_["params"] for each in searches)
    assert one == same != other


def test_the_words_of_scikit_learn_and_of_this_package():
    """``n_iter`` is the budget; a search ends early by the rules of a run."""
    by_budget, by_n_iter = (search(Classifier(), A, **given).fit(X, Y) for given in ({}, {"budget": 10.0, "n_iter": 3}))
    assert by_budget.cv_results_["params"] == by_n_iter.cv_results_["params"]
    named, made = (search(Classifier(), A, budget=3, strategy=s).fit(X, Y) for s in ("RandomSearch", RandomSearch()))
    assert len(named.history_) == len(made.history_)
    whole = search(Classifier(), A, budget=30, strategy="RandomSearch").fit(X, Y)
    good = sorted(whole.cv_results_["mean_test_score"])[len(whole.history_) // 2]
    for rule in ({"stop_at": good}, {"patience": 1.0}):
        early = search(Classifier(), A, budget=30, strategy="RandomSearch", **rule).fit(X, Y)
        assert len(early.history_) < len(whole.history_), rule


def test_a_parameter_as_resource():
    found = search(Classifier(), A, resource="rounds", max_resources=9, budget=5).fit(X, Y)
    assert found.n_resources_ == [1, 3, 9]
    assert [each["rounds"] for each in found.cv_results_["params"]] == found.cv_results_["n_resources"].tolist()
    assert found.best_params_["rounds"] == found.best_estimator_.rounds == 9
    assert abs(found.best_params_["a"] - 2) < 0.5


@pytest.mark.parametrize(
    ("settings", "levels"),
    [
        ({}, [1, 3, 10]),
        ({"min_resources": "smallest", "factor": 2}, [1, 2, 5, 10]),
        ({"min_resources": 4}, [4, 10]),
        ({"min_resources": 10}, [10]),
        ({"factor": 10}, [1, 10]),
    ],
)
def test_levels(settings, levels):
    fast = search(Classifier(), A, resource="rounds", max_resources=10, strategy=RandomSearch(), budget=1, **settings)
    assert fast.fit(X, Y).n_resources_ == levels


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning", "ignore::UserWarning")
@pytest.mark.parametrize("at", ["fit", "predict"])
def test_failures(at):
    """Candidates that fail are in the results, rank last, and end no search."""
    space = {"a": [1, 2, 3], "fail": [None, at]}
    found = search(Classifier(), space, resource="rounds", max_resources=4, budget=20).fit(X, Y)
    failed = np.array([each["fail"] is not None for each in found.cv_results_["params"]])
    scores, ranks = found.cv_results_["mean_test_score"], found.cv_results_["rank_test_score"]
    assert failed.any()
    assert np.array_equal(np.isnan(scores), failed)
    assert len(set(ranks[failed])) == 1
    assert ranks[failed].min() > ranks[~failed].max()
    assert found.best_params_ == {"a": 2, "fail": None, "rounds": 4}
    assert {len(column) for column in found.cv_results_.values()} == {len(failed)}
    assert len({_design(r) for r in found.history_.select(Status.FAILED)}) == failed.sum()


def test_failures_of_all():
    with pytest.raises(ValueError, match="All the 2 fits failed"):
        search(Classifier(fail="fit"), A, resource="rounds", max_resources=8).fit(X, Y)
    with pytest.raises(RuntimeError, match="cannot be fitted"):
        search(Classifier(fail="fit"), A, error_score="raise").fit(X, Y)


def test_a_time_limit_that_leaves_no_candidate_with_all_of_the_resource_is_told():
    with pytest.warns(UserWarning, match="no candidate had all"):
        search(time_limit=1e-9, budget=20).fit(X, Y)


def test_every_candidate_once():
    """Of a few, none is fitted twice, and nothing is spent once all have been tried with everything."""
    found = search(Classifier(), {"a": [0, 1, 2]}, resource="rounds", max_resources=3, budget=50).fit(X, Y)
    tried = [(each["a"], each["rounds"]) for each in found.cv_results_["params"]]
    assert len(tried) == len(set(tried)) <= 6
    assert {a for a, rounds in tried if rounds == 3} == {0, 1, 2}
    assert found.best_params_ == {"a": 2, "rounds": 3}


def test_nothing_to_search():
    assert search(parameters={"C": [0.5]}).fit(X, Y).best_params_ == {"C": 0.5}
    assert search(parameters={}).fit(X, Y).best_params_ == {}


def test_several_metrics():
    found = search(refit="neg_log_loss", scoring=["accuracy", "neg_log_loss"], budget=2).fit(X, Y)
    results = found.cv_results_
    assert found.best_score_ == results["mean_test_neg_log_loss"][results["n_resources"] == len(X)].max()
    assert [r.value for r in found.history_] == results["mean_test_neg_log_loss"].tolist()
    assert search(refit=lambda results: 0, scoring="accuracy", budget=1).fit(X, Y).best_index_ == 0
    assert not hasattr(search(refit=False, budget=1).fit(X, Y), "best_estimator_")


def test_the_front_of_several_metrics():
    metrics = {"accuracy": "accuracy", "sparse": lambda estimator, X, y: -np.abs(estimator.coef_).sum()}
    found = search(refit=knee, scoring=metrics, budget=5).fit(X, Y)
    results = found.cv_results_
    scores = np.stack([results[f"mean_test_{name}"] for name in metrics], -1)
    (whole,) = np.nonzero(results["n_resources"] == len(X))
    beaten = {i for i in whole for j in whole if (scores[j] >= scores[i]).all() and (scores[j] > scores[i]).any()}
    assert {*found.front_} <= {*whole} - beaten
    assert {tuple(scores[i]) for i in found.front_} == {tuple(scores[i]) for i in whole if i not in beaten}
    assert [*scores[found.front_, 0]] == sorted(scores[found.front_, 0], reverse=True)
    lost = (scores[found.front_].max(0) - scores[found.front_]) / np.ptp(scores[found.front_], 0)
    assert found.best_index_ == found.front_[np.square(lost).sum(1).argmin()]
    assert found.best_params_["C"] == found.best_estimator_.C
    told = [r.outcomes["sparse"].value for r in found.history_.done]
    assert told == pytest.approx([*scores[:, 1]])
    left = search(refit=False, scoring=["accuracy", "recall"], budget=1.5).fit(X, Y)
    assert left.front_
    assert not hasattr(left, "best_index_")


def test_fit_parameters_and_groups():
    groups = np.arange(len(X)) % 6
    found = search(Classifier(), A, cv=GroupKFold(3), budget=1, error_score="raise").fit(X, Y, groups=groups, wanted=7)
    assert found.best_estimator_.wanted_ == 7
    with pytest.raises(ValueError, match="groups"):
        search(Classifier(), A, cv=GroupKFold(3), budget=1).fit(X, Y)


def test_batches_keep_the_workers_busy():
    with parallel_config(backend="threading"):
        found = search(Classifier(), A, n_jobs=4, budget=3, strategy=GPBUCB(initial=1)).fit(X, Y)
    together = np.bincount(found.cv_results_["iter"])
    assert together.max() == 2
    assert len({each["a"] for each in found.cv_results_["params"]}) == len(together) + 1 == 3


def test_regression():
    y = X @ np.arange(5.0)
    found = search(Ridge(), {"alpha": loguniform(1e-3, 1e3)}, budget=2).fit(X, y)
    assert found.score(X, y) > 0.9
    assert found.n_resources_ == [20, 60, 180]


@pytest.mark.parametrize("stratified", [True, False])
def test_samples_that_are_left_out(stratified):
    """A smaller part is within a larger one, the test samples stay, and classes keep their shares."""
    y = np.repeat([0, 1, 2], [140, 36, 4])
    folds = StratifiedKFold(2)
    parts = [list(Subsamples(folds, f, 3, stratified).split(X, y)) for f in (0.1, 0.4, 1.0)]
    for small, middle, full, (train, test) in zip(*parts, folds.split(X, y), strict=True):
        assert [len(part[0]) for part in (small, middle, full)] == [9, 36, 90]
        assert set(small[0]) < set(middle[0]) < set(full[0]) == set(train)
        assert all(np.array_equal(part[1], test) for part in (small, middle, full))
        if stratified:
            assert np.bincount(y[middle[0]], minlength=3) == pytest.approx([28, 7.2, 0.8], abs=1)
            assert set(y[small[0]]) == {0, 1, 2}


def test_distributions():
    given = {"uniform": uniform(2, 3), "log": loguniform(1e-4, 1e2), "expon": expon(scale=2)}
    given |= {"randint": randint(3, 9), "geom": geom(0.5), "numbers": [8, 2, 4], "names": ["b", None, True]}
    given |= {"one": [5], "array": np.array([0.1, 0.2]), "drawn": Drawn()}
    codec = SearchCodec(given, np.random.RandomState(0))
    space = codec.space([1.0])
    rows = [codec.decode(query.x) for query in RandomSearch(space=space).ask(History(), 200)]
    column = {name: [row[name] for row in rows] for name in given}
    for name in ("uniform", "log", "expon"):  # as likely as in the distribution: equal parts between its quantiles
        shares = np.histogram(given[name].cdf(column[name]), bins=4, range=(0, 1))[0]
        assert shares == pytest.approx([50] * 4, abs=25), name
    values = {"randint": {*range(3, 9)}, "numbers": {2, 4, 8}, "names": {"b", None, True}}
    values |= {"one": {5}, "array": {0.1, 0.2}}
    assert {name: set(column[name]) for name in values} == values
    assert all(type(value) is int for value in column["randint"] + column["geom"])
    assert all(0 <= value < 1 for value in column["drawn"])
    place = [p.name for p in codec.free].index("numbers")
    designs = [[0.5] * place + [i] + [0.5] * (len(codec.free) - place - 1) for i in range(3)]
    assert [codec.decode(x)["numbers"] for x in designs] == [2, 4, 8]


def test_alternatives():
    """Of several dictionaries each candidate is one's."""
    spaces = [{"kind": ["bad"], "a": uniform(0, 4)}, {"kind": ["good"], "rounds": [1, 8]}, {"kind": ["bad", "good"]}]
    found = search(Classifier(), spaces, budget=8, strategy=RandomSearch()).fit(X, Y)
    assert {tuple(sorted(each)) for each in found.cv_results_["params"]} == {tuple(sorted(each)) for each in spaces}
    assert all(each["kind"] == "bad" for each in found.cv_results_["params"] if "a" in each)
    assert found.cv_results_["param_rounds"].mask.any()


class Drawn:
    """A distribution that can only be drawn from."""

    def rvs(self, random_state=None):
        return random_state.rand()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"resource": "rats"}, "resource = 'rats': must be 'n_samples' or a parameter of"),
        ({"resource": "a", "max_resources": 10}, "resource = 'a': must be none of the parameters that are searched"),
        ({"resource": "rounds"}, "max_resources = 'auto': must be a number, where the resource is 'rounds'"),
        ({"min_resources": 15, "max_resources": 14}, "min_resources = 15: must be at most max_resources, 14"),
        ({"max_resources": 200}, "max_resources = 200: must be at most the number of samples, 180"),
        ({"cv": KFold(shuffle=True)}, "must yield consistent folds"),
        ({"cv": ShuffleSplit()}, "must yield consistent folds"),
        ({"budget": 0.5}, "'budget' parameter .* must be a float in the range"),
        ({"factor": 1}, "'factor' parameter"),
        ({"min_resources": "exhaust"}, "'min_resources' parameter .*'auto'"),
        ({"strategy": 3}, "'strategy' parameter"),
        ({"strategy": "MFGPUBC"}, "strategy = 'MFGPUBC': .*did you mean MFGPUCB"),
        ({"n_iter": 5, "budget": 3}, "n_iter = 5: must be left out where there is a budget, here 3"),
        ({"scoring": ["accuracy"], "refit": True}, "a scorer key or a callable"),
        ({"scoring": ["accuracy", "recall"], "refit": False, "patience": 1}, "no single score of accuracy, recall"),
        ({"parameters": {"a": "abc"}}, r"param_distributions\['a'\] = 'abc': must be a list of values, or a dist"),
        ({"parameters": {"a": []}}, "at least one value"),
        ({"parameters": {"a": 3}}, "a list of values"),
        ({"parameters": []}, "a dictionary, or a list of some"),
        ({"parameters": {"b": [1, 2]}}, "Invalid parameter 'b'"),
    ],
)
def test_what_is_wrong_is_said(settings, said):
    """Before anything is fitted."""
    with pytest.raises(ValueError, match=said):
        search(Classifier(), **{"parameters": A, **settings}).fit(X, Y)


def test_a_sparse_matrix_and_lists():
    from scipy.sparse import csr_array

    near = {"n_neighbors": randint(1, 12)}
    dense, sparse = (search(KNeighborsClassifier(), near, budget=1).fit(data, Y) for data in (X, csr_array(X)))
    assert dense.best_params_ == sparse.best_params_
    assert search(budget=1).fit(X.tolist(), Y.tolist()).score(X, Y) > 0.5


@pytest.mark.parametrize("error_score", [np.nan, 0.0])
def test_a_candidate_that_cannot_be_fitted_is_not_the_best(error_score):
    only = {"fail": ["fit", None], "a": [1.0, 2.0]}
    found = search(Classifier(), only, budget=4, error_score=error_score).fit(X, Y)
    assert found.best_params_ == {"fail": None, "a": 2.0}
    assert found.best_score_ == -0.125
