"""``MultiFidelitySearchCV`` beside scikit-learn's searches, at equal resources.

A study (:mod:`benchmarks.study`): ``doors-searches.csv``. Each spends what ten evaluations with all of the resource
take: ten candidates (``RandomizedSearchCV``), thirty in three rungs (``HalvingRandomSearchCV``), or a budget of 10,
which is the capital. Three tenths of the samples are held out, others with each seed.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from scipy.stats import loguniform, randint, uniform
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import HalvingRandomSearchCV, RandomizedSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.study import Job, Row, Study
from mfbo_torch.sklearn import MultiFidelitySearchCV

RATIO = 9


class Case(NamedTuple):
    """Something to tune, made anew for each seed; ``most`` of a resource that is not the samples."""

    estimator: Callable[[int], Any]
    data: Callable[..., Any]
    distributions: dict[str, Any]
    resource: str = "n_samples"
    most: int = 0


CASES = {
    "SVC, digits": Case(lambda seed: SVC(), load_digits, {"C": loguniform(1e-2, 1e4), "gamma": loguniform(1e-6, 1e-1)}),
    "kernel ridge, diabetes": Case(
        lambda seed: make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")),
        load_diabetes,
        {"kernelridge__alpha": loguniform(1e-4, 1e2), "kernelridge__gamma": loguniform(1e-4, 1e1)},
    ),
    "gradient boosting, diabetes": Case(
        lambda seed: GradientBoostingRegressor(random_state=seed),
        load_diabetes,
        {
            "learning_rate": loguniform(1e-3, 1),
            "max_depth": randint(1, 7),
            "subsample": uniform(0.3, 0.7),
            "min_samples_leaf": randint(1, 30),
        },
        "n_estimators",
        180,
    ),
    "SGD, digits": Case(
        lambda seed: SGDClassifier(penalty="elasticnet", tol=None, learning_rate="constant", random_state=seed),
        load_digits,
        {"alpha": loguniform(1e-7, 1e0), "eta0": loguniform(1e-6, 1e0), "l1_ratio": uniform(0, 1)},
        "max_iter",
        45,
    ),
}


def searches(case: Case, samples: int, budget: int, seed: int) -> dict[str, Any]:
    """The searches by name."""
    own = {"random_state": seed, "cv": 3}
    most = case.most or samples
    halving = {"resource": case.resource, "max_resources": most}
    what = (case.estimator(seed), case.distributions)
    rungs = {"min_resources": most // RATIO, "factor": 3, "n_candidates": 3 * budget}
    return {
        "MultiFidelitySearchCV": MultiFidelitySearchCV(*what, budget=budget, **halving, **own),
        "HalvingRandomSearchCV": HalvingRandomSearchCV(*what, **rungs, **halving, return_train_score=False, **own),
        "RandomizedSearchCV": RandomizedSearchCV(_all_of(case, what[0]), what[1], n_iter=budget, **own),
    }


def _all_of(case: Case, estimator: Any) -> Any:
    """The estimator with all of a resource that is one of its parameters."""
    return estimator.set_params(**{case.resource: case.most}) if case.most else estimator


def execute(job: Job) -> list[Row]:
    """Search, and score what was found on what was held out."""
    case, (budget,) = CASES[job.problem], job.capitals
    X, y = case.data(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=job.seed)
    started = time.process_time()
    found = searches(case, len(X), budget, job.seed)[job.method].fit(X, y)
    seconds = time.process_time() - started
    results = found.cv_results_
    fitting = float((results["mean_fit_time"] + results["mean_score_time"]).sum() * 3)
    most = case.most or len(X)
    resources = float(sum(results["n_resources"]) / most) if "n_resources" in results else len(results["params"])
    numbers = (found.score(X_test, y_test), found.best_score_, resources, fitting, seconds)
    return [(*job[:3], budget, *(round(float(value), 5) for value in numbers))]


STUDY = Study(
    "benchmarks.quality.searches",
    "doors-searches",
    CASES,
    dict.fromkeys(("MultiFidelitySearchCV", "HalvingRandomSearchCV", "RandomizedSearchCV")),
    (10,),
    ("held_out", "cross_validated", "resources", "fitting_seconds", "processor_seconds"),
    execute=execute,
)


if __name__ == "__main__":
    raise SystemExit(STUDY.main(__doc__))
