"""The SVM problem against a plain loop with its own kernel matrix."""

import numpy as np
import pytest
from refusals import refused
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from mfbo_torch.problems import SVM


def accuracy(X, y, bandwidth, C, folds):
    def kernel(A, B):
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(-1) / (2 * A.shape[1] * bandwidth**2))

    scores = []
    for train, test in folds:
        mean, std = X[train].mean(0), X[train].std(0)
        Z = (X - mean) / np.where(std == 0, 1, std)
        machine = SVC(C=C, kernel="precomputed").fit(kernel(Z[train], Z[train]), y[train])
        scores.append(np.mean(machine.predict(kernel(Z[test], Z[train])) == y[test]))
    return np.mean(scores)


@pytest.mark.parametrize("point", [(1.0, 10.0), (0.4, 0.5)])
def test_value_is_the_cross_validated_accuracy(point):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(3).permutation(len(y))[:300]
    problem = SVM(sizes=(200, 300), seed=3)
    for fidelity, n in enumerate(problem.sizes):
        some = order[:n]
        folds = StratifiedKFold(5, shuffle=True, random_state=3).split(X[some], y[some])
        expected = accuracy(X[some], y[some], *point, folds)
        assert problem.evaluate(point, fidelity) == pytest.approx(expected, abs=1e-12)


def test_defaults_make_a_multi_fidelity_problem():
    problem = SVM()
    assert problem.sizes == (400, 1797)
    assert problem.space.costs == pytest.approx((1, (1797 / 400) ** (5 / 3)))
    assert [(p.name, p.lower, p.upper, p.log) for p in problem.space.parameters] == [
        ("bandwidth", 1e-3, 1e1, True),
        ("C", 1e-1, 1e5, True),
    ]
    good, narrow = (1.0, 10.0), (1e-3, 10.0)
    assert problem.evaluate(narrow, 0) < 0.2 < 0.9 < problem.evaluate(good, 0) < problem.evaluate(good, 1)
    assert problem.optimum is None


def test_magic_is_the_same_for_a_seed_and_has_the_papers_sizes(data_dir):
    one, other = SVM(data="magic", sizes=(100, 300)), SVM(data="magic", sizes=(100, 300))
    point = (2.0, 1.0)
    assert one.evaluate(point, 1) == other.evaluate(point, 1) == one.evaluate(point, 1) > 0.7
    assert not np.array_equal(one.features, SVM(data="magic", sizes=(100, 300), seed=1).features)
    problem = SVM(data="magic", measured=True)
    assert problem.space.measured
    assert (problem.sizes, problem.features.shape) == ((500, 2000), (2000, 10))


def test_iterations_are_bounded(monkeypatch, recwarn):
    monkeypatch.setattr(SVM, "max_iterations", 1)
    assert 0 <= SVM(sizes=(100, 150)).evaluate((1.0, 1e5), 1) <= 1
    assert not [w for w in recwarn if "Solver" in str(w.message)]


def test_bad_settings_are_named():
    refused("data = 'iris': must be 'digits' or 'magic'", SVM, data="iris")
    refused("increasing whole numbers from 100 to 1797", SVM, sizes=(400, 1800))
