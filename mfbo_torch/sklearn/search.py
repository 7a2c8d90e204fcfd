"""A search over an estimator's parameters that learns from cheap evaluations, as scikit-learn's searches are used."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import is_classifier
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._split import _yields_constant_splits
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _num_samples

from mfbo_torch.history import History, Record
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.loop.run_options import RunOptions
from mfbo_torch.loop.stopping import Stopping
from mfbo_torch.problems.base import Problem
from mfbo_torch.sklearn.codec import SearchCodec
from mfbo_torch.sklearn.front import METRIC, front_of
from mfbo_torch.sklearn.subsamples import Subsamples
from mfbo_torch.sklearn.warm_start import EPOCHS, Checkpoints, WarmStart, last_step, way
from mfbo_torch.space import Space
from mfbo_torch.space.fidelities import Fidelities
from mfbo_torch.space.objectives import objectives_of
from mfbo_torch.strategies import MFEHVI, MFGPUCB, FreezeThaw, Strategy
from mfbo_torch.strategies.by_name import strategy_of
from mfbo_torch.strategies.common.deduplicate import used_up
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import temporary_folder

BUDGET = 10.0
"""The cost of a search where none is given."""
MOST_LEVELS = 3
"""The default number of fidelities: less than a ninth of the resources says little."""
ALL_FAILED = "\nAll the "
"""The beginning of scikit-learn's message that every fit failed, which it takes for an error of the whole search."""
HOPELESS = 5
"""The number of candidates after which a search without a single successful fit fails."""

Score = float | dict[str, float]
Evaluate = Callable[..., dict[str, Any]]
Design = tuple[tuple[float, ...], int]
"""A design and its fidelity, which are evaluated at most once."""


class MultiFidelitySearchCV(BaseSearchCV):
    """Search over parameters with cross-validation, with less than all of a resource where that is enough.

    It is used as :class:`~sklearn.model_selection.HalvingRandomSearchCV` is, and has its attributes. A strategy decides
    which parameters are evaluated next and with how much of the ``resource``; the best candidate with all of it is
    refitted.

    Args:
        estimator: The estimator to tune.
        param_distributions: Lists of values, or distributions with an ``rvs`` such as those of :mod:`scipy.stats`, by
            the names of the estimator's parameters; or a list of such dictionaries, alternatives. See
            :class:`~mfbo_torch.sklearn.codec.SearchCodec`.
        budget: The cost of the whole search, in evaluations of a candidate with all of the resource; what is
            ``capital`` elsewhere in this package.
        n_iter: Another name of it, as in :class:`~sklearn.model_selection.RandomizedSearchCV`: as many evaluations with
            all of the resource, or more with less of it.
        resource: ``"n_samples"``, or an integer parameter of the estimator, such as ``"n_estimators"``.
        fidelity: In its place, where candidates are to go on: ``"n_estimators"``, ``"max_iter"`` or ``"partial_fit"``,
            in a pipeline those of its last step, such as ``"mlp__max_iter"``. An estimator that can
            (:func:`~mfbo_torch.sklearn.warm_start.way`) is trained for what is missing, and costs that; the fitted ones
            of up to :data:`~mfbo_torch.sklearn.warm_start.KEPT` candidates are in a temporary folder meanwhile.
            Another begins anew. The best one is refitted from the beginning.
        max_resources: All of it; ``"auto"``: the number of samples. A parameter needs a number.
        min_resources: The least of it; ``"auto"``: about a ninth, ``"smallest"``: two samples of each class a fold,
            or 1 of another resource.
        factor: The ratio of the resource of a fidelity to that of the fidelity below.
        strategy: Decides, or its name; :class:`~mfbo_torch.MFGPUCB` if not given, :class:`~mfbo_torch.FreezeThaw` where
            candidates go on and are not finitely many. One that is named or not given has a seed from ``random_state``.
        stop_at: Ends the search once a candidate with all of the resource has this score.
        patience: Ends it once this part of the budget has brought no better score.
        time_limit: Seconds after which nothing more is decided.
        cv: The folds, as in scikit-learn; the same ones at each call.
        scoring: One metric, or several. ``refit`` names the one to search by; where it names none, the search is for
            the front of all of them, by :class:`~mfbo_torch.MFEHVI`.
        refit: Whether the best candidate is fitted to all samples; the name of a metric; or a function of
            ``cv_results_`` that chooses a row, such as :func:`~mfbo_torch.sklearn.knee`.
        error_score: The score where a fit fails, or ``"raise"``. Where all fits of a candidate fail, the search
            keeps away from its like.
        return_train_score: Whether ``cv_results_`` has training scores.
        random_state: Of the search and of the samples that are left out.
        n_jobs: Fits at once. As many candidates are decided together as it takes to keep them busy, each with those
            before it pending.
        verbose: How much is printed.

    Attributes:
        cv_results_: As in scikit-learn, with ``iter``, the number of the decision, and ``n_resources``.
        best_estimator_, best_params_, best_score_, best_index_: Among candidates with all of the resource.
        n_resources_: The resource of each fidelity, the least first.
        front_: Rows of ``cv_results_``: those that no other one beats in every metric, with all of the resource.
        history_: The :class:`~mfbo_torch.History` of the search; costs are in units of ``budget``.
    """

    estimator: Any
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: allowed for name, allowed in BaseSearchCV._parameter_constraints.items() if name != "pre_dispatch"},
        "param_distributions": [dict, list],
        "budget": [Interval(Real, 1, None, closed="left")],
        "resource": [str],
        "fidelity": [str, None],
        "max_resources": [Interval(Integral, 0, None, closed="neither"), StrOptions({"auto"})],
        "min_resources": [Interval(Integral, 0, None, closed="neither"), StrOptions({"auto", "smallest"})],
        "factor": [Interval(Real, 1, None, closed="neither")],
        "n_iter": [Interval(Integral, 1, None, closed="left"), None],
        "strategy": [Strategy, str, None],
        "stop_at": [Real, None],
        "patience": [Interval(Real, 0, None, closed="neither"), None],
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: Mapping[str, Any] | list[Mapping[str, Any]],
        *,
        budget: float = BUDGET,
        n_iter: int | None = None,
        resource: str = "n_samples",
        fidelity: str | None = None,
        max_resources: int | str = "auto",
        min_resources: int | str = "auto",
        factor: float = 3,
        strategy: Strategy | str | None = None,
        stop_at: float | None = None,
        patience: float | None = None,
        time_limit: float | None = None,
        cv: Any = 5,
        scoring: Any = None,
        refit: Any = True,
        error_score: float | str = np.nan,
        return_train_score: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(estimator, scoring=scoring, n_jobs=n_jobs, refit=refit, cv=cv, verbose=verbose)
        self.error_score, self.return_train_score = error_score, return_train_score
        self.param_distributions, self.strategy = param_distributions, strategy
        self.budget, self.n_iter = budget, n_iter
        self.stop_at, self.patience, self.time_limit = stop_at, patience, time_limit
        self.resource, self.fidelity, self.factor, self.random_state = resource, fidelity, factor, random_state
        self.max_resources, self.min_resources = max_resources, min_resources

    def fit(self, X: Any, y: Any = None, **params: Any) -> MultiFidelitySearchCV:
        """Search, and refit the best candidate; the arguments are those of scikit-learn's searches."""
        given = self.estimator
        try:
            super().fit(X, y, **params)
        finally:
            self.estimator = given
            self.__dict__.pop("_kept", None)
        return self

    @property
    def front_(self) -> list[int]:
        """Rows of ``cv_results_``: those that no other one beats in every metric, with all of the resource."""
        return front_of(self.cv_results_)

    @property
    def _metrics(self) -> tuple[str, ...]:
        """The names of the metrics whose front is searched for; none where there is one score to search by."""
        several = isinstance(self.scoring, list | tuple | set | dict) and len(self.scoring) > 1
        if isinstance(self.refit, str) or not several:
            return ()
        return tuple(sorted(self.scoring) if isinstance(self.scoring, set) else self.scoring)

    def _check_input_parameters(self, X: Any, y: Any, split_params: Mapping[str, Any]) -> None:
        """Refuse what cannot work before anything is fitted, and choose the fidelities."""
        if not _yields_constant_splits(self._checked_cv_orig):
            raise ValueError(
                "The cv parameter must yield consistent folds across calls to split(): "
                "set its random_state to an int, or shuffle=False."
            )
        for setting in ("stop_at", "patience") if self._metrics else ():
            if (given := getattr(self, setting)) is not None:
                raise SettingError(setting, given, f"left out: there is no single score of {', '.join(self._metrics)}")
        if self.n_iter is not None and self.budget != BUDGET:
            raise SettingError("n_iter", self.n_iter, f"left out where there is a budget, here {self.budget:g}")
        if self.fidelity is not None and self.resource != "n_samples":
            raise SettingError("resource", self.resource, f"left out where there is a fidelity, {self.fidelity!r}")
        setting, name = ("resource", self.resource) if self.fidelity is None else ("fidelity", self.fidelity)
        samples, goes_on = name == "n_samples", self.fidelity is not None and way(self.estimator, name) is not None
        self._parameter = None if samples or (goes_on and last_step(self.estimator, name)[1] == EPOCHS) else name
        if self._parameter and name not in self.estimator.get_params():
            raise SettingError(setting, name, f"'n_samples' or a parameter of {self.estimator}")
        if self.max_resources == "auto" and not samples:
            raise SettingError("max_resources", "auto", f"a number, where the {setting} is {name!r}")
        most = _num_samples(X) if isinstance(self.max_resources, str) else self.max_resources
        if not _num_samples(X):
            raise SettingError("X", "no samples", "at least one")
        least = 1
        if samples:
            if most > _num_samples(X):
                raise SettingError("max_resources", most, f"at most the number of samples, {_num_samples(X)}")
            least = 2 * self._checked_cv_orig.get_n_splits(X, y, **split_params)
            if is_classifier(self.estimator):
                check_classification_targets(y)
                least *= len(np.unique(y))
        if not isinstance(self.min_resources, str):
            least = self.min_resources
            if least > most:
                raise SettingError("min_resources", least, f"at most max_resources, {most}")
        usual = MOST_LEVELS if self.min_resources == "auto" else math.inf
        self._fraction = 1.0 / _num_samples(X)
        self._seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        self.n_resources_ = _levels(least, most, self.factor, usual)
        self._stratified = samples and is_classifier(self.estimator) and type_of_target(y) in ("binary", "multiclass")
        self._lost: list[tuple[dict[str, Any], dict[str, int]]] = []
        self._evaluated = 0
        self._failure: ValueError | None = None
        self._formatted: tuple[dict[str, Any], tuple[Any, ...]] = {}, ()
        self._kept = Checkpoints(name, most)
        if goes_on:
            self.estimator = WarmStart(self.estimator, self._kept)  # candidates are clones of it

    def _run_search(self, evaluate_candidates: Evaluate) -> None:
        """Search, with a folder for what is fitted meanwhile; the best one is refitted from the beginning."""
        with temporary_folder() as self._kept.folder:
            self._search(evaluate_candidates)
        self._kept.folder, self._kept.level = None, self._kept.most

    def _search(self, evaluate_candidates: Evaluate) -> None:
        """Ask, evaluate and tell until the budget is spent, or every candidate was tried with all of the resource."""
        codec = SearchCodec(self.param_distributions, np.random.RandomState(self._seed))
        if self._parameter in codec.names:
            setting = "resource" if self.fidelity is None else "fidelity"
            raise SettingError(setting, self._parameter, "none of the parameters that are searched")
        if not codec.free:
            self.history_ = History()
            self._evaluate(evaluate_candidates, [codec.decode(())], len(self.n_resources_) - 1, 0)
            return
        space = codec.space([level / self.n_resources_[-1] for level in self.n_resources_])
        goes_on = isinstance(self.estimator, WarmStart)
        if goes_on:
            named = {self._kept.name.rpartition("__")[2]: self.n_resources_}
            space = replace(space, fidelities=Fidelities.of(named), continues=True)
        if self._metrics:
            space = replace(space, objectives=objectives_of(self._metrics, maximize=True))
        budget = self.budget if self.n_iter is None else self.n_iter
        endless = not all(parameter.integer for parameter in space.parameters)  # a bracket is to be filled
        usual = MFEHVI if self._metrics else FreezeThaw if goes_on and endless else MFGPUCB
        seed = None if isinstance(self.strategy, Strategy) else self._seed
        optimizer = Optimizer(strategy_of(self.strategy, seed, usual).bind(space, budget))
        options = RunOptions(time_limit=self.time_limit, stop_at=self.stop_at, patience=self.patience)
        stopping = Stopping(options, _Scores(space), optimizer.strategy)
        batch = math.ceil(effective_n_jobs(self.n_jobs) / self.n_splits_)
        decisions, scores, begun = 0, dict[Design, Score](), dict[tuple[float, ...], int]()
        while not used_up(space, optimizer.history, space.target):
            if decisions and stopping.reason(optimizer.history):
                break
            asked = optimizer.ask(batch, capital=budget)
            if not asked:
                break
            new = list(dict.fromkeys(_design(record) for record in asked if _design(record) not in scores))
            begun = {x: m for x, m in begun.items() if self._kept.hold(codec.decode(x))}
            for m in sorted({fidelity for _, fidelity in new}):
                some = [x for x, fidelity in new if fidelity == m]
                found = self._evaluate(evaluate_candidates, list(map(codec.decode, some)), m, decisions)
                scores |= {(x, m): score for x, score in zip(some, found, strict=True)}
            for record in asked:
                x, m = _design(record)
                before = space.costs[begun[x]] if begun.get(x, m) < m else 0.0
                optimizer.tell(record.id, scores[x, m], cost=space.costs[m] - before if (x, m) in new else None)
            begun |= dict(new)
            self._kept.trim(codec.decode(x) for x, m in new if m == space.target)
            decisions += 1
        if self._failure is not None and not self._evaluated:
            raise self._failure
        if scores and (most := max(m for _, m in scores)) < space.target:
            level, all_ = self.n_resources_[most], self.n_resources_[-1]
            warnings.warn(f"no candidate had all {all_} {self._kept.name}: the best is one with {level}", stacklevel=2)
        self.history_ = optimizer.history
        self._formatted = {}, ()

    def _evaluate(self, evaluate: Evaluate, candidates: list[Any], fidelity: int, decision: int) -> list[Score]:
        """The mean scores of some candidates, by name where there are several; NaN where each fit failed."""
        level, folds = self.n_resources_[fidelity], self._checked_cv_orig
        self._kept.level = level
        if self._parameter:
            candidates = [{**candidate, self._parameter: level} for candidate in candidates]
        elif self._kept.name == "n_samples" and level * self._fraction < 1:
            folds = Subsamples(folds, level * self._fraction, self._seed, self._stratified)
        if self.verbose:
            print(f"iter: {decision}\nn_candidates: {len(candidates)}\nn_resources: {level}")
        more = {"iter": decision, "n_resources": level}
        try:
            columns = {name: [number] * len(candidates) for name, number in more.items()}
            results = evaluate(candidates, folds, more_results=columns)
        except ValueError as error:
            self._lost += [(candidate, more) for candidate in candidates]
            self._failure = error
            if not str(error).startswith(ALL_FAILED) or (not self._evaluated and len(self._lost) >= HOPELESS):
                raise
            if self._evaluated:
                held, arguments = self._formatted
                held.update(self._format_results(*arguments))
                self._formatted = held, arguments
            return [dict.fromkeys(self._metrics, math.nan) if self._metrics else math.nan] * len(candidates)
        rows = range(self._evaluated, self._evaluated + len(candidates))
        self._evaluated += len(candidates)
        if not self._metrics:
            scores = results[f"{METRIC}{self._metric(results)}"]
            return [float(scores[row]) for row in rows]
        return [{name: float(results[f"{METRIC}{name}"][row]) for name in self._metrics} for row in rows]

    def _metric(self, results: Mapping[str, Any]) -> str:
        """The name of the one metric to search by."""
        names = [name.removeprefix(METRIC) for name in results if name.startswith(METRIC)]
        if self.refit in names or len(names) == 1:
            return str(self.refit) if self.refit in names else names[0]
        wanted = f"the name of the metric to search by, {' or '.join(names)}; or give scoring as a list or a mapping"
        raise SettingError("refit", self.refit, wanted)

    def _format_results(
        self, candidate_params: list[Any], n_splits: int, out: list[Any], more_results: Any = None
    ) -> dict[str, Any]:
        """As in scikit-learn, with the candidates of which each fit failed at the end."""
        arguments = (candidate_params, n_splits, out, more_results)
        if self._lost:
            failed = _failed(out[0], self.error_score)
            candidate_params = [*candidate_params, *(candidate for candidate, _ in self._lost)]
            out = [*out, *[failed] * (n_splits * len(self._lost))]
            more_results = {k: [*values, *(more[k] for _, more in self._lost)] for k, values in more_results.items()}
        results = super()._format_results(candidate_params, n_splits, out, more_results)
        self._formatted = results, arguments
        return results

    def _select_best_index(self, refit: Any, refit_metric: str, results: Mapping[str, Any]) -> int:
        """The best candidate with the most of the resource, of those with a score; or what ``refit`` says."""
        if callable(refit):
            return BaseSearchCV._select_best_index(refit, refit_metric, results)
        scores, resources = results[f"mean_test_{refit_metric}"].astype(float), results["n_resources"]
        scores[len(scores) - len(self._lost) :] = math.nan  # what stands there is the error_score
        scored = ~np.isnan(scores)
        most = resources[scored].max() if scored.any() else resources.max()
        return int(np.where(scored & (resources == most), scores, -np.inf).argmax())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = False
        return tags


class _Scores(Problem):
    """The scores of candidates, which scikit-learn evaluates."""

    def __init__(self, space: Space) -> None:
        self.space = space

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        raise NotImplementedError


def _design(record: Record) -> Design:
    return record.query.x, record.query.fidelity


def _levels(least: float, most: int, factor: float, usual: float) -> list[int]:
    """The resources of the fidelities, about ``factor`` apart."""
    least = max(least, most / factor ** (usual - 1))
    steps = max(0, round(math.log(most / least, factor))) if least < most else 0
    return sorted({round(most * (least / most) ** (k / steps)) for k in range(steps + 1)}) if steps else [most]


def _failed(like: Mapping[str, Any], error_score: Any) -> dict[str, Any]:
    """The result of a failed fit, with the keys of another result."""
    found = {**like, "fit_time": 0.0, "score_time": 0.0}
    for name in ("test_scores", "train_scores"):
        if name in like:
            scores = like[name]
            found[name] = dict.fromkeys(scores, error_score) if isinstance(scores, dict) else error_score
    return found
